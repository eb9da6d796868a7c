"""Everything a report says, gathered in one pass over the journal; the texts and the plots only show it."""

from collections import Counter
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass, field

from cake_tune.errors import SpecError, UndecidedError
from cake_tune.fit.crossover import Crossover, crossovers
from cake_tune.fit.kept import Kept, kept_for_noise
from cake_tune.fit.run import samples_of_run
from cake_tune.fit.samples import Samples, ShapeKey
from cake_tune.fit.table import table_of_samples
from cake_tune.journal.fill import Taker
from cake_tune.journal.run import RunDirectory, RunInfo
from cake_tune.journal.second import second_process
from cake_tune.planner.shape import Plan, Shape
from cake_tune.planner.table import PlannerTable, load_table
from cake_tune.report.beyond import Beyond
from cake_tune.report.moved import Moved, moved_constants
from cake_tune.report.notes import Failure, Notes
from cake_tune.report.policies import Policy, best_fixed, policy_of, table_policy
from cake_tune.report.rivals import Rival


@dataclass
class Findings:
    """What one run shows.

    ``in_force`` is the table its fit started from. ``samples`` is None when no row holds a usable time, ``table`` when
    none was emitted; ``stale``: the journal gives another table now. ``gpus``: points by the UUID of their GPU.
    ``spec_points``: how many points of the spec have a record, and how many it lists; None if run.json holds no spec.
    """

    info: RunInfo
    in_force: PlannerTable
    table: PlannerTable | None = None
    stale: bool = False
    samples: Samples | None = None
    crossovers: list[Crossover] = field(default_factory=list)
    policies: list[Policy] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    rivals: dict[str, Rival] = field(default_factory=dict)
    beyond: Beyond = field(default_factory=Beyond)
    statuses: Counter[str] = field(default_factory=Counter)
    row_statuses: Counter[str] = field(default_factory=Counter)
    gpus: Counter[str] = field(default_factory=Counter)
    spec_points: tuple[int, int] | None = None
    failures: list[Failure] = field(default_factory=list)
    incumbents: dict[ShapeKey, Plan] = field(default_factory=dict)
    messages: tuple[str, ...] = ()
    """What was wrong with lines of the journal that were passed over."""

    @property
    def points(self) -> int:
        """Points with a record."""
        return sum(self.statuses.values())

    @property
    def nothing_lost(self) -> bool:
        """Whether every policy with times is nowhere slower than the fastest plan."""
        timed = [policy for policy in self.policies if policy.timed]
        return bool(timed) and all(policy.summary.worst == 0 for policy in timed)

    @property
    def moved(self) -> list[Moved]:
        """The rule constants in which the table differs from the one its fit started at."""
        return moved_constants(self.in_force.rules, self.table.rules) if self.table is not None else []

    @property
    def measured_on(self) -> str:
        """The device for titles; says so when it is no GPU."""
        device = self.info.device
        if device.arch == "cpu":
            return f"{device.name}, {device.num_sms} workers, measured on CPU"
        return f"{device.name}, {device.num_sms} SMs" + ("" if device.is_gpu else f", {device.arch}")


def read_run(run: RunDirectory) -> Findings:
    """The findings of a run and the table in its directory, if there is one.

    Works at any time of a sweep: without a journal, or without a usable row, there is just less to say.
    """
    with second_process(run) as second:
        findings = gather(run, second=second)
        findings.stale = is_stale(findings, second)
    return findings


def gather(run: RunDirectory, *others: Taker, second: Executor | None = None) -> Findings:
    """What ``read_run`` finds, except whether the table is stale; ``others`` are shown every record on the way.

    The process ``second``, if there is one, shares the work.
    """
    findings, notes = Findings(run.read_info(), load_table(run.in_force)), Notes()
    if run.table.exists():
        findings.table = load_table(run.table)
    samples = None
    if run.journal.exists():
        with suppress(UndecidedError):
            samples = samples_of_run(run, findings.info, notes, *others, second=second)
    _take(findings, notes, run)
    if samples is not None:
        _judge(findings, samples, "emitted table")
    return findings


def is_stale(findings: Findings, second: Executor | None = None) -> bool:
    """Whether the journal gives another table now than the one in the directory."""
    if findings.table is None:
        return False
    return findings.samples is None or findings.table != _fitted(findings, findings.samples, second)


def fit_run(run: RunDirectory) -> Findings:
    """The findings of a run and the table that its journal gives now; writes nothing.

    ``UndecidedError`` when the journal holds no usable time.
    """
    findings, notes = Findings(run.read_info(), load_table(run.in_force)), Notes()
    with second_process(run) as second:
        samples = samples_of_run(run, findings.info, notes, second=second)
        _take(findings, notes, run)
        findings.table = _fitted(findings, samples, second)
    _judge(findings, samples, "fitted table")
    return findings


def _take(findings: Findings, notes: Notes, run: RunDirectory) -> None:
    findings.statuses, findings.row_statuses, findings.gpus = notes.statuses, notes.row_statuses, notes.gpus
    findings.incumbents, findings.rivals, findings.beyond = notes.incumbents, notes.rivals, notes.beyond
    findings.failures = sorted(notes.failures, key=lambda each: (each.status, each.shape, str(each.plan)))
    findings.spec_points = spec_points(findings.info, notes.shapes)
    findings.messages = tuple(run.messages)


def _fitted(findings: Findings, samples: Samples, second: Executor | None) -> PlannerTable:
    return table_of_samples(samples, findings.info, findings.in_force, second)


def spec_points(info: RunInfo, shapes: set[Shape]) -> tuple[int, int] | None:
    """How many points of the run's spec are among ``shapes``, and how many it lists; None if run.json holds no spec."""
    # Imported here: pydantic takes a while, which no other part of a report needs.
    from cake_tune.spec.load import parse_spec

    try:
        points = parse_spec(info.spec_text, info.spec_path, workload=False).points()
    except SpecError:
        return None
    return sum(point.shape in shapes for point in points), len(points)


def _judge(findings: Findings, samples: Samples, table_name: str) -> None:
    """Everything that follows from the samples and the table."""
    held = [(point, findings.incumbents.get(samples.key(point))) for point in range(len(samples))]
    policies = [
        table_policy(table_name, samples, findings.table) if findings.table else None,
        policy_of("plans in force before", samples, [(point, plan) for point, plan in held if plan is not None]),
        best_fixed(samples),
    ]
    findings.samples = samples
    findings.crossovers = crossovers(samples, findings.table)
    findings.policies = [policy for policy in policies if policy is not None]
    findings.kept = kept_for_noise(samples)
