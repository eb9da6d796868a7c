"""What a sweep tells while it runs, and what it has to say at the end."""

from dataclasses import dataclass, field
from typing import Protocol

from cake_tune.errors import PointsFailedError, UndecidedError, WrongResultError
from cake_tune.journal.record import PointRecord, Status
from cake_tune.planner.shape import Shape

DECIDED: tuple[Status, ...] = ("ok", "tied")
"""Statuses of a point that has a best plan."""

FAILURES: tuple[Status, ...] = ("wrong", "crashed", "timeout", "oom", "invalid", "unstable")
"""Statuses of a plan that something went wrong with."""


class Progress(Protocol):
    """Told what happens, in the sweep's own thread; ``seconds_left`` is an estimate, None while there is none."""

    def message(self, text: str) -> None:
        """Something a person should know: a repaired journal, a lost worker, a request to stop."""

    def started(self, shape: Shape, done: int, total: int, seconds_left: float | None) -> None:
        """A point starts; ``done`` points of ``total`` lie behind."""

    def finished(self, record: PointRecord, done: int, total: int, seconds_left: float | None) -> None:
        """A point is in the journal; ``done`` includes it."""


class Silent:
    """Progress that nobody listens to."""

    def message(self, text: str) -> None:
        """Say nothing."""

    def started(self, shape: Shape, done: int, total: int, seconds_left: float | None) -> None:
        """Say nothing."""

    def finished(self, record: PointRecord, done: int, total: int, seconds_left: float | None) -> None:
        """Say nothing."""


@dataclass(slots=True)
class SweepSummary:
    """Where the sweep stands: all of its points, those of earlier runs included."""

    total: int
    counts: dict[Status, int] = field(default_factory=dict)
    """Points in the journal, by status."""
    reused: int = 0
    """Points that an earlier run had measured."""
    failed_plans: dict[Status, int] = field(default_factory=dict)
    """Plans of the points measured in this run that something went wrong with, by status."""
    audited: int = 0
    """Points that this run measured on a second device."""
    seconds: float = 0.0
    """Wall time of this run."""
    out_of_time: bool = False
    """True if the spec's time budget ended the run with points left."""

    @property
    def done(self) -> int:
        """Points in the journal."""
        return sum(self.counts.values())

    @property
    def decided(self) -> int:
        """Points with a best plan."""
        return sum(self.counts.get(status, 0) for status in DECIDED)

    @property
    def exit_code(self) -> int:
        """0 if every point done has a best plan, 7 if some have none.

        If none has: 4 if all of them have wrong results, else 5 ("nothing measured" is never 0).
        """
        if self.decided:
            return PointsFailedError.exit_code if self.decided < self.done else 0
        all_wrong = self.done > 0 and self.counts.get("wrong", 0) == self.done
        return WrongResultError.exit_code if all_wrong else UndecidedError.exit_code
