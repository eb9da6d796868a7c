"""What each policy loses and how often it changes its mind, beside what it spends."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from matplotlib.axes import Axes

from cake_tune.report.drawn import Drawn
from cake_tune.report.plots import style
from cake_tune.study.evidence import Evidence
from cake_tune.study.plots import parts
from cake_tune.study.trial import Score


def draw_replay(evidence: Evidence, directory: Path) -> Iterator[Drawn]:
    """One figure: mean regret, and flips, as bars per policy; none where nothing was replayed."""
    if evidence.replays is None:
        return
    scores = evidence.replays.scores
    with style.figure(10, 1.9 + 0.38 * len(scores)) as drawn:
        regrets, flips = drawn.subplots(1, 2, sharey=True)
        _bars(regrets, [None if each.regret is None else 100 * each.regret.mean for each in scores], parts.COLOURS[0])
        regrets.set_xlabel("mean regret (%)")
        _bars(flips, [100 * each.flips for each in scores], style.OTHER, "different winners")
        _bars(flips, [100 * each.costly_flips for each in scores], parts.COLOURS[5], "more than 1 % apart", inside=True)
        flips.set_xlabel("flips (% of pairs of repetitions)")
        regrets.set_yticks(range(len(scores)), [_name(each) for each in scores])
        regrets.invert_yaxis()
        drawn.legend(loc="outside lower center", ncols=2)
        parts.title(drawn, "Policies replayed on recorded visits", evidence)
        yield Drawn(style.save(drawn, directory / "replay.png"), "Mean regret and winner flips of policies")


def _name(score: Score) -> str:
    return f"{score.selector.removesuffix(':mean')}, {score.visits:.0f} visits"


def _bars(
    axes: Axes, values: Sequence[float | None], colour: str, label: str | None = None, *, inside: bool = False
) -> None:
    """Horizontal bars with their values beside them; ``inside`` draws thinner ones over others, without values."""
    known = [value or 0.0 for value in values]
    axes.barh(range(len(known)), known, 0.34 if inside else 0.72, color=colour, label=label)
    axes.grid(visible=False, axis="y")
    if inside:
        return
    for place, value in enumerate(values):
        text = "–" if value is None else "0" if value == 0 else f"{value:.2f}" if value >= 0.01 else f"{value:.1g}"
        axes.annotate(text, (value or 0.0, place), xytext=(3, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_xlim(0, max([*known, 0.01]) * 1.15)
