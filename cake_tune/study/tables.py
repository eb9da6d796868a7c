"""The CSV files of the GPU study: every point behind its figures."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

from cake_tune._files import whole_file
from cake_tune.planner.shape import Shape
from cake_tune.study.evidence import Evidence
from cake_tune.study.figures import Figure
from cake_tune.study.trial import Score

Value = object
Row = Sequence[Value]
SHAPE = tuple(Shape.__dataclass_fields__)


def write_tables(evidence: Evidence, figures: Sequence[Figure], out: Path) -> list[Path]:
    """Write them into ``out`` and return their paths; units are in the names of the columns."""
    return [
        _write(out / "figures.csv", FIGURES, map(_figure, figures)),
        _write(out / "agreement.csv", (*SHAPE, *AGREEMENT), _agreement(evidence)),
        _write(out / "twins.csv", (*SHAPE, *TWINS), _twins(evidence)),
        _write(out / "regret.csv", (*SHAPE, *REGRET), _regret(evidence)),
        _write(out / "gpus.csv", (*SHAPE, *GPUS), _gpus(evidence)),
        write_replays(evidence.replays.scores if evidence.replays is not None else (), out / "replay.csv"),
    ]


def write_replays(scores: Sequence[Score], path: Path) -> Path:
    """One row per policy and point of a replay."""
    return _write(path, (*SHAPE, *REPLAY), _replays(scores))


FIGURES = ("figure", "value_pct", "relation", "target_pct", "verdict", "definition")


def _figure(figure: Figure) -> Row:
    return (figure.name, figure.value, figure.relation, figure.target, figure.verdict, figure.definition)


AGREEMENT = (
    "agrees", "flipped",
    "choice_a", "loss_of_a_by_b_pct", "a_behind_choice_of_b_pct", "a_kept",
    "choice_b", "loss_of_b_by_a_pct", "b_behind_choice_of_a_pct", "b_kept",
)  # fmt: skip


def _agreement(evidence: Evidence) -> Iterator[Row]:
    for point in evidence.agreement.points:
        cells: list[Value] = [point.agrees, point.flipped]
        for side in (point.first, point.second):
            known = side.timed
            cells += [side.choice, 100 * side.loss if known else None, 100 * side.behind if known else None, side.kept]
        yield (*_shape(point.shape), *cells)


TWINS = ("plan", "ratio", "rounds", "tie_band_pct", "differs")


def _twins(evidence: Evidence) -> Iterator[Row]:
    for twin in evidence.twins.points:
        yield (*_shape(twin.shape), twin.plan, twin.ratio, twin.rounds, 100 * twin.tie_band, twin.differs)


REGRET = ("run", "points", "plans_from", "plan", "regret_pct", "time")


def _regret(evidence: Evidence) -> Iterator[Row]:
    for on in evidence.scores:
        for scored in on.answers:
            for each in scored.losses:
                yield (*_shape(each.shape), on.label, on.name, scored.name, each.plan, 100 * each.loss, each.kind)


GPUS = ("gpu", "audit_gpu", "ratio", "plans", "choice_loses_pct")


def _gpus(evidence: Evidence) -> Iterator[Row]:
    for each in evidence.audits:
        loss = None if each.loss is None else 100 * each.loss
        yield (*_shape(each.shape), each.gpu, each.audit_gpu, each.ratio, len(each.ratios), loss)


REPLAY = ("policy", "mean_regret_pct", "worst_regret_pct", "pairs", "flips", "costly_flips", "visits", "winners")


def _replays(scores: Sequence[Score]) -> Iterator[Row]:
    for each in scores:
        for played in each.played:
            regrets = played.regrets
            mean = 100 * sum(regrets) / len(regrets) if regrets else None
            worst = 100 * max(regrets) if regrets else None
            winners = {str(plan): played.selected.count(plan) for plan in set(played.selected)}
            said = " ".join(f"{plan}:{count}" for plan, count in sorted(winners.items(), key=lambda w: (-w[1], w[0])))
            counts = (len(played.pairs), played.flips, played.costly_flips, played.visits / len(played.selected))
            yield (*_shape(played.trial.shape), each.selector, mean, worst, *counts, said)


def _shape(shape: Shape) -> list[Value]:
    return [getattr(shape, name) for name in SHAPE]


def _write(path: Path, header: Sequence[str], rows: Iterator[Row]) -> Path:
    """One file, whole or not at all."""
    with whole_file(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows([_text(value) for value in row] for row in rows)
    return path


def _text(value: Value) -> str:
    """Numbers to six significant digits, truth as true and false, nothing as an empty field."""
    if value is None or value != value:  # noqa: PLR0124 (NaN alone differs from itself)
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else str(value)
