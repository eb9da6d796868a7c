"""The sweep: every point of a spec that the journal does not hold yet, one after the other."""

import time
from collections import Counter
from dataclasses import replace

from cake_tune.backends import check_options, get_backend
from cake_tune.errors import InterruptedSweep
from cake_tune.journal.journal import Journal, read_journal
from cake_tune.journal.record import Status
from cake_tune.journal.run import RunDirectory, RunInfo
from cake_tune.planner.registry import table_for
from cake_tune.planner.table import PlannerTable, save_table
from cake_tune.spec import Point, Spec
from cake_tune.sweep.crew import Crew
from cake_tune.sweep.interrupts import Interrupts
from cake_tune.sweep.keys import point_keys
from cake_tune.sweep.progress import DECIDED, FAILURES, Progress, Silent, SweepSummary
from cake_tune.sweep.provenance import earlier_info, earlier_table, plan_in_force, run_info
from cake_tune.sweep.supervisor import StoppedNowError
from cake_tune.sweep.tasks import BandTask, PointTask
from cake_tune.sweep.words import counted


def run_sweep(
    spec: Spec,
    run: RunDirectory,
    *,
    fresh: bool = False,
    retry_failed: bool = False,
    progress: Progress | None = None,
) -> SweepSummary:
    """Measure the points of ``spec`` into ``run`` and return where the sweep stands.

    Points that the journal holds under the same key are not measured again; with ``retry_failed``, those without a best
    plan are. A journal holds the rows of one spec, protocol, kernel and device: if it has others, or with ``fresh``, it
    is set aside under another name, and a new one starts with the rows that still count (with ``fresh``, none). All
    rows of a journal are judged against one table: the one in force when its first row was measured. A sweep with
    nothing left to do changes no file, unless those that describe the run are missing or of another run.

    Raises ``InterruptedSweep`` after Ctrl-C or SIGTERM (the first lets the point at hand finish), with every finished
    point in the journal; ``JournalError`` if another sweep is writing it; ``DeviceUnfitError`` if the backend cannot
    start; ``UsageError`` for an unknown backend, or build options that it does not take. What happens to single plans
    and points is in their rows.
    """
    told = progress if progress is not None else Silent()
    backend = get_backend(spec.backend)
    check_options(backend, (plan for point in spec.points() for plan in point.plans))
    info = run_info(spec, backend)
    points = point_keys(spec, info)
    with Journal(run.journal) as journal:
        for text in journal.messages:
            told.message(text)
        done = _settle(journal, points, fresh, told)
        if retry_failed:
            done = {key: status for key, status in done.items() if status in DECIDED}
        earlier = None if fresh else earlier_info(run, info)
        known_table = earlier_table(run, told.message) if done else None
        table = known_table or table_for(backend.device())[0]
        info = replace(info, in_force=table.label, tie_band=earlier.tie_band if earlier else None)
        if len(done) < len(points) or earlier is None or known_table is None:
            run.write_info(info)
            save_table(table, run.in_force)
        return _Sweep(spec, run, info, table, journal, told).run(points, done)


def _settle(journal: Journal, points: dict[str, Point], fresh: bool, told: Progress) -> dict[str, Status]:
    """Set rows aside that are not of ``points`` (all if ``fresh``); statuses of those that stay, by key."""
    known = {record.key: record.status for record in read_journal(journal.path)}
    kept = {} if fresh else {key: status for key, status in known.items() if key in points}
    if len(kept) < len(known):
        aside = journal.archive(keep=kept)
        why = "as asked" if fresh else "they are of another spec, protocol, kernel or device"
        told.message(f"{counted(len(known) - len(kept), 'earlier row')} set aside in {aside}: {why}")
    return kept


class _Sweep:
    """One run over the points that are left."""

    def __init__(
        self, spec: Spec, run: RunDirectory, info: RunInfo, table: PlannerTable, journal: Journal, told: Progress
    ) -> None:
        self._spec = spec
        self._run = run
        self._info = info
        self._table = table
        self._journal = journal
        self._told = told
        self._start = time.monotonic()

    def run(self, points: dict[str, Point], done: dict[str, Status]) -> SweepSummary:
        """Measure what is in ``points`` and not in ``done``, both by key."""
        summary = SweepSummary(total=len(points), counts=dict(Counter(done.values())), reused=len(done))
        left = {key: point for key, point in points.items() if key not in done}
        with Interrupts(self._acknowledge) as interrupts:
            crew = Crew(self._spec, interrupts.insistent, self._told.message)
            try:
                if left:
                    self._ensure_band(crew, list(left.values()))
                for key, point in left.items():
                    summary.out_of_time = self._out_of_time(summary)
                    if interrupts.requested() or summary.out_of_time:
                        break
                    self._measure(crew, key, point, summary)
            except StoppedNowError:
                pass
            finally:
                crew.close()
        summary.seconds = self._seconds()
        if interrupts.requested() and summary.done < summary.total:
            raise InterruptedSweep(summary.done, summary.total)
        return summary

    def _measure(self, crew: Crew, key: str, point: Point, summary: SweepSummary) -> None:
        self._told.started(point.shape, summary.done, summary.total, self._seconds_left(summary))
        in_force = plan_in_force(self._table, self._info.device, point)
        record = crew.measure_point(PointTask(key, point.shape, point.plans, in_force, self._band))
        self._journal.append(record)
        summary.counts[record.status] = summary.counts.get(record.status, 0) + 1
        for row in record.rows:
            if row.status in FAILURES:
                summary.failed_plans[row.status] = summary.failed_plans.get(row.status, 0) + 1
        self._told.finished(record, summary.done, summary.total, self._seconds_left(summary))

    @property
    def _band(self) -> float:
        return self._spec.protocol.band_max if self._info.tie_band is None else self._info.tie_band

    def _ensure_band(self, crew: Crew, left: list[Point]) -> None:
        """An A/A run on the point of middle cost, unless an earlier run left its band."""
        if self._info.tie_band is not None:
            return
        middle = sorted(left, key=_cost)[len(left) // 2]
        plan = plan_in_force(self._table, self._info.device, middle) or middle.plans[0]
        band = crew.measure_band(BandTask(middle.shape, plan))
        self._info = replace(self._info, tie_band=band)
        self._run.write_info(self._info)

    def _out_of_time(self, summary: SweepSummary) -> bool:
        """True once the time budget is spent; never before the first point, so that repeated runs come to an end."""
        budget = self._spec.time_budget_seconds
        return budget is not None and summary.done > summary.reused and self._seconds() > budget

    def _seconds(self) -> float:
        return time.monotonic() - self._start

    def _seconds_left(self, summary: SweepSummary) -> float | None:
        """For the points that are left at the mean time so far, or until the time budget ends."""
        measured = summary.done - summary.reused
        if not measured:
            return None
        needed = self._seconds() / measured * (summary.total - summary.done)
        budget = self._spec.time_budget_seconds
        return needed if budget is None else min(needed, max(0.0, budget - self._seconds()))

    def _acknowledge(self) -> None:
        self._told.message("stopping after the point at hand; once more to stop at once")


def _cost(point: Point) -> int:
    """What a point costs, next to others: heads times candidates."""
    shape = point.shape
    return shape.num_tokens * shape.num_heads * (shape.topk + shape.extra_topk)
