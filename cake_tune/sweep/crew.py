"""Tasks get done whatever happens to the process that does them: lost workers are replaced, culprits are set aside."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from cake_tune.errors import DeviceUnfitError
from cake_tune.journal.record import PlanRow, PointRecord
from cake_tune.planner.shape import Plan
from cake_tune.spec import Spec
from cake_tune.sweep.rows import failed_record
from cake_tune.sweep.slots import Slot
from cake_tune.sweep.supervisor import Worker, WorkerLostError
from cake_tune.sweep.tasks import BandTask, PointTask, Task
from cake_tune.sweep.words import shape_text

CHANCES = 2
"""Workers that a point may lose for no reason of its own, a plan by a kill from outside, and the sweep at a start."""


class Crew:
    """The worker of one slot, started when first needed and again after a loss."""

    def __init__(self, spec: Spec, slot: Slot, stop_now: Callable[[], bool], tell: Callable[[str], None]) -> None:
        self._spec = spec
        self._slot = slot
        self._ended = time.monotonic()
        self._stop_now = stop_now
        self._tell = tell
        self._worker: Worker | None = None

    def start(self) -> None:
        """Have the worker ready."""
        self._worker = self._worker or self._started()

    def measure_band(self, task: BandTask) -> float | None:
        """The tie band; None if its measurement fails."""
        try:
            answer = self._ask(task)
        except WorkerLostError as lost:
            answer, reason = None, lost.reason
        else:
            assert answer is None or isinstance(answer, float)
            reason = "too few of its visits gave a time"
        if answer is None:
            self._tell(
                f"A/A run of {task.plan} on {shape_text(task.shape)}: {reason}; the tie band is not known: points are "
                f"judged by the widest, {self._spec.protocol.band_max:g}, and the next run measures it again"
            )
        return answer

    def measure_point(self, task: PointTask) -> PointRecord:
        """The record of a point, with slot, start and wall time. A plan that takes a worker down becomes a row."""
        started, start = datetime.now(UTC).isoformat(timespec="milliseconds"), time.monotonic()
        record = self._measured(task)
        before, self._ended = self._ended, time.monotonic()
        audit = {**record.audit, "slot_seconds": round(self._ended - before, 6)}
        seconds = round(self._ended - start, 3)
        return replace(record, started=started, seconds=seconds, audit=audit, gpu=self._slot.name)

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _measured(self, task: PointTask) -> PointRecord:
        regime = self._spec.protocol.regime
        losses: Counter[Plan | None] = Counter()
        latest: WorkerLostError | None = None
        while True:
            try:
                answer = self._ask(task)
            except DeviceUnfitError:
                if latest is None:
                    raise
                # What took the last worker down may have broken the device as well: the point is not for another one.
                return failed_record(task, latest.status, latest.reason, failed=task.failed, regime=regime)
            except WorkerLostError as lost:
                latest = lost
                culprit = f"{lost.plan}: " if lost.plan is not None else "between two plans: "
                self._tell(f"{shape_text(task.shape)}: {culprit}{lost.reason}; starting a new worker")
                losses[lost.plan] += 1
                if losses[lost.plan] < CHANCES and (lost.from_outside or lost.plan is None):
                    continue
                if lost.plan is None:
                    return failed_record(task, lost.status, lost.reason, failed=task.failed, regime=regime)
                row = PlanRow(lost.plan, lost.status, error=lost.reason)
                task = replace(task, failed=(*task.failed, row))
            else:
                assert isinstance(answer, PointRecord)
                return answer

    def _ask(self, task: Task) -> object:
        worker, self._worker = self._worker or self._started(), None

        def tell(seconds: float, plan: Plan | None) -> None:
            self._tell(f"{shape_text(task.shape)}: {seconds:.0f} s so far{f', at {plan}' if plan is not None else ''}")

        try:
            answer = worker.ask(task, tell)
        except BaseException:
            worker.kill()
            raise
        self._worker = worker
        return answer

    def _started(self) -> Worker:
        """A new worker; one that is ended while it starts has a second chance."""
        for chance in range(CHANCES):
            try:
                spec, environment = self._spec, self._slot.environment
                return Worker(spec.backend, spec.protocol, spec.seed, self._stop_now, environment, self._tell)
            except WorkerLostError as lost:
                reason = lost.reason
                if chance + 1 < CHANCES:
                    self._tell(f"the worker did not start: {reason}; starting a new one")
        raise DeviceUnfitError(f"the worker does not start, tried {CHANCES} times: {reason}")
