"""One pass over a run's records for all who take something in, in two processes where the journal is long."""

from collections.abc import Sequence
from concurrent.futures import Executor
from copy import deepcopy
from typing import Protocol, Self

from cake_tune.journal.reader import Part
from cake_tune.journal.record import PointRecord
from cake_tune.journal.run import RunDirectory
from cake_tune.journal.second import halved


class Taker(Protocol):
    """Takes in records one after the other. Takers of neighbouring parts of a journal can be joined."""

    def add(self, record: PointRecord) -> None:
        """Take in the next record."""

    def join(self, later: Self) -> None:
        """Take in what ``later`` has taken in, whose records follow one's own."""


def fill(run: RunDirectory, takers: Sequence[Taker], second: Executor | None = None) -> None:
    """Show every record that ``run.read_records`` streams to each of ``takers``, which hold nothing yet.

    With ``second`` a half of the journal is read there, into copies of the takers, which are joined in the end.
    Raises as ``read_records`` does.
    """
    parts = run.parts(1 if second is None else 2)
    filled = halved(
        second, _filled, [(run, part, takers if not i else deepcopy(takers)) for i, part in enumerate(parts)]
    )
    for others in filled[1:]:
        for taker, later in zip(takers, others, strict=True):
            taker.join(later)


def _filled(share: tuple[RunDirectory, Part, Sequence[Taker]]) -> Sequence[Taker]:
    run, part, takers = share
    for record in run.read_records_of(part):
        for taker in takers:
            taker.add(record)
    return takers
