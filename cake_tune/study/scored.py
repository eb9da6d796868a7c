"""Ways to answer for a shape, and what each loses on measured points: tables, rules, and one fixed plan."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from cake_tune.fit.regret import summarise
from cake_tune.planner.lookup import decide
from cake_tune.planner.shape import Plan, Shape
from cake_tune.planner.table import PlannerTable, Regret
from cake_tune.study.points import MeasuredPoint, TimeKind

Answer = Callable[[MeasuredPoint], Plan]
"""The plan for a point; it looks at the shape, and at the kernel where one alone was raced."""


@dataclass(frozen=True, slots=True)
class Loss:
    """What an answer loses at one point, as a fraction, and where its time comes from."""

    shape: Shape
    plan: Plan
    loss: float
    kind: TimeKind


@dataclass(frozen=True, slots=True)
class Scored:
    """One way to answer over the points of one run (at least one)."""

    name: str
    losses: tuple[Loss, ...]

    @property
    def summary(self) -> Regret:
        """Mean, 95th percentile and worst."""
        found = summarise([each.loss for each in self.losses])
        assert found is not None, "runs without points are not scored"
        return found

    def count(self, kind: TimeKind) -> int:
        """At how many points the time comes from there."""
        return sum(each.kind == kind for each in self.losses)

    @property
    def worst(self) -> Loss:
        """The largest loss; of equals the first shape's."""
        return max(self.losses, key=lambda each: each.loss)


def score_answer(name: str, answer: Answer, points: Iterable[MeasuredPoint]) -> Scored:
    """What ``answer`` loses at each of ``points``."""
    losses = []
    for point in points:
        plan = answer(point)
        losses.append(Loss(point.shape, plan, point.regret(plan), point.kind(plan)))
    return Scored(name, tuple(losses))


def answer_of(table: PlannerTable, num_sms: int) -> Answer:
    """What the planner answers from ``table`` on a device of ``num_sms`` multiprocessors."""

    def answer(point: MeasuredPoint) -> Plan:
        shape = point.shape
        return decide(
            table,
            num_tokens=shape.num_tokens,
            num_heads=shape.num_heads,
            topk=shape.topk,
            extra_topk=shape.extra_topk,
            num_sms=num_sms,
            kernel=point.kernel_alone,
        ).plan

    return answer


def without(points: Mapping[Shape, MeasuredPoint], seen: Mapping[Shape, MeasuredPoint]) -> dict[Shape, MeasuredPoint]:
    """``points`` without those whose four integers that planners decide from are among ``seen``."""
    keys = {_key(shape) for shape in seen}
    return {shape: point for shape, point in points.items() if _key(shape) not in keys}


def _key(shape: Shape) -> tuple[int, int, int, int]:
    return shape.num_tokens, shape.num_heads, shape.topk, shape.extra_topk
