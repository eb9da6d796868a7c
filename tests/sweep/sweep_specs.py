"""Specs, a listener and readers that the sweep's tests share."""

from dataclasses import dataclass, field
from pathlib import Path

from cake_tune.journal.journal import read_journal
from cake_tune.journal.record import PointRecord
from cake_tune.journal.run import RunDirectory
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.shape import Shape, every_plan
from cake_tune.spec import Point, Spec

QUICK = Protocol(
    discard=1,
    samples=3,
    short_samples=3,
    max_rounds=4,
    early_rounds=2,
    kn_rounds=3,
    confirm_rounds=3,
    aa_rounds=4,
    warmup_seconds=0.0,
    point_seconds=5.0,
    timeout_seconds=20.0,
)
SHAPES = [Shape(tokens, 16, 256) for tokens in (1, 4, 64)]


def make_spec(shapes=SHAPES, backend: str = "simulated", protocol: Protocol = QUICK, **fields) -> Spec:
    points = tuple(Point(shape, tuple(every_plan(shape))) for shape in shapes)
    return Spec(name="test", backend=backend, protocol=protocol, expanded=points, path="test.yaml", **fields)


def many_shapes(count: int) -> list[Shape]:
    return [Shape(tokens, 16, 128) for tokens in range(1, count + 1)]


@dataclass
class Listener:
    """Progress that remembers, and can act when a point starts."""

    on_start: object = None
    messages: list[str] = field(default_factory=list)
    started_shapes: list[Shape] = field(default_factory=list)
    records: list[PointRecord] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)
    estimates: list[float | None] = field(default_factory=list)

    def message(self, text):
        self.messages.append(text)

    def started(self, shape, done, total, seconds_left):
        self.started_shapes.append(shape)
        self.places.append((done, total))
        self.estimates.append(seconds_left)
        if self.on_start is not None:
            self.on_start(shape)

    def finished(self, record, done, total, seconds_left):
        self.records.append(record)
        self.places.append((done, total))
        self.estimates.append(seconds_left)


def records_of(run: RunDirectory) -> dict[Shape, PointRecord]:
    return {record.shape: record for record in read_journal(run.journal)}


def lines_of(run: RunDirectory) -> list[bytes]:
    return run.journal.read_bytes().splitlines(keepends=True)


def run_at(path: Path) -> RunDirectory:
    return RunDirectory(path / "run")
