"""Points measured on two GPUs: how far the same plan is apart on them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from cake_tune.journal.record import PointRecord
from cake_tune.planner.shape import Shape
from cake_tune.study.points import reported_times


@dataclass(frozen=True, slots=True)
class Audited:
    """One audited point.

    ``ratios``: per plan that was confirmed or raced to the end on both, its time on the second GPU over that on the
    first. ``loss``: what the first GPU's choice loses to the fastest plan of the second, by the second's times, as a
    fraction; None without a time.
    """

    shape: Shape
    gpu: str
    audit_gpu: str
    ratios: tuple[float, ...]
    loss: float | None

    @property
    def ratio(self) -> float:
        """The geometric mean of the ratios; NaN without any."""
        return math.exp(math.fsum(map(math.log, self.ratios)) / len(self.ratios)) if self.ratios else math.nan

    @property
    def apart(self) -> float:
        """How far the two GPUs are apart, as the size of the log ratio; 0 without any."""
        return abs(math.log(self.ratio)) if self.ratios else 0.0


def worst_first(audits: Iterable[Audited]) -> list[Audited]:
    """The audits by what the first GPU's choice loses, without a time before all others, then by how far apart."""

    def lost(each: Audited) -> float:
        return math.inf if each.loss is None else each.loss

    return sorted(audits, key=lambda each: (-lost(each), -each.apart, each.shape))


def audits_of(records: Iterable[PointRecord]) -> list[Audited]:
    """Every audit among ``records`` with the record that it repeats, in the order of shapes."""
    held = list(records)
    by_key = {record.key: record for record in held if not record.audits}
    found = [_audited(by_key[record.audits], record) for record in held if record.audits and record.audits in by_key]
    return sorted(found, key=lambda each: (each.shape, each.gpu, each.audit_gpu))


def _audited(first: PointRecord, second: PointRecord) -> Audited:
    ours, theirs = reported_times(first), reported_times(second)
    lasting = [row.plan for row in first.rows if row.status in ("ok", "tied")]
    common = [plan for plan in lasting if plan in ours and plan in theirs]
    chosen = None if first.best is None else theirs.get(first.best)
    return Audited(
        shape=first.shape,
        gpu=first.gpu,
        audit_gpu=second.gpu,
        ratios=tuple(theirs[plan] / ours[plan] for plan in common),
        loss=None if chosen is None else chosen / min(theirs.values()) - 1,
    )
