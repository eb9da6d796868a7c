"""Fewer measurements: a spread of points, then only what can still change the table.

A cost model is calibrated on what is measured and says, for every other point of the spec, what a table that goes by it
is expected to lose there, and which plans could be the fastest. The points with most to lose are measured next, with
these plans alone, and the model is calibrated anew; until the expected regret of the whole grid is below the bound.
Then the table is fitted, which may go by something else, and has to stand the same test.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from cake_tune.errors import UndecidedError
from cake_tune.fit.collect import collect
from cake_tune.fit.cost_model import fit_cost_model
from cake_tune.fit.regret import octave_weights, workload_weights
from cake_tune.fit.samples import Floats
from cake_tune.fit.table import table_of_samples
from cake_tune.journal.record import PointRecord
from cake_tune.journal.run import RunInfo
from cake_tune.planner.cost import CostModel
from cake_tune.planner.lookup import plan_for
from cake_tune.planner.shape import Plan, Shape
from cake_tune.planner.table import PlannerTable
from cake_tune.search.doubt import doubt
from cake_tune.search.spread import spread_out
from cake_tune.spec import Point, Spec

SPREAD = 0.1
"""Share of the points that are measured first, with all their plans."""
LEAST_SPREAD = 12
STEP = 0.03
"""Share of the points of each later step."""
LEAST_STEP = 4

Work = tuple[Shape, frozenset[Plan]]
"""What tells one piece of work from another: a shape and the plans compared on it."""


class Adaptive:
    """The adaptive schedule of one spec.

    Its steps follow from the spec and the records of earlier steps alone. A sweep that was stopped in the middle of a
    step goes on with the rest of that step, and then as it would have.
    """

    def __init__(self, spec: Spec, info: RunInfo, in_force: PlannerTable) -> None:
        self._points = spec.points()
        self._info, self._in_force = info, in_force
        self._num_sms = info.device.num_sms
        self._bound = spec.search.regret
        self._workload = spec.weights
        self._weight = _weights(self._points, spec.weights)
        self._steps = [spread_out(self._points, max(LEAST_SPREAD, round(SPREAD * len(self._points))))]
        self._ended = False
        self._model: CostModel | None = None
        self.table: PlannerTable | None = None
        """The one that was fitted last; at the end of a search that of all records, unless every point is measured."""
        self._regret: float | None = None

    def next_points(self, records: Sequence[PointRecord]) -> list[Point]:
        """The rest of the step at hand; else the next step; none once the expected regret is below the bound."""
        held = {_work(record.shape, (row.plan for row in record.rows)): record for record in records}
        while not self._ended:
            left = [point for point in self._steps[-1] if _work(point.shape, point.plans) not in held]
            if left:
                return left
            following = self._following([held[_work(p.shape, p.plans)] for step in self._steps for p in step])
            self._ended = not following
            self._steps.append(following)
        return []

    def standing(self, records: Sequence[PointRecord]) -> dict[str, float]:
        """Where the search stands with ``records``, as ``RunInfo.search`` holds it.

        Without an ``expected_regret`` where the records are too few to say.
        """
        if self.next_points(records):
            self._following(list(records))
        listed = {point.shape for point in self._points}
        pairs = {(record.shape, row.plan) for record in records if record.shape in listed for row in record.rows}
        counts = {
            "points": len({shape for shape, _ in pairs}),
            "listed_points": len(self._points),
            "pairs": len(pairs),
            "listed_pairs": sum(len(point.plans) for point in self._points),
            "bound": self._bound,
        }
        return counts if self._regret is None else counts | {"expected_regret": round(self._regret, 6)}

    def _following(self, records: list[PointRecord]) -> list[Point]:
        """The points of the next step, given all records of the steps before."""
        self._regret = None
        known = {record.shape for record in records}
        places = [i for i, point in enumerate(self._points) if point.shape not in known]
        if not places:
            self._regret = 0.0
            return []
        try:
            samples = replace(collect(records), workload=self._workload)
        except UndecidedError:
            return self._points
        self._model = fit_cost_model(samples, self._num_sms, self._model) if self._model else None
        self._model = self._model or fit_cost_model(samples, self._num_sms)
        if self._model is None:
            return [self._points[i] for i in places]
        left, weight = [self._points[i] for i in places], self._weight[places]
        found = doubt(samples, self._model, self._num_sms, left)
        if float(found.regret @ weight) <= self._bound * self._weight.sum():
            self.table = table_of_samples(samples, self._info, self._in_force)
            answers = [plan_for(self.table, point.shape) for point in left]
            found = doubt(samples, self._model, self._num_sms, left, answers)
        loss = found.regret * weight
        self._regret = float(loss.sum() / self._weight.sum())
        if self._regret <= self._bound:
            return []
        order = np.argsort(-loss, kind="stable")[: max(LEAST_STEP, round(STEP * len(self._points)))]
        return [Point(self._points[places[i]].shape, found.plans[i]) for i in sorted(order.tolist())]


def _weights(points: Sequence[Point], workload: tuple[tuple[int, float], ...]) -> Floats:
    """What each point weighs among those with its other axes: by octaves of num_tokens, or by the workload."""
    groups: dict[tuple[int, int, int], list[int]] = {}
    for i, point in enumerate(points):
        groups.setdefault((point.shape.num_heads, point.shape.topk, point.shape.extra_topk), []).append(i)
    weights = np.ones(len(points))
    for members in groups.values():
        tokens, inverse, counts = np.unique(
            [max(1, points[i].shape.num_tokens) for i in members], return_inverse=True, return_counts=True
        )
        each = workload_weights(tokens, workload) if workload else octave_weights(tokens)
        weights[members] = (each / counts)[inverse]
    return weights


def _work(shape: Shape, plans: Iterable[Plan]) -> Work:
    return shape, frozenset(plans)
