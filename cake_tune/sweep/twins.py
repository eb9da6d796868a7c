"""An A/A point: one plan raced against itself under two labels, to see how often equal plans are told apart."""

from dataclasses import replace

from cake_tune.journal.record import PointRecord
from cake_tune.measure.choose import differ
from cake_tune.measure.race import RaceResult
from cake_tune.planner.shape import Plan
from cake_tune.sweep.rows import raced_row
from cake_tune.sweep.tasks import PointTask

LABEL = "label"


def labelled(plan: Plan) -> tuple[Plan, Plan]:
    """The plan under two labels."""
    first, second = (replace(plan, options=(*plan.options, (LABEL, name))) for name in ("a", "b"))
    return first, second


def bare(plan: Plan) -> Plan:
    """The plan behind a label."""
    return replace(plan, options=tuple(option for option in plan.options if option[0] != LABEL))


def twin_record(task: PointTask, result: RaceResult, error: float | None, regime: str) -> PointRecord:
    """The record of the A/A point ``task``; ``error`` is the relative error that the gate found of its plan.

    "tied" where no difference was found, "ok" where one was; a label whose visits gave nothing makes it a failure.
    """
    (plan,) = task.plans
    pair = labelled(plan)
    rows = tuple(replace(raced_row(label, result, None), plan=plan, relative_error=error) for label in pair)
    failed = [track.left for label in pair if (track := result.tracks[label]).failed and track.left is not None]
    tied = not failed and not differ(result.tracks, *pair, task.band)
    return PointRecord(
        key=task.key,
        shape=task.shape,
        status=failed[0] if failed else "tied" if tied else "ok",
        rows=rows,
        best=None if failed else plan,
        tied=(plan, plan) if tied else (),
        incumbent=plan,
        tie_band=task.band,
        rounds=result.rounds,
        regime=regime,
        twins=True,
    )
