"""``report.md`` from the template in ``templates/``."""

from collections.abc import Mapping

from cake_tune.planner.rules import DEFAULT_MAX_SPLITS
from cake_tune.planner.shape import Plan
from cake_tune.report.columns import COLUMNS
from cake_tune.report.drawn import Drawn
from cake_tune.report.findings import Findings
from cake_tune.report.words import (
    BRACKET,
    STALE,
    at_measured_only,
    crossover_words,
    exception_words,
    kept_words,
    measured_words,
    method_words,
    sure_words,
)
from cake_tune.sweep.words import search_words, shape_text

MOST_ROWS = 20
"""Rows of the lists of failures, per status, and of kept plans; measurements.csv holds them all."""


def render(findings: Findings, plots: list[Drawn]) -> str:
    """The text of ``report.md``; ``plots`` are linked relative to it."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("cake_tune.report"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters.update(
        cell=_cell, plan=_plan, shape=shape_text, percent=_percent, crossover=crossover_words, tokens=exception_words,
        sure=sure_words, measured=measured_words, search=search_words, method=method_words,
    )  # fmt: skip
    by_status: dict[str, list[object]] = {}
    for failure in findings.failures:
        by_status.setdefault(failure.status, []).append(failure)
    return environment.get_template("report.md.j2").render(
        findings=findings,
        info=findings.info,
        table=findings.table,
        plots=plots,
        columns=COLUMNS,
        failures=by_status,
        most=MOST_ROWS,
        max_splits=DEFAULT_MAX_SPLITS,
        kept_words=kept_words,
        at_measured_only=at_measured_only,
        replace_gain=_replace_gain(findings.info.protocol),
        bracket=BRACKET,
        stale=STALE,
        start_label=findings.in_force.label,
        started=findings.samples.dates if findings.samples is not None else None,
    )


def _cell(text: object) -> str:
    """Text that cannot break out of its table cell."""
    return str(text).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").strip()


def _replace_gain(protocol: Mapping[str, object]) -> str:
    gain = protocol.get("replace_gain")
    return f" by {_percent(gain)}" if isinstance(gain, float) else ""


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2f} %"


def _plan(plan: Plan | None) -> str:
    return "the whole point" if plan is None else f"`{plan}`"
