"""``report.md`` from the template in ``templates/``."""

from cake_tune.planner.shape import Plan, Shape
from cake_tune.report.columns import COLUMNS
from cake_tune.report.drawn import Drawn
from cake_tune.report.findings import Findings
from cake_tune.report.words import crossover_words, group_name, regret_words, tokens_words

MOST_FAILURES = 20
"""Failures listed per status; measurements.csv holds them all."""


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
        cell=_cell, plan=_plan, shape=_shape, percent=_percent, crossover=crossover_words, regret=regret_words,
        tokens=tokens_words,
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
        most_failures=MOST_FAILURES,
        group_name=group_name,
        start_label=findings.in_force.label,
        started=findings.samples.dates if findings.samples is not None else None,
    )


def _cell(text: object) -> str:
    """Text that cannot break out of its table cell."""
    return str(text).replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ").strip()


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2f} %"


def _plan(plan: Plan | None) -> str:
    return "the whole point" if plan is None else f"`{plan}`"


def _shape(shape: Shape) -> str:
    """The shape, with only those flags that are not the usual ones."""
    said = [f"T={shape.num_tokens} {group_name(shape.num_heads, shape.topk, shape.extra_topk)}"]
    if shape.page_size != 64:
        said.append(f"page={shape.page_size}")
    if shape.extra_topk and shape.extra_page_size != 64:
        said.append(f"extra page={shape.extra_page_size}")
    said += [name for name, given in (("lengths", shape.lengths), ("sink", shape.sink)) if given]
    return " ".join(said)
