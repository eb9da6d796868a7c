"""Where the faster kernel changes: the cut in num_tokens with the least total regret, and how sure it is.

``d(T) = log t_prefill(T) - log t_decode(T)``, each side the best plan of its kernel: positive where decode wins. No
curve is fitted through latencies: waves make them jump, and a cut needs only the sign and the size of d.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cake_tune.fit.bootstrap import interval, paired_differences
from cake_tune.fit.regret import point_weights
from cake_tune.fit.samples import Bools, Floats, Ints, Samples
from cake_tune.planner.shape import Kernel
from cake_tune.planner.table import PlannerTable


@dataclass(frozen=True, slots=True)
class KernelInterval:
    """A stretch of num_tokens (inclusive; ``max_tokens`` None: open) on which one kernel is the faster."""

    min_tokens: int
    max_tokens: int | None
    kernel: Kernel


@dataclass(frozen=True, slots=True)
class Crossover:
    """The crossover of one (num_heads, topk, extra_topk), from the shapes on which both kernels were measured.

    Decode up to ``threshold`` tokens, prefill above (None: decode always). ``low`` and ``high`` bracket it with 95 %
    confidence: decode up to the measured num_tokens ``low`` (0: nowhere), prefill from the measured ``high`` on
    (None: nowhere measured); in between either may be the faster. ``intervals`` is empty unless one threshold does not
    describe what was measured.
    ``num_tokens`` and ``advantage`` are the grid: ``advantage`` is d(T), the log of prefill's time over decode's.
    """

    num_heads: int
    topk: int
    extra_topk: int
    threshold: int | None
    low: int
    high: int | None
    intervals: tuple[KernelInterval, ...]
    num_tokens: tuple[int, ...]
    advantage: tuple[float, ...]

    @property
    def everywhere(self) -> Kernel | None:
        """The kernel to use at every measured num_tokens; None where that changes on the way."""
        if self.intervals:
            return None
        if self.threshold is None or self.threshold >= self.num_tokens[-1]:
            return "decode"
        return "prefill" if self.threshold < self.num_tokens[0] else None

    @property
    def decided(self) -> bool:
        """Whether one kernel is surely the faster at any measured num_tokens."""
        return self.low > 0 or self.high is not None

    @property
    def doubtful(self) -> bool:
        """Whether some measured num_tokens lies inside the bracket, where either kernel may be the faster."""
        return any(self.low < tokens and (self.high is None or tokens < self.high) for tokens in self.num_tokens)

    @property
    def settled(self) -> bool:
        """Whether no further point could narrow the bracket: its ends are adjacent, or closer than 12.5 %."""
        return self.high is not None and (self.high - self.low <= 1 or self.high < 1.125 * self.low)


class Duel(NamedTuple):
    """Both kernels side by side at ``n`` points, sorted as the samples are."""

    point: Ints
    """Indices into the samples."""
    num_tokens: Ints
    weight: Floats
    advantage: Floats
    replicates: NDArray[np.float32]
    """[replicates, n]"""
    tie_band: Floats

    def take(self, chosen: Bools | slice) -> "Duel":
        """The duel at the chosen points."""
        return Duel(
            self.point[chosen],
            self.num_tokens[chosen],
            self.weight[chosen],
            self.advantage[chosen],
            self.replicates[:, chosen],
            self.tie_band[chosen],
        )


class Cut(NamedTuple):
    """A threshold and its bracket, as in ``Crossover``."""

    threshold: int | None
    low: int
    high: int | None


def crossovers(samples: Samples, in_force: PlannerTable | None = None) -> list[Crossover]:
    """The crossover of every (num_heads, topk, extra_topk) at which both kernels have a time, in that order.

    A threshold of ``in_force`` stays where it lies inside the bracket. An empty list when no shape has both kernels.
    """
    both = duel(samples)
    found = []
    for (num_heads, topk, extra_topk), points in samples.groups():
        here = both.take((both.point >= points.start) & (both.point < points.stop))
        if not len(here.point):
            continue
        held = _threshold_in_force(in_force, num_heads, topk, extra_topk) if in_force else _NONE_IN_FORCE
        cut = least_regret_cut(here, held)
        found.append(
            Crossover(
                num_heads=num_heads,
                topk=topk,
                extra_topk=extra_topk,
                threshold=cut.threshold,
                low=cut.low,
                high=cut.high,
                intervals=_intervals(here, cut),
                num_tokens=tuple(here.num_tokens.tolist()),
                advantage=tuple(round(float(value), 6) for value in here.advantage),
            )
        )
    return found


def duel(samples: Samples) -> Duel:
    """The points at which both kernels have a time, with octave weights over each group's points."""
    decode, _ = samples.best("decode")
    prefill, _ = samples.best("prefill")
    points = np.flatnonzero(samples.timed("decode") & samples.timed("prefill"))
    advantage, replicates = paired_differences(samples, points, prefill[points], decode[points])
    weight = point_weights(samples.take(points)) if len(points) else np.ones(0)
    return Duel(points, samples.num_tokens[points], weight, advantage, replicates, samples.tie_band[points])


_NONE_IN_FORCE = -1
"""A threshold that lies in no bracket."""


def least_regret_cut(here: Duel, in_force: int | None = _NONE_IN_FORCE) -> Cut:
    """The cut of one or several pooled groups, its bracket, and the threshold to use.

    Where every measured point favours one kernel the bracket is open on the other side; then a threshold in force
    that no point contradicts stays, and another moves no further than the points force it to.
    """
    grid = np.unique(here.num_tokens)
    best = _best_cut(grid, here.num_tokens, here.weight, here.advantage[None, :])
    cuts = _best_cut(grid, here.num_tokens, here.weight, here.replicates)
    # The reported cut belongs to its own interval, however the resampled ones fall.
    ends = interval(cuts)
    first, last = min(int(ends[0]), int(best[0])), max(int(ends[1]), int(best[0]))
    low = int(grid[first - 1]) if first else 0
    high = int(grid[last]) if last < len(grid) else None
    if _inside(in_force, low, high):
        return Cut(in_force, low, high)
    if high is None:
        return Cut(int(grid[-1]), low, high)
    return Cut(midpoint(low, high) if low else high - 1, low, high)


def midpoint(low: int, high: int) -> int:
    """The last integer nearer to ``low`` than to ``high`` on a log axis; from ``low`` to ``high - 1``."""
    return min(math.isqrt(low * high), high - 1)


def _inside(threshold: int | None, low: int, high: int | None) -> bool:
    if threshold is None:
        return high is None
    return low <= threshold and (high is None or threshold < high)


def _best_cut(grid: Ints, num_tokens: Ints, weight: Floats, advantage: NDArray[np.floating]) -> Ints:
    """Per row of ``advantage``, how many grid points go to decode in the cut with the least total regret."""
    place = np.searchsorted(grid, num_tokens)
    # Moving the cut past a grid point trades prefill's regret there for decode's: the sum of both is -weight * d.
    order = np.argsort(place, kind="stable")
    columns, first = np.unique(place[order], return_index=True)
    change = np.zeros((advantage.shape[0], len(grid) + 1))
    change[:, columns + 1] = -np.add.reduceat(weight[order] * advantage[:, order], first, axis=1)
    least: Ints = np.argmin(np.cumsum(change, axis=1), axis=1)
    return least


def _threshold_in_force(table: PlannerTable, num_heads: int, topk: int, extra_topk: int) -> int | None:
    """The table's threshold for a group: its rules', or -1 where these never decode."""
    for limit in table.rules.decode_max_tokens:
        if num_heads >= limit.min_heads and topk + extra_topk >= limit.min_candidates:
            return limit.num_tokens
    return 0


def _intervals(here: Duel, cut: Cut) -> tuple[KernelInterval, ...]:
    """Intervals instead of one threshold, if two neighbouring points lie beyond the tie band on its wrong side."""
    before = here.num_tokens <= (cut.threshold if cut.threshold is not None else here.num_tokens[-1])
    wrong = np.where(before, -here.advantage, here.advantage) > here.tie_band
    outside = (here.num_tokens < max(cut.low, 1)) | (here.num_tokens > (cut.high or here.num_tokens[-1]))
    wrong &= outside
    if not np.any(wrong[1:] & wrong[:-1]):
        return ()
    clear = np.abs(here.advantage) > here.tie_band
    decode = before.copy()
    decode[clear] = here.advantage[clear] > 0
    changes = np.flatnonzero(decode[1:] != decode[:-1]) + 1
    edges = [0, *(midpoint(int(here.num_tokens[i - 1]), int(here.num_tokens[i])) for i in changes)]
    kernels: list[Kernel] = ["decode" if decode[i] else "prefill" for i in (0, *changes.tolist())]
    ends = [*edges[1:], None]
    return tuple(KernelInterval(a + 1, b, kernel) for a, b, kernel in zip(edges, ends, kernels, strict=True))
