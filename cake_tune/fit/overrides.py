"""Exceptions: measured shapes at which another plan beats the rules', merged into intervals.

A plan is beaten where it is slower than the fastest by more than the tie band, or has no time. The plan that the race
chose never is: where that is the one in force, another may measure faster, but not surely by enough to replace it.

An interval grows through neighbouring measured num_tokens while one plan is unbeaten at all of them, and ends at the
last one that needs it. Between two measured num_tokens it reaches to the midpoint of their logarithms: a shape in
between goes with the nearer measured one. It never reaches beyond what was measured.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cake_tune.fit.answers import rule_answers, verdicts
from cake_tune.fit.crossover import midpoint
from cake_tune.fit.samples import Samples
from cake_tune.planner.lookup import decide
from cake_tune.planner.shape import Kernel, Plan, simplest
from cake_tune.planner.table import Override, PlannerTable


@dataclass(frozen=True)
class Verdict:
    """How a plan does at one point.

    ``regret`` is a fraction; ``timed``: it has a time; ``accepted``: within the tie band of the fastest, or the race's
    choice; ``judged``: its kernel was raced at the point at all.
    """

    regret: float
    timed: bool
    accepted: bool
    judged: bool


def verdict(samples: Samples, point: int, plan: Plan) -> Verdict:
    """Judge ``plan`` at ``point``; one without a time counts as the slowest plan measured there."""
    rows = samples.rows(point)
    times = samples.log_time[rows.start : rows.stop]
    best = float(np.nanmin(times))
    row = samples.timed_row(point, plan)
    if row is not None:
        lost = float(np.expm1(samples.log_time[row] - best))
        return Verdict(lost, timed=True, accepted=samples.accepted(row), judged=True)
    judged = any(samples.plans[samples.plan[row]].kernel == plan.kernel for row in rows)
    return Verdict(float(np.expm1(np.nanmax(times) - best)), timed=False, accepted=False, judged=judged)


def find_overrides(samples: Samples, ruled: PlannerTable, in_force: PlannerTable) -> tuple[Override, ...]:
    """The exceptions that ``ruled``, a table of the measured device without any, needs.

    Of the plans unbeaten on an interval the one that ``in_force`` uses all over it stays, else the simplest is taken.
    """
    found: list[Override] = []
    num_sms = ruled.device.num_sms
    judged = verdicts(samples, rule_answers(samples, ruled.rules, num_sms))
    needed = judged.judged & ~judged.accepted
    for _, points in samples.groups():
        if not needed[points.start : points.stop].any():
            continue
        for stretch in _stretches(samples, points, needed[points.start : points.stop].tolist()):
            held = {plan_of(in_force, samples, point, num_sms, samples.kernel_alone(point)) for point in stretch.points}
            kept = held & stretch.plans if len(held) == 1 else set()
            lost = float(judged.regret[stretch.points.start : stretch.points.stop].max())
            found.append(_override(samples, points, stretch, simplest(kept or stretch.plans), lost))
    return tuple(found)


def plan_of(table: PlannerTable, samples: Samples, point: int, num_sms: int, kernel: Kernel | None = None) -> Plan:
    """The plan of ``table`` at a measured shape on the measured device, which need not be the table's."""
    key = samples.key(point)
    decision = decide(
        table,
        num_tokens=key.num_tokens,
        num_heads=key.num_heads,
        topk=key.topk,
        extra_topk=key.extra_topk,
        num_sms=num_sms,
        kernel=kernel,
    )
    return decision.plan


class _Stretch(NamedTuple):
    """Neighbouring points and the plans that are unbeaten at all of them."""

    points: range
    plans: set[Plan]


def _stretches(samples: Samples, points: range, needed: list[bool]) -> Iterator[_Stretch]:
    """The points that need an exception, together with those between that share an unbeaten plan with them."""
    first = points.start
    while first < points.stop:
        if not needed[first - points.start]:
            first += 1
            continue
        last, plans = first, _unbeaten(samples, first)
        common = plans
        for point in range(first + 1, points.stop):
            common = common & _unbeaten(samples, point)
            if not common:
                break
            if needed[point - points.start]:
                last, plans = point, common
        yield _Stretch(range(first, last + 1), plans)
        first = last + 1


def _unbeaten(samples: Samples, point: int) -> set[Plan]:
    return {samples.plans[samples.plan[row]] for row in samples.rows(point) if samples.accepted(row)}


def _equal(samples: Samples, point: int) -> set[Plan]:
    return {samples.plans[samples.plan[row]] for row in samples.rows(point) if samples.equal[row]}


def _ties(samples: Samples, points: range, plan: Plan) -> tuple[Plan, ...]:
    """The plans within the tie band of the fastest at all ``points``, if ``plan`` and another are."""
    equal = set.intersection(*(_equal(samples, point) for point in points))
    return tuple(sorted(equal)) if plan in equal and len(equal) > 1 else ()


def _override(samples: Samples, points: range, stretch: _Stretch, plan: Plan, lost: float) -> Override:
    first, last = stretch.points[0], stretch.points[-1]
    key = samples.key(first)
    low, high = key.num_tokens, int(samples.num_tokens[last])
    if first > points.start:
        low = midpoint(int(samples.num_tokens[first - 1]), low) + 1
    if last + 1 < points.stop:
        high = midpoint(high, int(samples.num_tokens[last + 1]))
    return Override(
        num_heads=key.num_heads,
        topk=key.topk,
        extra_topk=key.extra_topk,
        min_tokens=low,
        max_tokens=high,
        plan=plan,
        regret=round(lost, 6),
        ties=_ties(samples, stretch.points, plan),
    )
