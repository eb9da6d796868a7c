"""The plots of the GPU study: agreement, A/A, regret, replay."""

from collections.abc import Iterator
from pathlib import Path

from cake_tune.report.drawn import Drawn
from cake_tune.study.evidence import Evidence
from cake_tune.study.plots.agreement import draw_agreement
from cake_tune.study.plots.regret import draw_regret
from cake_tune.study.plots.replay import draw_replay
from cake_tune.study.plots.twins import draw_twins


def draw_all(evidence: Evidence, directory: Path) -> list[Drawn]:
    """Write every plot that the evidence allows into ``directory``, in place of an earlier study's PNG files."""
    directory.mkdir(parents=True, exist_ok=True)
    for stale in directory.glob("*.png"):
        stale.unlink()
    return list(_drawn(evidence, directory))


def _drawn(evidence: Evidence, directory: Path) -> Iterator[Drawn]:
    yield from draw_agreement(evidence, directory)
    yield from draw_twins(evidence, directory)
    yield from draw_regret(evidence, directory)
    yield from draw_replay(evidence, directory)
