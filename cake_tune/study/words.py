"""What a terminal shows of studies."""

from collections.abc import Iterator, Sequence

from cake_tune.planner.table import Regret
from cake_tune.report.words import regret_words
from cake_tune.study.compare import Comparison
from cake_tune.study.figures import Figure
from cake_tune.study.trial import Score
from cake_tune.sweep.words import counted, shape_text

MOST_LINES = 20


def figure_lines(figures: Sequence[Figure]) -> Iterator[str]:
    """One line per figure: value, target, verdict."""
    width = max(len(figure.name) for figure in figures)
    for figure in figures:
        value = f"{figure.value:8.2f} %" if figure.value is not None else "       –  "
        verdict = figure.verdict + (f": {figure.missing}" if figure.value is None else "")
        yield f"{figure.name:{width}}{value}  (target {figure.relation} {figure.target:g} %)  {verdict}"


def replay_lines(scores: Sequence[Score]) -> Iterator[str]:
    """A table of policies, and what its columns mean; ``scores`` is not empty."""
    points, repetitions = len(scores[0].played), len(scores[0].played[0].selected)
    yield f"{counted(points, 'point')}, {repetitions} independent repetitions each, on recorded visits"
    row = "{:<18}{:>13}{:>9}{:>9}{:>9}{:>9}{:>9}{:>11}".format
    yield row("policy", "mean regret", "p95", "worst", "flips", "costly", "visits", "undecided")
    for each in scores:
        visits = f"{each.visits:.1f}"
        flips = (_percent(each.flips), _percent(each.costly_flips))
        yield row(each.selector, *_regrets(each.regret), *flips, visits, str(each.undecided))
    yield "regret: by the reported times; flips: pairs of repetitions with different winners; costly: over 1 % apart"
    if any(":mean" in each.selector for each in scores) and not all(p.trial.means for p in scores[0].played):
        yield "this journal did not keep the means of samples: for argmin, a visit is the median of its samples"


def comparison_lines(found: Comparison) -> Iterator[str]:
    """What became of plans, choices and table."""
    common = len(found.agreement.points)
    yield f"{counted(common, 'common point')}: at {found.agreement.agreeing} of them the choices agree within 1 %"
    yield (
        f"{counted(found.plans, 'plan')} with times in both: the median one takes {found.drift:.4f} times as long, "
        f"the others are {100 * found.scatter:.2f} % apart from it"
    )
    other = f" ({100 * found.floor:.2f} % for the {counted(found.floored, 'plan')} that another GPU timed)"
    beyond = f"{100 * found.margin:.2f} %" + (other if found.floored and found.floor > found.margin else "")
    yield f"slower by more than {beyond}, and standing out: {len(found.slower)}"
    for each in found.slower[:MOST_LINES]:
        yield (
            f"  {shape_text(each.shape)}: {each.plan}: {100 * each.slowdown:.2f} % slower, "
            f"{100 * each.sure:.2f} % of it beyond the noise of its visits"
        )
    if len(found.slower) > MOST_LINES:
        yield f"  … and {len(found.slower) - MOST_LINES} more"
    yield f"regret on the points of B, table of A: {regret_words(found.regret_before)}"
    yield f"regret on the points of B, table of B: {regret_words(found.regret_after)}"
    if found.regressions:
        yield _causes(found)


def _causes(found: Comparison) -> str:
    """What else than a worse kernel or table looks like this, and what to do about it."""
    if found.all_slower:
        seen = "all plans became slower alike, as under load, heat or lower clocks while B was measured"
    elif found.slower:
        seen = "load that came and went while B was measured makes single plans stand out as well"
    else:
        seen = "a table fitted to noisy times chooses worse as well"
    return f"{seen}: measure B again on a quiet machine, or allow so much with --margin"


def _regrets(regret: Regret | None) -> tuple[str, str, str]:
    if regret is None:
        return "–", "–", "–"
    return _percent(regret.mean), _percent(regret.p95), _percent(regret.worst)


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.2f} %"
