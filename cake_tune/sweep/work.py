"""One run of a sweep: asks the schedule, hands points to idle slots, writes what comes back, and knows when to stop."""

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from cake_tune.errors import InterruptedSweep
from cake_tune.journal.journal import Journal
from cake_tune.journal.record import PointRecord, Status
from cake_tune.journal.run import RunInfo
from cake_tune.planner.table import PlannerTable
from cake_tune.spec import Point, Spec
from cake_tune.sweep.audits import Audits, Job, possible
from cake_tune.sweep.fleet import Answer, Fleet
from cake_tune.sweep.interrupts import Interrupts
from cake_tune.sweep.keys import Keys
from cake_tune.sweep.progress import FAILURES, Progress, SweepSummary
from cake_tune.sweep.provenance import plan_in_force
from cake_tune.sweep.schedule import Records, Schedule
from cake_tune.sweep.slots import Slot
from cake_tune.sweep.tasks import BandTask, PointTask, StartTask
from cake_tune.sweep.words import counted

T = TypeVar("T")


@dataclass(frozen=True)
class Setting:
    """What a run works with.

    ``done`` holds the statuses of the points that need not be measured, by key, and grows; ``records`` reads theirs.
    ``describe`` writes the files that describe the run. With ``twins``, points are A/A points.
    """

    spec: Spec
    schedule: Schedule
    keys: Keys
    slots: tuple[Slot, ...]
    table: PlannerTable
    journal: Journal
    done: dict[str, Status]
    records: Records
    audits: Audits
    told: Progress
    describe: Callable[[RunInfo], None]
    twins: bool = False


class Work:
    """One run over what is left; ``info`` is its provenance, whose tie band may still have to be measured."""

    def __init__(self, setting: Setting, info: RunInfo) -> None:
        self._set = setting
        self._info = info
        self._start = time.monotonic()
        self._began = 0.0
        self._at_work: dict[str, Job] = {}
        self._waiting: deque[Job] = deque()
        self._band_tried = info.tie_band is not None
        self._band_at_work = False
        self._starting: set[str] | None = None
        self._prepared = False
        self._asked_at = -1
        done = setting.done
        self._summary = SweepSummary(total=len(done), counts=dict(Counter(done.values())), reused=len(done))

    def run(self) -> SweepSummary:
        """Measure until nothing is left, the time budget is spent, or the user wants it to stop."""
        spec, slots, told = self._set.spec, self._set.slots, self._set.told
        with Interrupts(self._acknowledge) as interrupts, Fleet(spec, slots, told.message) as fleet:
            if self._anything_left(fleet):
                self._set.describe(self._info)
                self._work(fleet, interrupts)
        summary = self._summary
        summary.seconds = self._seconds()
        if interrupts.requested() and (summary.done < summary.total or possible(self._waiting, fleet.names)):
            raise InterruptedSweep(summary.done, summary.total)
        return summary

    def _work(self, fleet: Fleet, interrupts: Interrupts) -> None:
        while self._awaited or self._anything_left(fleet):
            if interrupts.insistent():
                fleet.stop_now()
            self._summary.out_of_time = self._out_of_time()
            if not interrupts.requested() and not self._summary.out_of_time:
                self._hand_out(fleet)
            elif not self._awaited:
                return
            answer = fleet.answer()
            if answer is not None:
                self._take_in(answer, fleet)
        self._summary.out_of_time = False

    @property
    def _awaited(self) -> bool:
        """Whether a measurement is under way; for a worker that only starts, nobody waits."""
        return self._band_at_work or bool(self._at_work)

    def _anything_left(self, fleet: Fleet) -> bool:
        """Whether a slot has something to do; asks the schedule if nothing waits. An audit that none may do is not."""
        if not possible(self._waiting, fleet.names):
            self._ask()
        return possible(self._waiting, fleet.names)

    def _ask(self) -> None:
        """Have what the schedule asks for wait, and the audits that are due."""
        self._asked_at = len(self._set.done)
        self._waiting.extend([*self._asked(), *self._set.audits.due()])
        points = sum(job.audits is None for job in [*self._waiting, *self._at_work.values()])
        self._summary.total = len(self._set.done) + points

    def _asked(self) -> list[Job]:
        """What the schedule asks for, is not measured and not to be; none where it has no more, or repeats itself."""
        keys, before = self._set.keys, None
        taken = {job.key for job in [*self._waiting, *self._at_work.values()]}
        while (asked := self._set.schedule.next_points(self._set.records)) and asked != before:
            jobs = [Job(key, point) for key, point in {keys.of(point): point for point in asked}.items()]
            if left := [job for job in jobs if job.key not in self._set.done and job.key not in taken]:
                return left
            before = asked
        return []

    def _hand_out(self, fleet: Fleet) -> None:
        """Give idle slots what waits, once all is prepared.

        Where nothing waits for an idle slot and there are new records, the schedule is asked again while the others are
        still at work.
        """
        if not self._prepared and self._preparing(fleet):
            return
        if fleet.idle and not possible(self._waiting, fleet.idle) and self._asked_at < len(self._set.done):
            self._ask()
        for slot in fleet.idle:
            job = next((job for job in self._waiting if job.may_run_on(slot)), None)
            if job is not None:
                self._waiting.remove(job)
                if job.audits is None:
                    self._tell(self._set.told.started, job.point.shape)
                self._began = self._began or self._seconds()
                self._at_work[slot] = job
                fleet.give(slot, self._task(job))

    def _preparing(self, fleet: Fleet) -> bool:
        """Have all workers start side by side, then, if the tie band is not known, an A/A run on the first idle slot,
        on the point of middle cost.

        The others wait for that: what they load while they start would be in its times. True until it is over, False
        if no point waits.
        """
        if self._band_at_work or self._starting:
            return True
        points = sorted((job.point for job in self._waiting if job.audits is None), key=_cost)
        if not points:
            return False
        if self._starting is None:
            slots = fleet.idle[: len(points)]
            self._starting = set(slots)
            for slot in slots:
                fleet.give(slot, StartTask())
        elif self._band_tried:
            self._prepared = True
            return False
        elif fleet.idle:
            middle = points[len(points) // 2]
            plan = plan_in_force(self._set.table, self._info.device, middle) or middle.plans[0]
            fleet.give(fleet.idle[0], BandTask(middle.shape, plan))
            self._band_at_work = True
        return True

    def _task(self, job: Job) -> PointTask:
        if job.audits is not None:
            return job.repeated()
        point = job.point
        in_force = plan_in_force(self._set.table, self._info.device, point)
        if not self._set.twins:
            return PointTask(job.key, point.shape, point.plans, in_force, self._band)
        plan = in_force or point.plans[0]
        return PointTask(job.key, point.shape, (plan,), plan, self._band, twins=True)

    def _take_in(self, answer: Answer, fleet: Fleet) -> None:
        job = self._at_work.pop(answer.slot, None)
        if isinstance(answer.task, BandTask):
            self._band_at_work = False
        elif isinstance(answer.task, StartTask) and self._starting:
            self._starting.remove(answer.slot)
        if answer.error is not None:
            if job is not None:
                self._waiting.appendleft(job)
            if answer.retired:
                self._retire(answer, fleet)
        elif isinstance(answer.task, BandTask):
            self._keep_band(answer.result)
        elif job is not None:
            self._keep(job, answer.result)

    def _keep_band(self, band: object) -> None:
        """Note the tie band for all points; None: it could not be measured."""
        assert band is None or isinstance(band, float)
        self._band_tried = True
        self._info = replace(self._info, tie_band=band)
        self._set.describe(self._info)

    def _keep(self, job: Job, measured: object) -> None:
        """Write a point's record down and tell of it."""
        assert isinstance(measured, PointRecord)
        record = job.kept(measured)
        self._set.journal.append(record)
        self._set.audits.see(record)
        self._waiting.extendleft(self._set.audits.due())
        if record.audits:
            self._summary.audited += 1
            return
        self._set.done[record.key] = record.status
        self._set.records.add(record)
        self._count(record)
        self._tell(self._set.told.finished, record)

    def _count(self, record: PointRecord) -> None:
        summary = self._summary
        summary.counts[record.status] = summary.counts.get(record.status, 0) + 1
        for row in record.rows:
            if row.status in FAILURES:
                summary.failed_plans[row.status] = summary.failed_plans.get(row.status, 0) + 1

    def _retire(self, answer: Answer, fleet: Fleet) -> None:
        """A slot on which no worker starts is given up; the last one is the end of the sweep."""
        assert answer.error is not None
        if not fleet.names:
            raise answer.error
        self._set.told.message(f"{answer.slot}: {answer.error}; {counted(len(fleet.names), 'device')} left")

    @property
    def _band(self) -> float:
        return self._set.spec.protocol.band_max if self._info.tie_band is None else self._info.tie_band

    def _out_of_time(self) -> bool:
        """True once the time budget is spent; never before the first point, so that repeated runs come to an end."""
        budget = self._set.spec.time_budget_seconds
        return budget is not None and self._summary.done > self._summary.reused and self._seconds() > budget

    def _seconds(self) -> float:
        return time.monotonic() - self._start

    def _tell(self, what: Callable[[T, int, int, float | None], None], subject: T) -> None:
        """Tell of ``subject`` where the sweep stands, with an estimate of what is left: at the mean time of a point
        since the first was handed out, or until the time budget ends.
        """
        summary, left = self._summary, None
        if measured := summary.done - summary.reused:
            left = (self._seconds() - self._began) / measured * (summary.total - summary.done)
            if (budget := self._set.spec.time_budget_seconds) is not None:
                left = min(left, max(0.0, budget - self._seconds()))
        what(subject, summary.done, summary.total, left)

    def _acknowledge(self) -> None:
        self._set.told.message("stopping after the point at hand; once more to stop at once")


def _cost(point: Point) -> int:
    """What a point costs, next to others: heads times candidates."""
    shape = point.shape
    return shape.num_tokens * shape.num_heads * (shape.topk + shape.extra_topk)
