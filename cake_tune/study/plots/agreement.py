"""What each sweep's choice loses by the other's times."""

from collections.abc import Callable, Iterator
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from cake_tune.report.drawn import Drawn
from cake_tune.report.plots import style
from cake_tune.study.agreement import WITHIN, Agreement
from cake_tune.study.evidence import Evidence
from cake_tune.study.plots import parts


def draw_agreement(evidence: Evidence, directory: Path) -> Iterator[Drawn]:
    """One figure: the distribution of both losses, and the larger one over num_tokens; none without common points."""
    found = evidence.agreement
    if not found.points:
        return
    with style.figure(11, 4.7) as drawn:
        shares, spread = drawn.subplots(1, 2)
        _shares(shares, found)
        _spread(spread, found)
        drawn.legend(loc="outside lower center", ncols=5)
        parts.title(drawn, "Two sweeps: what each one's choice loses by the other's times", evidence)
        caption = "What each sweep's choice loses by the other's times"
        yield Drawn(style.save(drawn, directory / "agreement.png"), caption)


def _shares(axes: Axes, found: Agreement) -> None:
    parts.share_line(
        axes, [point.first.loss for point in found.points], parts.COLOURS[0], "choice of A by the times of B"
    )
    parts.share_line(
        axes, [point.second.loss for point in found.points], parts.COLOURS[5], "choice of B by the times of A", "--"
    )
    parts.loss_axis(axes, 100 * max(point.loss for point in found.points))
    _bound(axes.axvline, f"{100 * WITHIN:g} %")
    axes.set_xlabel("loss to the other's fastest plan (%) at most")
    axes.set_ylabel("share of common points (%)")


def _spread(axes: Axes, found: Agreement) -> None:
    for flipped, colour, marker, label in (
        (False, style.OTHER, "o", "same choice"),
        (True, parts.COLOURS[5], "^", "different choices"),
    ):
        points = [point for point in found.points if point.flipped is flipped]
        axes.plot(
            [point.shape.num_tokens for point in points],
            [100 * point.loss for point in points],
            marker, color=colour, markersize=4, alpha=0.7, label=f"{label} ({len(points)})",
        )  # fmt: skip
    top = max(1.0, *(100 * point.loss for point in found.points)) * 1.3
    axes.set_yscale("symlog", linthresh=parts.LINEAR_UP_TO, linscale=0.4)
    axes.set_ylim(-0.02, top)
    axes.yaxis.set_major_locator(FixedLocator(parts.loss_ticks(top)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.yaxis.set_minor_locator(NullLocator())
    style.token_axis(axes, [max(1, point.shape.num_tokens) for point in found.points])
    _bound(axes.axhline)
    axes.set_xlabel("num_tokens")
    axes.set_ylabel("larger of the two losses (%)")


def _bound(line: Callable[..., object], label: str | None = None) -> None:
    line(100 * WITHIN, color="black", linewidth=0.9, linestyle=":", zorder=1, label=label)
