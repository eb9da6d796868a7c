"""The lines that a terminal shows when a sweep or a fit has ended: crossovers first."""

from collections.abc import Iterator

from cake_tune.fit.samples import Samples
from cake_tune.journal.run import RunDirectory
from cake_tune.planner.table import PlannerTable
from cake_tune.report.findings import Findings, read_run
from cake_tune.report.words import (
    BRACKET,
    STALE,
    crossover_words,
    exceptions_words,
    group_name,
    held_out_lines,
    kept_words,
    measured_words,
    policy_words,
)
from cake_tune.sweep.words import counted, search_words

MOST_LINES = 24
"""Groups listed before the rest is left to report.md."""


def summary(run: RunDirectory, findings: Findings | None = None) -> list[str]:
    """The run in a few lines of text: crossovers, best splits, regret, and where the files are.

    ``findings``: those of ``run``, if at hand.
    """
    written = [path for path in (run.table, run.measurements, run.report) if path.exists()]
    files = "files: " + (", ".join(str(path) for path in written) or f"none yet in {run.path}")
    return [*summary_lines(findings or read_run(run)), files]


def summary_lines(findings: Findings) -> Iterator[str]:
    """``summary`` of findings already gathered, without the files."""
    yield f"{findings.info.sweep} on {findings.measured_on}"
    if not findings.info.device.is_gpu:
        yield "  not a GPU: its table never answers for one"
    if findings.samples is None:
        yield f"  nothing usable was measured yet ({counted(findings.points, 'point')} on record)"
    else:
        yield from _crossover_lines(findings)
        yield from _split_lines(findings.samples)
        yield f"points with times: {measured_words(findings.samples)}"
    if findings.info.search:
        yield search_words(findings.info.search)
    if findings.table is not None:
        yield from _table_lines(findings, findings.table)
    for policy in findings.policies:
        yield f"regret, {policy.name}: {policy_words(policy)}"
    if findings.table is not None:
        yield from held_out_lines(findings.table)
    if findings.kept and findings.samples is not None:
        yield f"kept for noise: {kept_words(findings.kept, findings.samples)}"
    for rival in findings.rivals.values():
        yield f"rival, in no table: {rival.words}"
    if findings.failures:
        counts = ", ".join(f"{count} {status}" for status, count in sorted(_failed(findings).items()))
        yield f"without a usable time: {counts}"


def _table_lines(findings: Findings, table: PlannerTable) -> Iterator[str]:
    if findings.stale:
        yield STALE
    moved = findings.moved
    yield f"rules: {counted(len(moved), 'constant')} moved from {findings.in_force.label}"
    for each in moved[:MOST_LINES]:
        yield f"  {each.constant}: {each.before or 'none'} → {each.after or 'none'}"
    if len(moved) > MOST_LINES:
        yield f"  … and {len(moved) - MOST_LINES} more in report.md"
    yield f"exceptions: {exceptions_words(table)}"


def _failed(findings: Findings) -> dict[str, int]:
    counts: dict[str, int] = {}
    for failure in findings.failures:
        counts[failure.status] = counts.get(failure.status, 0) + 1
    return counts


def _crossover_lines(findings: Findings) -> Iterator[str]:
    if not findings.crossovers:
        yield "crossovers: none, since no shape has times of both kernels"
        return
    yield "crossovers between decode and prefill"
    said = [
        f"  {group_name(each.num_heads, each.topk, each.extra_topk)}: {crossover_words(each)}"
        for each in findings.crossovers[:MOST_LINES]
    ]
    yield from said
    if any("(" in line for line in said):
        yield f"  {BRACKET}"
    if len(findings.crossovers) > MOST_LINES:
        yield f"  … and {len(findings.crossovers) - MOST_LINES} more in report.md"


def _split_lines(samples: Samples) -> Iterator[str]:
    rows, _ = samples.best("decode")
    groups = [(group, [point for point in points if rows[point] >= 0]) for group, points in samples.groups()]
    groups = [(group, points) for group, points in groups if points]
    if not groups:
        return
    yield "best splits of decode"
    for group, points in groups[:MOST_LINES]:
        ends = dict.fromkeys((points[0], points[-1]))
        said = ", ".join(
            f"{samples.plans[samples.plan[rows[point]]].num_splits} at T={samples.num_tokens[point]}" for point in ends
        )
        yield f"  {group_name(*group)}: {said}"
    if len(groups) > MOST_LINES:
        yield f"  … and {len(groups) - MOST_LINES} more in report.md"
