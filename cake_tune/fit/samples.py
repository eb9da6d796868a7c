"""Measured points as flat arrays: what the fit reads instead of records.

A journal of a million rows becomes a handful of arrays, sorted by shape, so that nothing after this module depends on
the order of the journal's lines.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cake_tune.planner.shape import Kernel, Plan

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

LEAST_ROUNDS = 3
"""Common rounds below which the visits of two plans are not compared in pairs."""

_SEED = 20_020_202


class ShapeKey(NamedTuple):
    """What the planners decide from, in the order in which tables are sorted."""

    num_heads: int
    topk: int
    extra_topk: int
    num_tokens: int


@dataclass(frozen=True)
class Samples:
    """``N`` measured shapes and their ``M`` plans; the plans of point ``i`` are rows ``start[i]`` to ``start[i+1]``.

    Page sizes and flags that the planners do not see are combined: a plan's ``log_time`` is the mean over the variants
    of its key, and NaN where it failed in one. ``visits[i]`` and ``confirm[i]`` are point i's
    ``[plans, rounds]`` log times, NaN where a plan has no visit; one column is one round, so columns pair.
    Times are natural logarithms of microseconds.
    """

    num_tokens: Ints
    num_heads: Ints
    topk: Ints
    extra_topk: Ints
    chunks: Ints
    tie_band: Floats
    """Per point, as a difference of log times."""
    start: Ints
    plans: tuple[Plan, ...]
    """The distinct plans, sorted."""
    plan: Ints
    """Per row, the index into ``plans``; ascending within a point."""
    log_time: Floats
    equal: Bools
    """Per row: within the tie band of the point's fastest."""
    chosen: Bools
    """Per row: chosen by the race in every variant (see ``PointRecord.best``), and with a time."""
    variants: Ints
    """Per point, how many measured variants it combines."""
    visits: list[NDArray[np.float32]]
    confirm: list[NDArray[np.float32]]
    dates: tuple[str, str]
    """Earliest and latest ``PointRecord.started``."""
    workload: tuple[tuple[int, float], ...] = ()
    """(num_tokens, weight), ascending: what points weigh; without one, every octave of num_tokens weighs the same."""

    def __len__(self) -> int:
        return len(self.num_tokens)

    def key(self, point: int) -> ShapeKey:
        """The shape of ``point``."""
        return ShapeKey(
            int(self.num_heads[point]), int(self.topk[point]), int(self.extra_topk[point]), int(self.num_tokens[point])
        )

    def rows(self, point: int) -> range:
        """The rows of ``point``."""
        return range(int(self.start[point]), int(self.start[point + 1]))

    def timed_row(self, point: int, plan: Plan) -> int | None:
        """The row of ``plan`` at ``point``, or None where it has no time."""
        rows = (row for row in self.rows(point) if self.plans[self.plan[row]] == plan)
        return next((row for row in rows if not np.isnan(self.log_time[row])), None)

    def row_of(self, points: Ints, plans: Ints) -> Ints:
        """The row of plan ``plans[i]``, an index into ``self.plans``, at ``points[i]``; -1 where it was not tried."""
        owner = np.repeat(np.arange(len(self)), np.diff(self.start))
        keys = owner * len(self.plans) + self.plan
        asked = points * len(self.plans) + plans
        rows = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
        return np.where((plans >= 0) & (keys[rows] == asked), rows, -1)

    def thinned(self, most: int) -> "Samples":
        """At most ``most`` of the points, drawn evenly and always the same."""
        if len(self) <= most:
            return self
        drawn = np.random.default_rng(_SEED).choice(len(self), most, replace=False)
        return self.take(np.sort(drawn))

    def groups(self) -> list[tuple[tuple[int, int, int], range]]:
        """Every (num_heads, topk, extra_topk) with its points, which ascend in num_tokens."""
        keys = np.stack([self.num_heads, self.topk, self.extra_topk])
        first = [0, *(np.flatnonzero((keys[:, 1:] != keys[:, :-1]).any(axis=0)) + 1).tolist(), len(self)]
        return [(self.key(low)[:3], range(low, high)) for low, high in pairwise(first)]

    def best(self, kernel: Kernel | None = None) -> tuple[Ints, Floats]:
        """Per point the row and the log time of the fastest plan (of ``kernel``); -1 and inf where there is none."""
        times = np.where(np.isnan(self.log_time), np.inf, self.log_time)
        if kernel is not None:
            times = np.where(self.is_kernel(kernel), times, np.inf)
        least = np.minimum.reduceat(times, self.start[:-1])
        owner = np.repeat(np.arange(len(self)), np.diff(self.start))
        hits = np.flatnonzero((times == least[owner]) & np.isfinite(times))
        rows = np.full(len(self), -1, dtype=np.int64)
        # Backwards, so that of equal times the first plan stays.
        rows[owner[hits[::-1]]] = hits[::-1]
        return rows, least

    def accepted(self, row: int) -> bool:
        """Whether no other plan beats it: equal to the fastest, or chosen, though it may measure slower by noise."""
        return bool(self.equal[row] or self.chosen[row])

    def is_kernel(self, kernel: Kernel) -> Bools:
        """Per row, whether its plan is of ``kernel``."""
        of_plan = np.array([plan.kernel == kernel for plan in self.plans], dtype=np.bool_)
        return of_plan[self.plan]

    def timed(self, kernel: Kernel) -> Bools:
        """Per point, whether any plan of ``kernel`` has a time."""
        return np.logical_or.reduceat(self.is_kernel(kernel) & ~np.isnan(self.log_time), self.start[:-1])

    def kernel_alone(self, point: int) -> Kernel | None:
        """The kernel of every plan tried at ``point``, measured or failed; None where both were."""
        first, *others = {self.plans[self.plan[row]].kernel for row in self.rows(point)}
        return None if others else first

    def take(self, points: Ints) -> "Samples":
        """The samples of ``points`` alone, which ascend."""
        lengths = np.diff(self.start)[points]
        rows = np.concatenate([np.arange(self.start[point], self.start[point + 1]) for point in points])
        return replace(
            self,
            num_tokens=self.num_tokens[points],
            num_heads=self.num_heads[points],
            topk=self.topk[points],
            extra_topk=self.extra_topk[points],
            chunks=self.chunks[points],
            tie_band=self.tie_band[points],
            start=np.concatenate([[0], np.cumsum(lengths)]),
            plan=self.plan[rows],
            log_time=self.log_time[rows],
            equal=self.equal[rows],
            chosen=self.chosen[rows],
            variants=self.variants[points],
            visits=[self.visits[point] for point in points],
            confirm=[self.confirm[point] for point in points],
        )
