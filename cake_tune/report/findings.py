"""Everything a report says, gathered in one pass over the journal; the texts and the plots only show it."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from cake_tune.errors import SpecError, UndecidedError
from cake_tune.fit.collect import collect
from cake_tune.fit.crossover import Crossover, crossovers
from cake_tune.fit.kept import Kept, kept_for_noise
from cake_tune.fit.samples import Samples, ShapeKey
from cake_tune.fit.table import table_of_samples
from cake_tune.journal.record import USABLE, PointRecord
from cake_tune.journal.run import RunDirectory, RunInfo
from cake_tune.planner.shape import Plan, Shape
from cake_tune.planner.table import PlannerTable, load_table
from cake_tune.report.moved import Moved, moved_constants
from cake_tune.report.policies import Policy, best_fixed, policy_of, table_policy
from cake_tune.report.rivals import Rival, note_rivals


class Failure(NamedTuple):
    """A plan, or a whole point (``plan`` None), that left no usable time."""

    status: str
    shape: Shape
    plan: Plan | None
    error: str


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


def read_run(run: RunDirectory, observe: Callable[[PointRecord], None] | None = None) -> Findings:
    """The findings of a run and the table in its directory, if there is one; ``observe`` sees every record on the way.

    Works at any time of a sweep: without a journal, or without a usable row, there is just less to say.
    """
    findings = Findings(run.read_info(), load_table(run.in_force))
    if run.table.exists():
        findings.table = load_table(run.table)
    shapes: set[Shape] = set()
    with suppress(UndecidedError):
        samples = collect(_watched(run, findings, _both(lambda record: shapes.add(record.shape), observe)))
        _judge(findings, samples, "emitted table")
    findings.spec_points = _spec_points(findings.info, shapes)
    findings.messages = tuple(run.messages)
    if findings.table is not None:
        findings.stale = findings.samples is None or findings.table != _fitted(findings, findings.samples)
    return findings


def fit_run(run: RunDirectory) -> Findings:
    """The findings of a run and the table that its journal gives now; writes nothing.

    ``UndecidedError`` when the journal holds no usable time.
    """
    findings = Findings(run.read_info(), load_table(run.in_force))
    samples = collect(_watched(run, findings))
    findings.table = _fitted(findings, samples)
    _judge(findings, samples, "fitted table")
    return findings


def _fitted(findings: Findings, samples: Samples) -> PlannerTable:
    return table_of_samples(samples, findings.info, findings.in_force)


def _spec_points(info: RunInfo, shapes: set[Shape]) -> tuple[int, int] | None:
    # Imported here: pydantic takes a while, which no other part of a report needs.
    from cake_tune.spec.load import parse_spec

    try:
        points = parse_spec(info.spec_text, info.spec_path).points()
    except SpecError:
        return None
    return sum(point.shape in shapes for point in points), len(points)


def _both(
    one: Callable[[PointRecord], None], other: Callable[[PointRecord], None] | None
) -> Callable[[PointRecord], None]:
    def observe(record: PointRecord) -> None:
        one(record)
        if other is not None:
            other(record)

    return observe


def _watched(
    run: RunDirectory, findings: Findings, observe: Callable[[PointRecord], None] | None = None
) -> Iterator[PointRecord]:
    """The records of ``run``, noted in ``findings`` and shown to ``observe`` as they stream by."""
    for record in run.read_records() if run.journal.exists() else ():
        _note(findings, record)
        if observe is not None:
            observe(record)
        yield record
    findings.failures.sort(key=lambda failure: (failure.status, failure.shape, str(failure.plan)))


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


def _note(findings: Findings, record: PointRecord) -> None:
    findings.statuses[record.status] += 1
    if record.gpu:
        findings.gpus[record.gpu] += 1
    shape = record.shape
    if record.incumbent is not None:
        key = ShapeKey(shape.num_heads, shape.topk, shape.extra_topk, shape.num_tokens)
        findings.incumbents[key] = record.incumbent
    if record.status not in USABLE and not any(row.status not in USABLE for row in record.rows):
        findings.failures.append(Failure(record.status, shape, None, record.error or ""))
    note_rivals(findings.rivals, record)
    for row in record.rows:
        findings.row_statuses[row.status] += 1
        if row.status not in USABLE:
            findings.failures.append(Failure(row.status, shape, row.plan, row.error or record.error or ""))
