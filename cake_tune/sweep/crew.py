"""Tasks get done whatever happens to the process that does them: lost workers are replaced, culprits are set aside."""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from cake_tune.journal.record import PlanRow, PointRecord
from cake_tune.planner.shape import Plan
from cake_tune.spec import Spec
from cake_tune.sweep.rows import failed_record
from cake_tune.sweep.supervisor import Worker, WorkerLostError
from cake_tune.sweep.tasks import BandTask, PointTask, Task

CHANCES = 2
"""Workers that a point may lose for no reason of its own, and a plan by a kill from outside."""


class Crew:
    """The worker of one sweep, started when first needed and again after a loss."""

    def __init__(self, spec: Spec, stop_now: Callable[[], bool], tell: Callable[[str], None]) -> None:
        self._spec = spec
        self._stop_now = stop_now
        self._tell = tell
        self._worker: Worker | None = None

    def measure_band(self, task: BandTask) -> float:
        """The tie band; the widest allowed if its measurement fails."""
        try:
            return float(str(self._ask(task)))
        except WorkerLostError as lost:
            self._tell(f"A/A run of {task.plan}: {lost.reason}; the tie band is {self._spec.protocol.band_max:g}")
            return self._spec.protocol.band_max

    def measure_point(self, task: PointTask) -> PointRecord:
        """The record of a point, with its start and wall time. A plan that takes a worker down becomes a row."""
        started, start = datetime.now(UTC).isoformat(timespec="milliseconds"), time.monotonic()
        record = self._measured(task)
        return replace(record, started=started, seconds=round(time.monotonic() - start, 3))

    def close(self) -> None:
        """End the worker."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _measured(self, task: PointTask) -> PointRecord:
        regime = self._spec.protocol.regime
        losses: Counter[Plan | None] = Counter()
        while True:
            try:
                answer = self._ask(task)
            except WorkerLostError as lost:
                self._tell(
                    f"{task.shape}: {lost.plan or 'no plan in particular'}: {lost.reason}; starting a new worker"
                )
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
        if self._worker is None:
            self._worker = Worker(self._spec.backend, self._spec.protocol, self._spec.seed)
        worker, self._worker = self._worker, None
        answer = worker.ask(task, self._stop_now)
        self._worker = worker
        return answer
