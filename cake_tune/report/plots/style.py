"""How every plot looks: colours that colour-blind readers tell apart, plain tick labels, the device in the title."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from cake_tune._files import whole_file
from cake_tune.report.findings import Findings

T = TypeVar("T")

# From Okabe and Ito's palette.
DECODE, PREFILL, CROSSING, OTHER = "#0072B2", "#D55E00", "#009E73", "#B0B0B0"
POLICIES = ("#0072B2", "#E69F00", "#7F7F7F")

_DPI = 130

_SETTINGS: Any = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
}


@contextmanager
def figure(width: float, height: float) -> Iterator[Figure]:
    """A figure of ``width`` by ``height`` inches in the common style; no window, no global state."""
    with mpl.rc_context(_SETTINGS):
        drawn = Figure(figsize=(width, height), layout="constrained", dpi=_DPI)
        FigureCanvasAgg(drawn)
        yield drawn


def title(drawn: Figure, what: str, findings: Findings) -> None:
    """``what``, and on which device it was measured."""
    drawn.suptitle(
        f"{what}\n{findings.measured_on}, {findings.info.protocol.get('regime', 'cold')} caches", fontsize=11
    )


def save(drawn: Figure, path: Path) -> Path:
    """Write the PNG, whole and without its date, so that the same figure is the same file."""
    # Laid out here, because saving would draw everything once more for that alone.
    if (layout := drawn.get_layout_engine()) is not None:
        layout.execute(drawn)
        drawn.set_layout_engine("none")
    with whole_file(path, binary=True) as file:
        drawn.savefig(file, format="png", dpi=_DPI, metadata={"Software": None})
    return path


def evenly(items: Sequence[T], most: int) -> list[T]:
    """At most ``most`` (two or more) of ``items``, the first and the last among them, evenly."""
    if len(items) <= most:
        return list(items)
    return [items[round(place * (len(items) - 1) / (most - 1))] for place in range(most)]


def some_words(drawn: int, every: int) -> str:
    """What a caption adds where only some of the (topk, extra_topk) are drawn."""
    return f"; {drawn} of {every} (topk, extra_topk), evenly" if drawn < every else ""


def token_axis(axes: Axes, tokens: Iterable[int]) -> None:
    """A log axis over num_tokens, labelled at measured ones that leave room for each other."""
    ordered = sorted(set(tokens))
    axes.set_xscale("log", base=2)
    axes.set_xlim(ordered[0] / 1.3, ordered[-1] * 1.3)
    shown: list[int] = []
    least = max(1.35, (ordered[-1] / ordered[0]) ** 0.07)
    # Powers of two first: they are what people look for.
    for count in sorted(ordered, key=lambda count: (count.bit_count() != 1, count)):
        if all(count >= other * least or other >= count * least for other in shown):
            shown.append(count)
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())


def time_axis(axes: Axes, least: float, most: float) -> None:
    """A log axis over microseconds with plain numbers at 1, 2 and 5 of each decade, or closer where it is short."""
    axes.set_yscale("log")
    axes.set_ylim(least / 1.15, most * 1.15)
    steps = (1, 2, 5) if most / least > 4 else (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    ticks = [step * 10.0**power for power in range(-3, 8) for step in steps]
    axes.yaxis.set_major_locator(FixedLocator([tick for tick in ticks if least / 1.15 <= tick <= most * 1.15]))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_minor_locator(NullLocator())
