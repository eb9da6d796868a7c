"""New num_tokens around each crossover, until its bracket cannot be narrowed any further.

A bracket runs from the last measured num_tokens at which decode surely wins to the first at which prefill does. Its
widest gap is halved, on a log axis, again and again: a few points per crossover, where a finer grid would spend them
everywhere.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from cake_tune.errors import UndecidedError
from cake_tune.fit.collect import collect
from cake_tune.fit.crossover import Crossover, crossovers
from cake_tune.journal.record import PointRecord
from cake_tune.planner.shape import Shape
from cake_tune.planner.table import PlannerTable
from cake_tune.spec import Point, Spec
from cake_tune.sweep.schedule import Schedule

CLOSE = 1.125
"""Neighbours in a bracket whose ratio is below this need no point between them."""

Group = tuple[int, int, int]
"""num_heads, topk, extra_topk."""


class Refined:
    """A schedule that refines what another one has measured.

    Every group is refined step by step from the spec's listed points alone, over the records of earlier steps where
    they exist: a sweep that was stopped in the middle of a step goes on with the rest of that step.
    """

    def __init__(self, spec: Spec, in_force: PlannerTable, grid: Schedule) -> None:
        self._spec = spec
        self._in_force = in_force
        self._grid = grid
        self._of_grid: list[Point] = []
        self._listed: dict[Group, list[Shape]] = {}
        for point in spec.points():
            self._listed.setdefault(_group(point.shape), []).append(point.shape)
        self._steps: dict[Group, tuple[list[PointRecord], list[Point]]] = {}

    def next_points(self, records: Sequence[PointRecord]) -> list[Point]:
        """The rest of the grid; then, of every group, the rest of its next step.

        No group is refined before the grid is measured; then each goes on by itself, however far the others are.
        """
        measured = {record.shape: record for record in records}
        if not (left := _unmeasured(self._of_grid, measured)):
            listed = {shape for shapes in self._listed.values() for shape in shapes}
            self._of_grid = self._grid.next_points([record for record in records if record.shape in listed])
            left = _unmeasured(self._of_grid, measured)
        if left:
            return left
        of_group: dict[Group, list[PointRecord]] = {group: [] for group in self._listed}
        for record in measured.values():
            if (known := of_group.get(_group(record.shape))) is not None:
                known.append(record)
        return [point for group, known in of_group.items() for point in self._next_step(group, known)]

    def _next_step(self, group: Group, known: list[PointRecord]) -> list[Point]:
        """The rest of a group's next step, worked out anew only when its records ``known`` are others than before."""
        before, step = self._steps.get(group, (None, []))
        if before != known:
            step = self._worked_out(group, {record.shape: record for record in known})
            self._steps[group] = known, step
        return step

    def _worked_out(self, group: Group, measured: Mapping[Shape, PointRecord]) -> list[Point]:
        shapes = self._listed[group]
        others = list(dict.fromkeys(replace(shape, num_tokens=0) for shape in shapes))
        known = [measured[shape] for shape in shapes if shape in measured]
        tried: set[int] = set()
        while (num_tokens := self._between(known, tried)) is not None:
            tried.add(num_tokens)
            wanted = [self._spec.point_at(replace(shape, num_tokens=num_tokens)) for shape in others]
            points = [point for point in wanted if point is not None]
            if left := _unmeasured(points, measured):
                return left
            known += [measured[point.shape] for point in points]
        return []

    def _between(self, records: Sequence[PointRecord], tried: Iterable[int]) -> int | None:
        try:
            samples = replace(collect(records), workload=self._spec.weights)
        except UndecidedError:
            return None
        found = crossovers(samples, self._in_force)
        return next_num_tokens(found[0], tried) if found else None


def next_num_tokens(crossover: Crossover, tried: Iterable[int] = ()) -> int | None:
    """Where to measure next: the middle of the widest gap in the bracket, on a log axis; the lower one of equals.

    ``tried`` are num_tokens that gave no time for both kernels: they are not asked for again. None where the bracket is
    open at an end, or all its gaps are of neighbours or closer than 12.5 %.
    """
    low, high = crossover.low, crossover.high
    if not low or high is None:
        return None
    inside = sorted({*crossover.num_tokens, *tried})
    marks = [tokens for tokens in inside if low <= tokens <= high]
    gaps = [(a, b) for a, b in pairwise(marks) if b - a > 1 and b >= CLOSE * a]
    if not gaps:
        return None
    a, b = max(gaps, key=lambda gap: (gap[1] / gap[0], -gap[0]))
    return min(max(math.isqrt(a * b), a + 1), b - 1)


def _unmeasured(points: Iterable[Point], measured: Mapping[Shape, PointRecord]) -> list[Point]:
    return [point for point in points if point.shape not in measured]


def _group(shape: Shape) -> Group:
    return shape.num_heads, shape.topk, shape.extra_topk
