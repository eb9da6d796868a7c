"""What each choice of a rule costs at each point, as dense arrays, and how sure a gain between two choices is."""

from dataclasses import dataclass

import numpy as np

from cake_tune.fit.bootstrap import paired_differences
from cake_tune.fit.regret import point_weights
from cake_tune.fit.samples import Floats, Ints, Samples
from cake_tune.planner.rules import DEFAULT_MAX_SPLITS
from cake_tune.planner.shape import Kernel, Plan

DECODE_CHOICES = 2 * (DEFAULT_MAX_SPLITS + 1)
PREFILL_CHOICES = 5


def decode_choice(head_tiles: Ints, num_splits: Ints) -> Ints:
    """The column of a decode plan; its chunks per block follow from its splits."""
    return (head_tiles - 1) * (DEFAULT_MAX_SPLITS + 1) + num_splits


@dataclass(frozen=True)
class Choices:
    """The plans of one kernel at the points where it has times.

    ``regret[i, c]`` is the weighted log time of choice ``c`` over the kernel's best at point i; ``row`` its row in
    ``samples``, -1 where the choice was not measured, which costs as much as the point's slowest measured plan: rules
    earn nothing from plans that nobody measured.
    """

    samples: Samples
    point: Ints
    weight: Floats
    row: Ints
    regret: Floats

    def __len__(self) -> int:
        return len(self.point)

    def total(self, choice: Ints) -> float:
        """Total regret of one choice per point."""
        return float(self.regret[np.arange(len(self)), choice].sum())

    def mean_gain(self, before: Ints, after: Ints) -> float:
        """What ``after`` saves over ``before`` where they differ: log time per weight."""
        changed, saved = self._saved(before, after)
        return float(saved[changed].sum()) / float(self.weight[changed].sum()) if len(changed) else 0.0

    def least_gain(self, before: Ints, after: Ints) -> float:
        """The least of ``mean_gain`` over bootstrap replicates of the rounds; it takes a thousand times as long.

        The least of 200, a one-sided 99.5 % bound, because many alternatives compete for each constant.
        """
        changed, saved = self._saved(before, after)
        if not len(changed):
            return 0.0
        everywhere = np.arange(len(self))
        old, new = self.row[everywhere, before], self.row[everywhere, after]
        measured = changed[(old[changed] >= 0) & (new[changed] >= 0)]
        _, replicates = paired_differences(self.samples, self.point[measured], old[measured], new[measured])
        unmeasured = float(saved[changed].sum() - saved[measured].sum())
        low = unmeasured + float((replicates @ self.weight[measured]).min())
        return low / float(self.weight[changed].sum())

    def _saved(self, before: Ints, after: Ints) -> tuple[Ints, Floats]:
        """The points at which the choices differ, and what ``after`` saves at each of all points."""
        everywhere = np.arange(len(self))
        return np.flatnonzero(before != after), self.regret[everywhere, before] - self.regret[everywhere, after]


def choices_of(samples: Samples, kernel: Kernel) -> Choices:
    """The choices of ``kernel``: plans without build options, since rules know none."""
    _, least = samples.best(kernel)
    points = np.flatnonzero(np.isfinite(least))
    place = np.full(len(samples), -1, dtype=np.int64)
    place[points] = np.arange(len(points))
    column_of = np.array([_column(plan) if plan.kernel == kernel else -1 for plan in samples.plans], dtype=np.int64)
    owner = place[np.repeat(np.arange(len(samples)), np.diff(samples.start))]
    column = column_of[samples.plan]
    rows = np.flatnonzero((owner >= 0) & samples.is_kernel(kernel) & np.isfinite(samples.log_time))
    excess = samples.log_time[rows] - least[points][owner[rows]]
    worst = np.zeros(len(points))
    np.maximum.at(worst, owner[rows], excess)

    width = DECODE_CHOICES if kernel == "decode" else PREFILL_CHOICES
    regret = np.repeat(worst[:, None], width, axis=1)
    row = np.full((len(points), width), -1, dtype=np.int64)
    plain = column[rows] >= 0
    rows, excess = rows[plain], excess[plain]
    row[owner[rows], column[rows]] = rows
    regret[owner[rows], column[rows]] = excess
    weight = point_weights(samples.take(points)) if len(points) else np.ones(0)
    return Choices(samples, points, weight, row, regret * weight[:, None])


def _column(plan: Plan) -> int:
    if plan.options:
        return -1
    if plan.kernel == "prefill":
        return plan.head_tiles
    return int(decode_choice(np.int64(plan.head_tiles), np.int64(plan.num_splits)))  # type: ignore[arg-type]
