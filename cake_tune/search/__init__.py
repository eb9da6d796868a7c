"""Which points next: the schedules that look at what is measured before they go on."""

from dataclasses import replace
from typing import TYPE_CHECKING

from cake_tune.sweep.schedule import Exhaustive, Schedule

if TYPE_CHECKING:
    from cake_tune.journal.run import RunDirectory, RunInfo
    from cake_tune.planner.table import PlannerTable
    from cake_tune.spec import Spec

__all__ = ["conclude", "schedule_for"]


def schedule_for(spec: "Spec", info: "RunInfo", in_force: "PlannerTable") -> Schedule:
    """The schedule that ``spec`` asks for, of a run with that provenance, judged against the table ``in_force``."""
    schedule: Schedule = Exhaustive(spec)
    if spec.search.method == "adaptive":
        from cake_tune.search.adaptive import Adaptive

        schedule = Adaptive(spec, info, in_force)
    if spec.search.refine:
        from cake_tune.search.refine import Refined

        schedule = Refined(spec, in_force, schedule)
    return schedule


def conclude(spec: "Spec", run: "RunDirectory") -> "RunInfo":
    """Note in ``run.json`` where an adaptive search of ``spec`` ended; returns the run's provenance.

    Nothing is written for an exhaustive sweep, or where the file says so already.
    """
    info = run.read_info()
    if spec.search.method != "adaptive":
        return info
    from cake_tune.planner.table import load_table
    from cake_tune.search.adaptive import Adaptive

    search = Adaptive(spec, info, load_table(run.in_force)).standing(list(run.read_records()))
    if search != info.search:
        info = replace(info, search=search)
        run.write_info(info)
    return info
