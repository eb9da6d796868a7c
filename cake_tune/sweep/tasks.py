"""What the parent asks of a worker process, and how a worker keeps it posted."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.context import SpawnContext

from cake_tune.journal.record import PlanRow
from cake_tune.planner.shape import Plan, Shape

Announce = Callable[[Plan], None]
"""Told which plan runs next, before it does: a crash is then that plan's."""


@dataclass(frozen=True, slots=True)
class BandTask:
    """Measure the tie band with one plan of one shape; the answer is the band as a fraction."""

    shape: Shape
    plan: Plan

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The one plan."""
        return (self.plan,)


@dataclass(frozen=True, slots=True)
class PointTask:
    """Measure one point; the answer is its ``PointRecord``. ``failed`` are plans that brought a worker down before.

    An A/A point has ``twins``, and one plan to race against itself.
    """

    key: str
    shape: Shape
    plans: tuple[Plan, ...]
    in_force: Plan | None
    band: float
    failed: tuple[PlanRow, ...] = ()
    twins: bool = False


Task = BandTask | PointTask


class StartTask:
    """Asks a slot for nothing but to start its worker, so that it is ready for its first task."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A worker's last words: the error after which its device cannot be trusted."""

    error: str


class Ready:
    """A worker's first word."""


class Board:
    """Shared memory in which a worker leaves what it is doing; writing costs no system call and wakes nobody."""

    def __init__(self, context: SpawnContext) -> None:
        self._plan = context.RawValue("q", -1)
        self._beat = context.RawValue("d", time.monotonic())

    def note(self, plan_index: int) -> None:
        """Note the plan that runs next, by its place in the task (-1: none in particular)."""
        self._plan.value = plan_index
        self._beat.value = time.monotonic()

    @property
    def plan_index(self) -> int:
        """The plan noted last."""
        return int(self._plan.value)

    @property
    def silent_seconds(self) -> float:
        """Time since the last note (the monotonic clock is the machine's, the same in both processes)."""
        return time.monotonic() - float(self._beat.value)
