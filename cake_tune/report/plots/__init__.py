"""The report's plots: latency and crossovers, best splits, regret."""

from pathlib import Path

from cake_tune.report.drawn import Drawn
from cake_tune.report.findings import Findings
from cake_tune.report.plots.latency import draw_latencies
from cake_tune.report.plots.regret import draw_regret
from cake_tune.report.plots.splits import draw_splits


def draw_all(findings: Findings, directory: Path) -> list[Drawn]:
    """Write every plot that the findings allow into ``directory``, in place of an earlier report's PNG files."""
    directory.mkdir(parents=True, exist_ok=True)
    for stale in directory.glob("*.png"):
        stale.unlink()
    if findings.samples is None:
        return []
    return [
        *draw_latencies(findings, findings.samples, directory),
        *draw_splits(findings, findings.samples, directory),
        *draw_regret(findings, directory),
    ]
