"""Which points are measured on a second device as well, so that a run says how far its devices agree."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from cake_tune.journal.record import PointRecord
from cake_tune.planner.shape import Plan
from cake_tune.spec import Point
from cake_tune.sweep.keys import audit_key, is_audited
from cake_tune.sweep.tasks import PointTask


@dataclass(frozen=True, slots=True)
class Job:
    """A point to measure; with ``audits``, to repeat the measurement of that record on another device."""

    key: str
    point: Point
    audits: PointRecord | None = None

    def may_run_on(self, slot: str) -> bool:
        """Whether that slot may do it."""
        return self.audits is None or self.audits.gpu != slot

    def repeated(self) -> PointTask:
        """The task of an audit: the plan in force and the tie band are those of the record that it repeats."""
        assert self.audits is not None
        return PointTask(self.key, self.point.shape, self.point.plans, self.audits.incumbent, self.audits.tie_band)

    def kept(self, record: PointRecord) -> PointRecord:
        """What the journal keeps of the measured ``record``."""
        return record if self.audits is None else replace(record, audits=self.audits.key)


class Audits:
    """The audits that a run still lacks; none where ``on`` is false (a single device, an A/A run)."""

    def __init__(self, seed: int, *, on: bool) -> None:
        self._seed = seed
        self._on = on
        self._made: set[str] = set()
        self._wanted: dict[str, PointRecord] = {}

    def see(self, record: PointRecord) -> None:
        """Take note of a record of the run: an audit, or a point that may be one of those to audit."""
        if record.audits:
            self._made.add(record.audits)
        elif self._on and record.best is not None and is_audited(record.key, self._seed):
            self._wanted[record.key] = record

    def due(self) -> list[Job]:
        """The audits to make, each given once."""
        wanted, self._wanted = self._wanted, {}
        return [
            Job(audit_key(key), Point(record.shape, _plans(record)), audits=record)
            for key, record in wanted.items()
            if key not in self._made
        ]


def possible(jobs: Iterable[Job], slots: Sequence[str]) -> bool:
    """Whether any of ``jobs`` may run on any of ``slots``."""
    return any(job.may_run_on(slot) for job in jobs for slot in slots)


def _plans(record: PointRecord) -> tuple[Plan, ...]:
    return tuple(row.plan for row in record.rows)
