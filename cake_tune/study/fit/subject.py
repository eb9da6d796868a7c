"""Everything the study asks of one device."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from cake_tune.fit.collect import collect
from cake_tune.fit.crossover import crossovers
from cake_tune.fit.table import table_of_samples
from cake_tune.journal.record import PointRecord
from cake_tune.search.adaptive import Adaptive
from cake_tune.spec import Point, Search, Spec
from cake_tune.study.fit.crossings import Crossing, crossings
from cake_tune.study.fit.simulated import Subject, table_losses
from cake_tune.study.fit.size import Size

Losses = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Searched:
    """An adaptive search of the grid beside the exhaustive sweep of it.

    ``points``, ``pairs`` (of a point and a plan) and ``visits`` are shares of what the exhaustive sweep took;
    ``losses`` the true regrets of its table at every point of the grid, ``expected`` the mean that it ended with.
    """

    points: float
    pairs: float
    visits: float
    expected: float
    losses: Losses


@dataclass(frozen=True, slots=True)
class Studied:
    """One device: the true regrets of its table on measured and on held-out shapes, its crossovers, its search."""

    name: str
    num_sms: int
    measured: Losses
    held_out: Losses
    in_force: Losses
    """Of the table in force before, on the measured shapes."""
    crossings: tuple[Crossing, ...]
    exceptions: int
    outside: str
    """Which methods answer beyond what was measured: for other num_heads and topk, and for other num_tokens."""
    searched: Searched

    @property
    def search_excess(self) -> float:
        """How much more the table of the adaptive search loses than that of the exhaustive sweep, on average."""
        return fmean(self.searched.losses) - fmean(self.measured)


def study_subject(subject: Subject, size: Size, seed: int) -> Studied:
    """Measure the grid, fit, search it adaptively, and judge all of it by the truth."""
    points, unseen = size.grid(), size.unseen(seed)
    true, true_unseen = subject.true_us(points), subject.true_us(unseen)
    records = subject.measure(points)
    samples = collect(records)
    table = table_of_samples(samples, subject.info, subject.in_force)
    outside = table.outside
    return Studied(
        name=subject.device.name,
        num_sms=subject.device.num_sms,
        measured=tuple(table_losses(table, points, true)),
        held_out=tuple(table_losses(table, unseen, true_unseen)),
        in_force=tuple(table_losses(subject.in_force, points, true)),
        crossings=tuple(crossings(crossovers(samples), points, true)),
        exceptions=len(table.exceptions),
        outside="" if outside is None else f"{outside.groups} / {outside.tokens}",
        searched=_search(subject, points, records),
    )


def _search(subject: Subject, points: Sequence[Point], every: Sequence[PointRecord]) -> Searched:
    spec = Spec("fit-study", "simulated", expanded=tuple(points), search=Search("adaptive"))
    schedule = Adaptive(spec, subject.info, subject.in_force)
    records: list[PointRecord] = []
    while asked := schedule.next_points(records):
        records += subject.measure(asked, "adaptive")
    standing = schedule.standing(records)
    table = schedule.table or table_of_samples(collect(records), subject.info, subject.in_force)
    return Searched(
        points=standing["points"] / standing["listed_points"],
        pairs=standing["pairs"] / standing["listed_pairs"],
        visits=_visits(records) / _visits(every),
        expected=standing["expected_regret"],
        losses=tuple(table_losses(table, points, subject.true_us(points))),
    )


def _visits(records: Sequence[PointRecord]) -> int:
    return sum(len(row.visits) + len(row.confirm) for record in records for row in record.rows)
