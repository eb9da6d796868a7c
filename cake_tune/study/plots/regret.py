"""What the table loses, beside the rules in force, the published ones and the best fixed plan."""

from collections.abc import Iterator
from pathlib import Path

from cake_tune.report.drawn import Drawn
from cake_tune.report.plots import style
from cake_tune.study.evidence import Evidence
from cake_tune.study.plots import parts

_DASHES = ("-", "-", "--", "-.")
"""Lines that lie on each other stay visible."""


def draw_regret(evidence: Evidence, directory: Path) -> Iterator[Drawn]:
    """One panel per set of points: the share of points that lose at most so much."""
    scores = evidence.scores
    with style.figure(4.4 * len(scores), 4.8) as drawn:
        panels = drawn.subplots(1, len(scores), squeeze=False, sharey=True)[0]
        for axes, on in zip(panels, scores, strict=True):
            for colour, dash, scored in zip(parts.COLOURS, _DASHES, on.answers, strict=False):
                parts.share_line(axes, [each.loss for each in scored.losses], colour, scored.name, dash)
            parts.loss_axis(axes, 100 * max(scored.summary.worst for scored in on.answers))
            axes.set_title(f"{on.label}: {on.name} ({on.points})", loc="left")
            axes.set_xlabel("regret (%) at most")
        panels[0].set_ylabel("share of points (%)")
        handles, labels = panels[0].get_legend_handles_labels()
        drawn.legend(handles, labels, loc="outside lower center", ncols=2)
        parts.title(drawn, "Time lost to the fastest measured plan", evidence)
        caption = "Regret of the table of run A and of what it is compared with"
        yield Drawn(style.save(drawn, directory / "regret.png"), caption)
