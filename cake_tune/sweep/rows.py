"""From the tracks of a race to the rows of a record."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median

from cake_tune.journal.record import PlanRow, PointRecord, Status
from cake_tune.measure.race import RaceResult
from cake_tune.measure.statistics import relative_spread
from cake_tune.measure.track import Track, distance
from cake_tune.measure.visit import DIGITS
from cake_tune.planner.shape import Plan
from cake_tune.sweep.tasks import PointTask

GRAVEST: tuple[Status, ...] = ("wrong", "crashed", "timeout", "oom", "invalid", "unstable", "too_slow")
"""What a point without a best plan is called: the first of these that any of its plans is."""


def decided_record(
    task: PointTask,
    result: RaceResult,
    failed: Mapping[Plan, PlanRow],
    relative_errors: Mapping[Plan, float],
    regime: str,
) -> PointRecord:
    """The record of a point that was raced; ``failed`` holds the rows of the plans that were not."""
    rows = tuple(
        replace(
            failed[plan] if plan in failed else raced_row(plan, result, task.in_force),
            relative_error=relative_errors.get(plan),
        )
        for plan in task.plans
    )
    status: Status = _gravest(rows) if result.best is None else "tied" if len(result.tied) > 1 else "ok"
    return PointRecord(
        key=task.key,
        shape=task.shape,
        status=status,
        rows=rows,
        best=result.best,
        tied=result.tied,
        incumbent=task.in_force,
        tie_band=task.band,
        rounds=result.rounds,
        regime=regime,
    )


def failed_record(
    task: PointTask, status: Status, error: str, *, failed: Iterable[PlanRow] = (), regime: str
) -> PointRecord:
    """The record of a point that could not be raced: plans without a row of their own get ``status`` and ``error``."""
    known = {row.plan: row for row in failed}
    rows = tuple(known.get(plan, PlanRow(plan, status, error=error)) for plan in task.plans)
    return PointRecord(
        key=task.key,
        shape=task.shape,
        status=_gravest(rows) if len(known) == len(task.plans) else status,
        rows=rows,
        incumbent=task.in_force,
        tie_band=task.band,
        regime=regime,
        error=error,
        twins=task.twins,
    )


def _gravest(rows: Iterable[PlanRow]) -> Status:
    present = {row.status for row in rows}
    return next((status for status in GRAVEST if status in present), "invalid")


def raced_row(plan: Plan, result: RaceResult, in_force: Plan | None) -> PlanRow:
    """The row of a plan that was raced."""
    track = result.tracks[plan]
    times = [time for time in (*track.visits, *track.confirm) if math.isfinite(time)]
    return PlanRow(
        plan=plan,
        status=_status(plan, track, result, in_force),
        median_us=_reported_us(plan, result),
        spread=round(relative_spread(times), 6) if len(times) > 1 else None,
        visits=_kept(track.visits),
        confirm=_kept(track.confirm),
        error=track.error,
        visit_means=_kept([visit.mean_us for visit in track.raced]),
        visit_mads=_kept([visit.mad_us for visit in track.raced]),
        confirm_means=_kept([visit.mean_us for visit in track.confirming]),
        confirm_mads=_kept([visit.mad_us for visit in track.confirming]),
    )


def _kept(times: Sequence[float]) -> tuple[float | None, ...]:
    """Times as a row holds them: None for a visit that gave nothing."""
    return tuple(time if math.isfinite(time) else None for time in times)


def _status(plan: Plan, track: Track, result: RaceResult, in_force: Plan | None) -> Status:
    if track.failed and track.left is not None:
        return track.left
    if plan in result.tied and len(result.tied) > 1:
        return "tied"
    # The plan in force runs to the end even when it is beaten.
    return "pruned" if track.left == "pruned" and plan not in (in_force, result.best) else "ok"


def _reported_us(plan: Plan, result: RaceResult) -> float | None:
    """The median of the confirmation; else the best plan's, times the paired ratio to it in the race."""
    track, best = result.tracks[plan], result.best
    if track.failed or best is None:
        return None
    fresh = [time for time in track.confirm if math.isfinite(time)]
    if fresh:
        return round(median(fresh), DIGITS)
    best_us = _reported_us(best, result) if best != plan else None
    apart = distance(result.tracks, plan, best)
    return round(best_us * math.exp(apart), DIGITS) if best_us is not None and math.isfinite(apart) else None
