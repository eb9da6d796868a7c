"""Everything the GPU study says, gathered from its runs; figures, report, CSV files and plots only show it."""

from dataclasses import dataclass

from cake_tune.journal.record import PointRecord
from cake_tune.journal.run import RunDirectory, RunInfo
from cake_tune.planner.shape import Shape
from cake_tune.planner.table import PlannerTable
from cake_tune.report.fixed import Request
from cake_tune.study.agreement import Agreement
from cake_tune.study.gpus import Audited
from cake_tune.study.overhead import Overhead
from cake_tune.study.points import MeasuredPoint
from cake_tune.study.scored import Scored
from cake_tune.study.trial import Score
from cake_tune.study.twins import Twins

Points = dict[Shape, MeasuredPoint]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the study: its label, what it is, every record, and its own points with a usable time.

    ``messages`` tell which lines of its journal are damaged.
    """

    label: str
    directory: RunDirectory
    info: RunInfo
    records: tuple[PointRecord, ...]
    points: Points
    messages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScoredOn:
    """Every way to answer, on the points (at least one) of that run that ``name`` tells; run A's table first.

    ``beyond`` has, for each point at which the fastest plan has more splits than a look-up ever answers with, what the
    fastest of the others loses to it, as a fraction.
    """

    label: str
    name: str
    answers: tuple[Scored, ...]
    beyond: tuple[float, ...]

    @property
    def points(self) -> int:
        """How many points there are."""
        return len(self.answers[0].losses)


@dataclass(frozen=True, slots=True)
class Replays:
    """Policies on the recorded visits of run A: so many of its points (all ``of`` them if equal), repetitions, scores.

    ``means``: the journal kept the means of samples, so that argmin's are means; else they are medians. ``rounds``: the
    median number of recorded rounds that a point's visits are drawn from.
    """

    points: int
    of: int
    repetitions: int
    means: bool
    rounds: float
    scores: tuple[Score, ...]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the runs show.

    ``emitted``: run A's table is its ``table.json``; else it has none, and the table is fitted from its journal here.
    ``overlap``: points of the held-out run that are not held out, since run A measured them too; they are left out.
    ``twin_runs`` are the runs with A/A points.
    """

    first: Run
    second: Run
    held_out: Run | None
    overlap: int
    table: PlannerTable
    emitted: bool
    agreement: Agreement
    twins: Twins
    twin_runs: tuple[RunDirectory, ...]
    fixed: Request
    scores: tuple[ScoredOn, ...]
    overheads: tuple[tuple[str, Overhead], ...]
    audits: tuple[Audited, ...]
    replays: Replays | None
    options: tuple[str, ...] = ()
    """Options of the command that are not at their defaults."""

    @property
    def runs(self) -> tuple[Run, ...]:
        """The runs that there are."""
        return tuple(run for run in (self.first, self.second, self.held_out) if run is not None)

    @property
    def widest_band(self) -> float:
        """The widest tie band of the two sweeps, as a fraction."""
        return max(point.tie_band for run in (self.first, self.second) for point in run.points.values())
