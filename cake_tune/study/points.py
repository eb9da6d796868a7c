"""Measured points as studies judge them: every plan's time, the choice, and what stands for a plan without a time."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from cake_tune.fit.samples import LEAST_ROUNDS
from cake_tune.journal.record import TIMED, PlanRow, PointRecord
from cake_tune.measure.statistics import location, paired_log_ratios
from cake_tune.planner.rules import DEFAULT_MAX_SPLITS
from cake_tune.planner.shape import Kernel, Plan, Shape, rival_of

TimeKind = Literal["confirmed", "raced", "left", "none"]
"""Where a plan's time comes from. confirmed: fresh rounds; raced: it stayed in the race to its end; left: it left the
race early, and its time is that with which it left; none: it has no time, and the slowest measured one stands in."""


@dataclass(frozen=True, slots=True)
class MeasuredPoint:
    """One shape with the time of every plan that has one (microseconds, at least one), and what was chosen.

    ``kinds`` has every plan of the record, failed ones too. ``kernel_alone`` is the kernel of all plans tried, None
    where both were. Rivals are in none of these: no table may answer with one. Where a rival was chosen, the fastest
    plan of the family is the choice.
    """

    shape: Shape
    times: dict[Plan, float]
    kinds: dict[Plan, TimeKind]
    choice: Plan | None
    in_force: Plan | None
    tie_band: float
    kernel_alone: Kernel | None

    @property
    def best_us(self) -> float:
        """The least time measured."""
        return min(self.times.values())

    @property
    def fastest(self) -> Plan:
        """The plan of ``best_us``; the first of equals."""
        return min(self.times, key=lambda plan: (self.times[plan], plan))

    def regret(self, plan: Plan) -> float:
        """What ``plan`` loses to the fastest, as a fraction; without a time it counts as the slowest measured."""
        return self.times.get(plan, max(self.times.values())) / self.best_us - 1

    def reachable(self) -> "MeasuredPoint | None":
        """The point without the plans that a look-up never answers with: those of more splits than its default.

        None if no other plan has a time.
        """
        times = {plan: time for plan, time in self.times.items() if plan.num_splits <= DEFAULT_MAX_SPLITS}
        return replace(self, times=times) if times else None

    def kind(self, plan: Plan) -> TimeKind:
        """Where the time of ``plan`` comes from."""
        return self.kinds.get(plan, "none")


def measured_points(records: Iterable[PointRecord]) -> dict[Shape, MeasuredPoint]:
    """The points with a usable time, by shape, in the order of shapes; of two records of a shape the later counts."""
    found: dict[Shape, tuple[str, MeasuredPoint]] = {}
    for record in records:
        point = measured_point(record)
        if point is not None:
            order = f"{record.started} {record.key}"
            if record.shape not in found or found[record.shape][0] < order:
                found[record.shape] = (order, point)
    return {shape: found[shape][1] for shape in sorted(found)}


def measured_point(record: PointRecord) -> MeasuredPoint | None:
    """``record`` as a measured point; None without a usable time."""
    times = reported_times(record)
    if not times:
        return None
    rows = own_rows(record)
    kernels = {row.plan.kernel for row in rows}
    rival = record.best is not None and rival_of(record.best) is not None
    return MeasuredPoint(
        shape=record.shape,
        times=times,
        kinds={row.plan: _kind(row) if row.plan in times else "none" for row in rows},
        choice=min(times, key=lambda plan: (times[plan], plan)) if rival else record.best,
        in_force=record.incumbent,
        tie_band=record.tie_band,
        kernel_alone=kernels.pop() if len(kernels) == 1 else None,
    )


def own_rows(record: PointRecord) -> list[PlanRow]:
    """The rows of this family's plans: without those of rivals."""
    return [row for row in record.rows if rival_of(row.plan) is None]


def reported_times(record: PointRecord) -> dict[Plan, float]:
    """The reported microseconds of every plan with a usable one, as the fit reads them; rivals are left out.

    Confirmed plans are taken relative to the fastest of them, in pairs over the rounds that both have: drift common to
    a round cancels.
    """
    rows = {row.plan: row for row in own_rows(record) if row.status in TIMED and row.median_us is not None}
    times = {plan: row.median_us for plan, row in rows.items() if row.median_us is not None and row.median_us > 0}
    confirmed = [plan for plan in sorted(times) if _is_confirmed(rows[plan])]
    if not confirmed:
        return times
    best = min(confirmed, key=lambda plan: times[plan])
    base_us, base = times[best], _rounds(rows[best])
    for plan in confirmed:
        ratios = paired_log_ratios(_rounds(rows[plan]), base)
        if plan != best and len(ratios) >= LEAST_ROUNDS:
            times[plan] = base_us * math.exp(location(ratios))
    return times


def _rounds(row: PlanRow) -> list[float]:
    return [math.nan if time is None else time for time in row.confirm]


def _is_confirmed(row: PlanRow) -> bool:
    return sum(time is not None for time in row.confirm) >= LEAST_ROUNDS


def _kind(row: PlanRow) -> TimeKind:
    if row.confirm:
        return "confirmed"
    return "left" if row.status in ("pruned", "too_slow") else "raced"
