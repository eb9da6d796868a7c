"""What the plots of the study share: the title, and how a distribution of losses is drawn."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from cake_tune.study.evidence import Evidence

COLOURS = ("#0072B2", "#009E73", "#E69F00", "#7F7F7F", "#CC79A7", "#D55E00")
"""From Okabe and Ito's palette."""
LINEAR_UP_TO = 0.1
"""Per cent below which an axis of losses is linear, so that zero has a place on it."""


def title(drawn: Figure, what: str, evidence: Evidence) -> None:
    """``what``, and on which device it was measured."""
    device = evidence.first.info.device
    unit = "workers, measured on CPU" if device.arch == "cpu" else "SMs"
    kind = "" if device.is_gpu or device.arch in ("cpu", device.name.lower()) else f", {device.arch}"
    drawn.suptitle(f"{what}\n{device.name}, {device.num_sms} {unit}{kind}", fontsize=11)


def share_line(axes: Axes, losses: Sequence[float], colour: str, label: str, dash: str = "-") -> None:
    """The share of points (per cent) with a loss of at most so much, from losses given as fractions."""
    values = 100 * np.sort(np.maximum(losses, 0.0))
    shares = np.arange(1, len(values) + 1) / len(values) * 100
    beyond = 1e6  # to the end of any axis
    axes.step([0, *values, beyond], [0, *shares, 100], dash, where="post", color=colour, linewidth=1.8, label=label)


def loss_axis(axes: Axes, most: float) -> None:
    """An axis of losses in per cent from 0 to ``most`` or a little beyond: logarithmic, and linear near 0."""
    top = max(most, 1.0) * 1.5
    axes.set_xscale("symlog", linthresh=LINEAR_UP_TO, linscale=0.4)
    axes.set_xlim(-0.01, top)
    axes.set_ylim(0, 102)
    axes.xaxis.set_major_locator(FixedLocator(loss_ticks(top)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())


def loss_ticks(top: float) -> list[float]:
    """0, 0.1, 0.3, 1, 3, … up to ``top``."""
    ticks = [0.0, *(step * 10.0**power for power in range(-1, 5) for step in (1, 3))]
    return [tick for tick in ticks if tick <= top]
