"""``report.md`` of the GPU study from the template in ``templates/``."""

import os
from collections.abc import Sequence
from pathlib import Path

from cake_tune.planner.rules import DEFAULT_MAX_SPLITS
from cake_tune.report.drawn import Drawn
from cake_tune.study.agreement import WITHIN
from cake_tune.study.evidence import Evidence
from cake_tune.study.figures import Figure
from cake_tune.study.gpus import worst_first
from cake_tune.sweep.words import counted, shape_text

MOST_ROWS = 20
"""Rows of a list of points; the CSV files hold them all."""


def render(evidence: Evidence, figures: Sequence[Figure], plots: Sequence[Drawn], out: Path) -> str:
    """The text of ``report.md`` in ``out``; runs are named relative to it, so that the text is the same everywhere."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("cake_tune.study"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters.update(
        cell=_cell,
        shape=shape_text,
        percent=_percent,
        share=_share,
        seconds=_seconds,
        points=lambda number: counted(number, "point"),
    )
    return environment.get_template("gpu.md.j2").render(
        evidence=evidence,
        figures=figures,
        plots={plot.path.stem: plot for plot in plots},
        info=evidence.first.info,
        paths={run.label: relative(run.directory.path, out) for run in evidence.runs},
        twin_paths=[relative(run.path, out) for run in evidence.twin_runs],
        audits=worst_first(evidence.audits),
        most=MOST_ROWS,
        within=WITHIN,
        max_splits=DEFAULT_MAX_SPLITS,
    )


def relative(path: Path, out: Path) -> str:
    """``path`` as seen from the directory ``out``."""
    return Path(os.path.relpath(path.resolve(), out.resolve())).as_posix()


def _cell(text: object) -> str:
    """Text that cannot break out of its table cell."""
    return str(text).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").strip()


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2f} %"


def _share(count: int, of: int) -> str:
    """``19 of 20 (95.0 %)``."""
    return f"{count} of {of}" + (f" ({100 * count / of:.1f} %)" if of else "")


def _seconds(value: float | None) -> str:
    return "not on record" if value is None else f"{value:,.1f} s"
