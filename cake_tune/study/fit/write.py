"""Write the fit study: report.md, CSV files and plots; the same evidence gives the same bytes."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean

from cake_tune._files import whole_file
from cake_tune.report.drawn import Drawn
from cake_tune.study.figures import Figure
from cake_tune.study.fit.evidence import Evidence, figures_of
from cake_tune.study.fit.subject import Studied

DEVICES = (
    "device", "num_sms", "regret_measured_pct", "worst_measured_pct", "regret_held_out_pct", "worst_held_out_pct",
    "regret_in_force_pct", "exceptions", "outside", "crossovers", "crossovers_within_one_step",
    "search_points_pct", "search_pairs_pct", "search_visits_pct", "search_expected_regret_pct", "search_excess_pct",
)  # fmt: skip
CROSSINGS = ("device", "num_heads", "topk", "true_cut", "fitted_cut", "steps", "crosses", "excess_pct")
SELECTORS = ("selector", "mean_regret_pct", "p95_pct", "worst_pct", "flips_pct", "costly_flips_pct", "visits_per_point")
SKUS = ("sku", "start", "exact", "exceptions", "moved")
FIGURES = ("figure", "value_pct", "relation", "target_pct", "verdict", "definition")


def write_fit_study(evidence: Evidence, out: Path, command: str) -> list[Figure]:
    """Write everything into ``out``, and return the figures that have a target; ``command`` made the evidence."""
    out.mkdir(parents=True, exist_ok=True)
    figures = figures_of(evidence)
    write_tables(evidence, figures, out)
    # Imported here: matplotlib takes half a second.
    from cake_tune.study.fit.plots import draw_all

    text = render(evidence, figures, draw_all(evidence, out / "plots"), command)
    with whole_file(out / "report.md") as file:
        file.write(text)
    return figures


def write_tables(evidence: Evidence, figures: Sequence[Figure], out: Path) -> None:
    """Every number behind the figures; units are in the names of the columns."""
    studied = [*evidence.devices, *evidence.presets]
    _write(
        out / "figures.csv",
        FIGURES,
        [(f.name, f.value, f.relation, f.target, f.verdict, f.definition) for f in figures],
    )
    _write(out / "devices.csv", DEVICES, [_device(each) for each in studied])
    _write(
        out / "crossovers.csv",
        CROSSINGS,
        [
            (each.name, c.num_heads, c.topk, c.true, c.fitted, c.steps, c.crosses, 100 * c.excess)
            for each in studied
            for c in each.crossings
        ],
    )
    _write(out / "skus.csv", SKUS, [(s.sku, s.start, s.exact, s.exceptions, "; ".join(s.moved)) for s in evidence.skus])
    _write(
        out / "selectors.csv",
        SELECTORS,
        [
            (
                each.selector,
                *(100 * value for value in (each.regret.mean, each.regret.p95, each.regret.worst)),
                100 * each.flips,
                100 * each.costly_flips,
                each.visits,
            )
            for each in evidence.scores
            if each.regret is not None
        ],
    )


def render(evidence: Evidence, figures: Sequence[Figure], plots: Sequence[Drawn], command: str) -> str:
    """The text of ``report.md``."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("cake_tune.study"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
    )
    environment.filters.update(percent=_percent, mean=fmean)
    return environment.get_template("fit.md.j2").render(
        evidence=evidence,
        figures=figures,
        plots={plot.path.stem: plot for plot in plots},
        command=command,
        within=_share(abs(each.steps) <= 1 for each in evidence.crossings),
        exact=_share(each.steps == 0 for each in evidence.crossings),
        crossing=[each for each in evidence.crossings if each.crosses],
        crossing_within=_share(abs(each.steps) <= 1 for each in evidence.crossings if each.crosses),
        apart=sorted((each for each in evidence.crossings if abs(each.steps) > 1), key=lambda each: -each.excess),
        worst=sorted(evidence.devices, key=lambda each: -fmean(each.held_out))[:5],
        worst_searched=sorted(evidence.devices, key=lambda each: -each.search_excess)[:5],
        both=_share(each.search_excess <= 0.005 and each.searched.pairs <= 0.2 for each in evidence.devices),
        visits=fmean(each.searched.visits for each in evidence.devices),
        in_force=fmean(fmean(each.in_force) for each in evidence.devices),
    )


def _percent(share: float) -> str:
    # A small loss on the other side of zero is no "-0.00".
    return f"{round(100 * share, 2) + 0.0:.2f} %"


def _share(held: Iterable[bool]) -> float:
    counted = list(held)
    return fmean(counted) if counted else 1.0


def _device(each: Studied) -> tuple[object, ...]:
    found = each.searched
    return (
        each.name,
        each.num_sms,
        100 * fmean(each.measured),
        100 * max(each.measured),
        100 * fmean(each.held_out),
        100 * max(each.held_out),
        100 * fmean(each.in_force),
        each.exceptions,
        each.outside,
        len(each.crossings),
        sum(abs(crossing.steps) <= 1 for crossing in each.crossings),
        *(100 * share for share in (found.points, found.pairs, found.visits, found.expected)),
        100 * each.search_excess,
    )


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with whole_file(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([_text(value) for value in row] for row in rows)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    # Four digits: what is behind them depends on how a processor adds up. Below a thousandth of a per cent it is zero.
    return f"{value if abs(value) >= 1e-3 else 0.0:.4g}" if isinstance(value, float) else str(value)
