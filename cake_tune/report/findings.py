"""Everything a report says, gathered in one pass over the journal; the texts and the plots only show it."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from cake_tune.errors import UndecidedError
from cake_tune.fit.certificate import table_regrets
from cake_tune.fit.collect import collect
from cake_tune.fit.crossover import Crossover, crossovers_of
from cake_tune.fit.overrides import verdict
from cake_tune.fit.regret import summarise
from cake_tune.fit.run import table_of_run
from cake_tune.fit.samples import Samples, ShapeKey
from cake_tune.journal.journal import read_journal
from cake_tune.journal.record import PointRecord
from cake_tune.journal.run import RunDirectory, RunInfo
from cake_tune.planner.shape import Plan, Shape
from cake_tune.planner.table import PlannerTable, Regret, load_table
from cake_tune.report.moved import Moved, moved_constants

GOOD = ("ok", "tied", "pruned")


class Failure(NamedTuple):
    """A plan, or a whole point (``plan`` None), that left no usable time."""

    status: str
    shape: Shape
    plan: Plan | None
    error: str


@dataclass(frozen=True)
class Policy:
    """A way to choose plans, and what it loses at each measured point (fractions)."""

    name: str
    regrets: tuple[float, ...]

    @property
    def summary(self) -> Regret:
        """Mean, 95th percentile and worst."""
        found = summarise(self.regrets)
        assert found is not None, "policies without points are left out"
        return found


@dataclass
class Findings:
    """What one run shows.

    ``in_force`` is the table its fit started from. ``samples`` is None when no row holds a usable time, ``table`` when
    none was emitted.
    """

    info: RunInfo
    in_force: PlannerTable
    table: PlannerTable | None = None
    samples: Samples | None = None
    crossovers: list[Crossover] = field(default_factory=list)
    policies: list[Policy] = field(default_factory=list)
    statuses: Counter[str] = field(default_factory=Counter)
    row_statuses: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    incumbents: dict[ShapeKey, Plan] = field(default_factory=dict)

    @property
    def points(self) -> int:
        """Points with a record."""
        return sum(self.statuses.values())

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
    return _gather(run, load_table(run.table) if run.table.exists() else None, observe)


def fit_run(run: RunDirectory) -> Findings:
    """The findings of a run and the table that its journal gives now; writes nothing.

    ``UndecidedError`` when the journal holds no usable time.
    """
    return _gather(run, table_of_run(run), None)


def _gather(run: RunDirectory, table: PlannerTable | None, observe: Callable[[PointRecord], None] | None) -> Findings:
    findings = Findings(run.read_info(), load_table(run.in_force), table)

    def watched() -> Iterator[PointRecord]:
        for record in read_journal(run.journal) if run.journal.exists() else ():
            _note(findings, record)
            if observe is not None:
                observe(record)
            yield record

    try:
        samples = collect(watched())
    except UndecidedError:
        samples = None
    if samples is not None:
        findings.samples = samples
        findings.crossovers = crossovers_of(samples, findings.table)
        findings.policies = list(_policies(findings, samples))
    findings.failures.sort(key=lambda failure: (failure.status, failure.shape, str(failure.plan)))
    return findings


def _note(findings: Findings, record: PointRecord) -> None:
    findings.statuses[record.status] += 1
    shape = record.shape
    if record.incumbent is not None:
        key = ShapeKey(shape.num_heads, shape.topk, shape.extra_topk, shape.num_tokens)
        findings.incumbents[key] = record.incumbent
    if record.status not in GOOD and not any(row.status not in GOOD for row in record.rows):
        findings.failures.append(Failure(record.status, shape, None, record.error or ""))
    for row in record.rows:
        findings.row_statuses[row.status] += 1
        if row.status not in GOOD:
            findings.failures.append(Failure(row.status, shape, row.plan, row.error or record.error or ""))


def _policies(findings: Findings, samples: Samples) -> Iterator[Policy]:
    if findings.table is not None:
        yield Policy("emitted table", tuple(table_regrets(samples, findings.table)))
    held = [(point, findings.incumbents.get(samples.key(point))) for point in range(len(samples))]
    regrets = tuple(verdict(samples, point, plan).regret for point, plan in held if plan is not None)
    if regrets:
        yield Policy("plans in force before", regrets)
    fixed = best_fixed(samples)
    if fixed is not None:
        yield fixed


def best_fixed(samples: Samples) -> Policy | None:
    """The one (kernel, head_tiles, num_splits) that loses least, of those with a time at four of five points or more.

    Where it has none, the point's slowest plan counts. None if no plan is measured that widely.
    """
    _, least = samples.best()
    slowest = np.fmax.reduceat(samples.log_time, samples.start[:-1])
    owner = np.repeat(np.arange(len(samples)), np.diff(samples.start))
    kinds: dict[tuple[str, int, int], list[int]] = {}
    for i, plan in enumerate(samples.plans):
        if not plan.options:
            kinds.setdefault((plan.kernel, plan.head_tiles, plan.num_splits), []).append(i)
    policies = []
    for (kernel, tiles, splits), members in kinds.items():
        rows = np.flatnonzero(np.isin(samples.plan, members) & np.isfinite(samples.log_time))
        if len(rows) >= 0.8 * len(samples):
            times = slowest.copy()
            times[owner[rows]] = samples.log_time[rows]
            regrets = np.expm1(times - least)
            name = f"always {kernel}, {tiles} head tile{'s' * (tiles > 1)}"
            name += f", {splits} split{'s' * (splits > 1)}" if kernel == "decode" else ""
            policies.append(Policy(f"best fixed plan ({name})", tuple(regrets.tolist())))
    return min(policies, key=lambda policy: (policy.summary.mean, policy.name), default=None)
