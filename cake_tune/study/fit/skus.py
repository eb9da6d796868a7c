"""Devices whose optimum follows the published rules of a SKU: a fit must give exactly these back."""

from dataclasses import dataclass
from itertools import product

from cake_tune.backends.simulated_device import PRESETS, simulated_device
from cake_tune.fit.collect import collect
from cake_tune.fit.table import table_of_samples
from cake_tune.planner.registry import shipped_tables
from cake_tune.planner.table import PlannerTable
from cake_tune.report.moved import moved_constants
from cake_tune.study.fit.simulated import Subject
from cake_tune.study.fit.size import Size

SKUS = ("rtx-pro-6000", "rtx-5090", "gb10")
FITS = tuple(product(SKUS, SKUS))
"""Every SKU, from the rules of each: its own, which must stay, and the others', which must all move."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """A fit of the device that follows the rules of ``sku``, started at the rules of ``start``.

    ``moved``: constants in which the fitted rules differ from the SKU's own, as lines; ``exceptions``: how many.
    """

    sku: str
    start: str
    moved: tuple[str, ...]
    exceptions: int

    @property
    def exact(self) -> bool:
        """Whether nothing differs."""
        return not self.moved and not self.exceptions


def recovered(sku: str, start: str, size: Size) -> Recovered:
    """The fit of the device that follows the rules of ``sku``, started at those of ``start``, measured on the grid."""
    own = published(PRESETS[sku].num_sms)
    subject = Subject(simulated_device(f"ruled:{sku}"), published(PRESETS[start].num_sms))
    samples = collect(subject.measure(size.grid()))
    table = table_of_samples(samples, subject.info, subject.in_force)
    moved = tuple(
        f"{each.constant}: {each.before or 'none'} became {each.after or 'none'}"
        for each in moved_constants(own.rules, table.rules)
    )
    return Recovered(sku, start, moved, len(table.exceptions))


def published(num_sms: int) -> PlannerTable:
    """The published table of the SKU with that many multiprocessors."""
    tables = [table for table in shipped_tables() if table.provenance.kind == "published"]
    return next(table for table in tables if table.device.num_sms == num_sms)
