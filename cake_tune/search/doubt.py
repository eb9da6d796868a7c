"""How far a cost model can be trusted at points that nobody measured: what its choice is expected to lose there.

The model is off by different amounts in different places. What it missed at the measured points, net of their noise,
says how much it misses nearby; a plan whose predicted time lies beyond that of the fastest by more needs no measuring.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cake_tune.fit.cost_model import predict
from cake_tune.fit.cost_rows import Rows, rows_of
from cake_tune.fit.samples import LEAST_ROUNDS, Floats, Ints, Samples
from cake_tune.planner.cost import CostModel
from cake_tune.planner.shape import HEADS_PER_TILE, Kernel, Plan
from cake_tune.spec import Point

_REACH = 1.0
"""Octaves of num_tokens, blocks or chunks over which an error is alike."""
_OTHER_KIND = 0.05
"""What an error of another kernel, or of other head tiles, tells beside one of the same."""
_TRUST = 2.0
"""Measured plans' worth of errors that a correction is held against: few errors correct little."""
_CONTEST = 0.05
"""Excess over the point's best at which an error counts half: those of hopeless plans decide nothing."""
_LEAST_ERROR = 0.002
_DRAWS = 64
_SEED = 20_030_303
_MOST_ROWS = 2000
"""Measured plans that errors are taken from."""
_BLOCK = 4096
"""Plans that are looked at together."""
_MARGIN = 2.0
"""A plan may be the fastest while it is predicted within so many joint errors of the one that is."""


@dataclass(frozen=True)
class Doubt:
    """What the model expects of some points: per point the mean regret of its choice, and the plans in question."""

    regret: Floats
    """A fraction."""
    plans: tuple[tuple[Plan, ...], ...]
    """At least two where the point has as many, and one of each of its kernels; in the order of the point."""


def doubt(
    samples: Samples,
    model: CostModel,
    num_sms: int,
    points: Sequence[Point],
    answers: Sequence[Plan | None] | None = None,
) -> Doubt:
    """What ``model``, calibrated on ``samples``, may lose at ``points``.

    With ``answers``, one per point, what these may lose by the model; None for one that no plan of the point is.
    """
    known = _Known(samples, model, num_sms)
    regrets, kept = [np.zeros(0)], []
    asked = None if answers is None else list(reversed(answers))
    for block in _blocks(points):
        taken = None if asked is None else [asked.pop() for _ in block]
        regret, plans = _doubt(known, block, taken)
        regrets.append(regret)
        kept += plans
    return Doubt(np.concatenate(regrets), tuple(kept))


class _Known:
    """The model's errors at the measured plans."""

    def __init__(self, samples: Samples, model: CostModel, num_sms: int) -> None:
        self.model, self.num_sms = model, num_sms
        self.kinds = tuple((cost.kernel, cost.head_tiles) for cost in model.kernels)
        rows, timed, point = rows_of(samples)
        log_time = samples.log_time[timed]
        excess = log_time - samples.best()[1][point]
        weight = 1 / (1 + excess / _CONTEST)
        off = log_time - np.log(predict(model, rows, num_sms))
        # What is common to all plans of a point decides nothing between them.
        total = np.bincount(point, weights=weight)
        common = np.bincount(point, weights=weight * off) / np.where(total > 0, total, 1)
        off = off - common[point]
        used = np.argsort(excess, kind="stable")[:_MOST_ROWS]
        self.off, self.weight = off[used], weight[used]
        self.noise = _noise(samples)[timed][used]
        self.place = _place(rows, rows.kind)[used]
        self.kind = rows.kind[used]

    def nearby(self, place: Floats, kind: Ints) -> tuple[Floats, Floats]:
        """The error to expect of plans at these places: its mean, and its deviation."""
        apart = ((place[:, None, :] - self.place[None, :, :]) ** 2).sum(axis=2)
        near = np.exp(-apart / (2 * _REACH**2)) * self.weight
        near *= np.where(kind[:, None] == self.kind[None, :], 1.0, _OTHER_KIND)
        total = near.sum(axis=1)
        mean = (near @ self.off) / (total + _TRUST)
        # Where nothing is near, the error of the whole model is to be expected.
        usual = float(self.weight @ self.off**2 / self.weight.sum())
        squares = (near @ np.maximum(self.off**2 - self.noise, 0.0) + 0.5 * usual) / (total + 0.5)
        spread = np.sqrt(np.maximum(squares - mean**2, _LEAST_ERROR**2))
        return mean, spread


def _doubt(
    known: _Known, points: Sequence[Point], answers: Sequence[Plan | None] | None
) -> tuple[Floats, list[tuple[Plan, ...]]]:
    rows = _rows(known, points)
    sizes = [len(point.plans) for point in points]
    start = np.concatenate([[0], np.cumsum(sizes)])[:-1]
    owner = np.repeat(np.arange(len(points)), sizes)
    able = rows.kind >= 0
    guess = np.full(len(rows), np.inf)
    spread = np.full(len(rows), _LEAST_ERROR)
    some = rows.take(able)
    mean, spread[able] = known.nearby(_place(some, some.kind), some.kind)
    guess[able] = np.log(predict(known.model, some, known.num_sms)) + mean
    # A kernel that was never timed may be anything: as good as the best.
    least = np.minimum.reduceat(guess, start)
    guess = np.where(able, guess, least[owner])
    choice = np.array(
        [first + int(np.argmin(guess[first : first + size])) for first, size in zip(start, sizes, strict=True)]
    )
    drawn = np.random.default_rng(_SEED).standard_normal((len(rows), _DRAWS))
    real = guess[:, None] + spread[:, None] * drawn
    taken = choice if answers is None else _answered(points, answers, start, guess)
    regret = np.expm1(np.maximum(real[taken] - np.minimum.reduceat(real, start, axis=0), 0.0)).mean(axis=1)
    joint = np.sqrt(spread**2 + spread[choice][owner] ** 2)
    ahead = (guess - guess[choice][owner]) / joint
    kept = ahead <= _MARGIN
    return regret, [
        _in_question(point.plans, kept[first : first + size], ahead[first : first + size])
        for point, first, size in zip(points, start.tolist(), sizes, strict=True)
    ]


def _answered(points: Sequence[Point], answers: Sequence[Plan | None], start: Ints, guess: Floats) -> Ints:
    """The row of each point's answer; of the slowest plan where it is none of them."""
    rows = []
    for point, plan, first in zip(points, answers, start.tolist(), strict=True):
        slowest = int(np.argmax(guess[first : first + len(point.plans)]))
        rows.append(first + (point.plans.index(plan) if plan in point.plans else slowest))
    return np.array(rows, dtype=np.int64)


def _in_question(plans: tuple[Plan, ...], kept: Floats, ahead: Floats) -> tuple[Plan, ...]:
    """The plans kept, the next best one beside a lone one, and the best of each kernel.

    A kernel that is not raced at a point has no say there: the table would keep an answer of that kernel, however slow.
    """
    order = np.argsort(ahead, kind="stable").tolist()
    best: dict[Kernel, int] = {}
    for i in order:
        best.setdefault(plans[i].kernel, i)
    places = {*np.flatnonzero(kept).tolist(), *order[:2], *best.values()}
    return tuple(plans[i] for i in sorted(places))


def _noise(samples: Samples) -> Floats:
    """Variance of each row's log time against its point's best, by the rounds of both."""
    best, _ = samples.best()
    found = np.zeros(len(samples.plan))
    for point in range(len(samples)):
        first, fastest = int(samples.start[point]), int(best[point])
        for rounds in (samples.visits[point], samples.confirm[point]):
            apart = rounds - rounds[fastest - first]
            counted = np.isfinite(apart).sum(axis=1)
            enough = np.flatnonzero(counted >= LEAST_ROUNDS)
            if len(enough):
                found[first + enough] = np.nanvar(apart[enough], axis=1, ddof=1) / counted[enough]
    return found


def _rows(known: _Known, points: Sequence[Point]) -> Rows:
    place: dict[tuple[Kernel, int], int] = {kind: i for i, kind in enumerate(known.kinds)}
    numbers = np.array(
        [
            (
                max(1, point.shape.num_tokens),
                point.shape.num_heads,
                point.shape.chunks,
                plan.num_splits,
                plan.chunks_per_block,
                plan.head_tiles,
                place.get((plan.kernel, plan.head_tiles), -1),
            )
            for point in points
            for plan in point.plans
        ],
        dtype=np.int64,
    )
    tokens, heads, chunks, splits, cpb, tiles, kind = numbers.T
    return Rows(tokens, heads, chunks, splits, cpb, tiles, kind, known.kinds)


def _place(rows: Rows, kind: Ints) -> Floats:
    """Where a plan stands: octaves of tokens, of blocks, and of chunks per block."""
    blocks = rows.num_tokens * -(-rows.num_heads // (HEADS_PER_TILE * rows.head_tiles)) * rows.num_splits
    return np.log2(np.stack([rows.num_tokens, blocks, rows.chunks_per_block], axis=1).astype(np.float64))


def _blocks(points: Sequence[Point]) -> list[Sequence[Point]]:
    """``points`` in runs of at most about ``_BLOCK`` plans."""
    blocks, first, held = [], 0, 0
    for i, point in enumerate(points):
        held += len(point.plans)
        if held >= _BLOCK:
            blocks.append(points[first : i + 1])
            first, held = i + 1, 0
    return [*blocks, points[first:]] if first < len(points) else blocks
