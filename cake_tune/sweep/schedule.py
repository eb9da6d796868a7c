"""Which points a sweep measures next: asked again whenever nothing is left, so that measurements can lead on."""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Protocol, overload

from cake_tune.errors import UsageError
from cake_tune.journal.record import PointRecord
from cake_tune.spec import Point, Spec


class Schedule(Protocol):
    """The order of work, deterministic in the spec and the set of records: a resumed sweep goes on the same way."""

    def next_points(self, records: Sequence[PointRecord]) -> list[Point]:
        """The points to measure next, given every record of the run so far (one per key); none ends the sweep.

        Points that are measured already may be among them: they are passed over. A point must belong to the spec (see
        ``Keys.admits``), else the next run would set its row aside. A device that has nothing to do asks while others
        are still at work: points that were asked for may lack their records, are passed over as well, and more may be
        asked for only if it does not depend on them.
        """


class Exhaustive:
    """Every point of the spec, at once."""

    def __init__(self, spec: Spec) -> None:
        self._points: list[Point] | None = spec.points()

    def next_points(self, records: Sequence[PointRecord]) -> list[Point]:
        """All points at the first call, then none."""
        points, self._points = self._points, None
        return points or []


class Drawn:
    """Some of the spec's points, drawn by its seed; a smaller number draws some of the same."""

    def __init__(self, spec: Spec, count: int) -> None:
        """``UsageError`` unless the spec has ``count`` points, at least one."""
        points = spec.points()
        if not 1 <= count <= len(points):
            raise UsageError(f"--aa: expected from 1 to {len(points)} points of {spec.name}, got {count}")
        Random(f"{spec.seed} drawn").shuffle(points)
        self._points: list[Point] | None = points[:count]

    def next_points(self, records: Sequence[PointRecord]) -> list[Point]:
        """All of them at the first call, then none."""
        points, self._points = self._points, None
        return points or []


class Records(Sequence[PointRecord]):
    """The records of a run, read when they are first looked at: an exhaustive sweep never does."""

    def __init__(self, read: Callable[[], Iterator[PointRecord]]) -> None:
        self._read = read
        self._held: dict[str, PointRecord] | None = None

    def add(self, record: PointRecord) -> None:
        """One more record, in place of one of the same key; it is in the journal already."""
        if self._held is not None:
            self._held.pop(record.key, None)
            self._held[record.key] = record

    def __len__(self) -> int:
        return len(self._loaded())

    @overload
    def __getitem__(self, index: int) -> PointRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[PointRecord]: ...
    def __getitem__(self, index: int | slice) -> PointRecord | list[PointRecord]:
        return list(self._loaded().values())[index]

    def __iter__(self) -> Iterator[PointRecord]:
        return iter(list(self._loaded().values()))

    def _loaded(self) -> dict[str, PointRecord]:
        if self._held is None:
            self._held = {record.key: record for record in self._read()}
        return self._held
