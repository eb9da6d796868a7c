"""Stream a journal's records into samples: variants of a shape combined, failed rows without a time."""

from collections.abc import Iterable

from cake_tune.errors import UndecidedError
from cake_tune.fit.combine import samples_of
from cake_tune.fit.samples import Samples
from cake_tune.fit.variants import Variant, says_something, variants_of
from cake_tune.journal.record import PointRecord

_BATCH = 256
"""Records held whole until they are made compact together."""


class Collector:
    """Takes in records one after the other, and keeps of each what a fit needs."""

    def __init__(self) -> None:
        self._seen = 0
        self._held: list[PointRecord] = []
        self._variants: list[Variant] = []

    def add(self, record: PointRecord) -> None:
        """Take in the next record."""
        self._seen += 1
        if says_something(record):
            self._held.append(record)
            if len(self._held) == _BATCH:
                self._compact()

    def join(self, later: "Collector") -> None:
        """Take in what ``later`` has taken in."""
        later._compact()
        self._seen += later._seen
        self._variants += later._variants

    def samples(self) -> Samples:
        """The samples of everything taken in; ``UndecidedError`` when no record holds a usable time."""
        self._compact()
        if not self._variants:
            raise UndecidedError(
                "records: expected at least one point with a measured plan, got none "
                f"(points seen: {self._seen}); nothing to fit"
            )
        return samples_of(self._variants)

    def _compact(self) -> None:
        if self._held:
            self._variants += variants_of(self._held)
            self._held = []


def collect(records: Iterable[PointRecord]) -> Samples:
    """Stream ``records`` into samples; ``UndecidedError`` when no record holds a usable time."""
    collector = Collector()
    for record in records:
        collector.add(record)
    return collector.samples()
