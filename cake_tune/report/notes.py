"""What a report counts and lists while the journal streams by."""

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from cake_tune.fit.samples import ShapeKey
from cake_tune.journal.record import USABLE, PointRecord
from cake_tune.planner.shape import Plan, Shape
from cake_tune.report.beyond import Beyond
from cake_tune.report.rivals import Rival, note_rivals


class Failure(NamedTuple):
    """A plan, or a whole point (``plan`` None), that left no usable time."""

    status: str
    shape: Shape
    plan: Plan | None
    error: str


@dataclass
class Notes:
    """Counts and lists of the records shown, in their order; see ``Findings`` for their meaning."""

    statuses: Counter[str] = field(default_factory=Counter)
    row_statuses: Counter[str] = field(default_factory=Counter)
    gpus: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    incumbents: dict[ShapeKey, Plan] = field(default_factory=dict)
    rivals: dict[str, Rival] = field(default_factory=dict)
    shapes: set[Shape] = field(default_factory=set)
    beyond: Beyond = field(default_factory=Beyond)

    def add(self, record: PointRecord) -> None:
        """Note ``record``."""
        shape = record.shape
        self.shapes.add(shape)
        self.statuses[record.status] += 1
        if record.gpu:
            self.gpus[record.gpu] += 1
        if record.incumbent is not None:
            key = ShapeKey(shape.num_heads, shape.topk, shape.extra_topk, shape.num_tokens)
            self.incumbents[key] = record.incumbent
        note_rivals(self.rivals, record)
        self.beyond.add(record)
        failed = [row for row in record.rows if row.status not in USABLE]
        if record.status not in USABLE and not failed:
            self.failures.append(Failure(record.status, shape, None, record.error or ""))
        for row in failed:
            self.failures.append(Failure(row.status, shape, row.plan, row.error or record.error or ""))
        self.row_statuses.update([row.status for row in record.rows])

    def join(self, later: "Notes") -> None:
        """Note what ``later`` noted, of the records that follow."""
        self.statuses.update(later.statuses)
        self.row_statuses.update(later.row_statuses)
        self.gpus.update(later.gpus)
        self.failures += later.failures
        self.incumbents |= later.incumbents
        self.shapes |= later.shapes
        self.beyond.join(later.beyond)
        for name, rival in later.rivals.items():
            self.rivals.setdefault(name, Rival(name)).join(rival)
