"""What the emitted table loses, beside the plans in force before and the best fixed plan."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from cake_tune.report.drawn import Drawn
from cake_tune.report.findings import Findings
from cake_tune.report.plots import style
from cake_tune.report.policies import Policy

_LINEAR_UP_TO = 0.1
"""Per cent below which the axis is linear, so that zero has a place on it."""


def draw_regret(findings: Findings, directory: Path) -> Iterator[Drawn]:
    """One figure: mean, p95 and worst as bars, and the whole distribution; none when nothing is lost anywhere."""
    policies = [policy for policy in findings.policies if policy.timed]
    if not policies or findings.nothing_lost:
        return
    with style.figure(11, 4.6) as drawn:
        bars, shares = drawn.subplots(1, 2, width_ratios=[1, 1.15])
        _bars(bars, policies)
        _distribution(shares, policies)
        style.title(drawn, "Time lost to the fastest measured plan", findings)
        drawn.legend(loc="outside lower center", ncols=1)
        yield Drawn(style.save(drawn, directory / "regret.png"), "Regret of the table and of what it replaces")


def _bars(axes: Axes, policies: list[Policy]) -> None:
    width = 0.8 / len(policies)
    tallest = max(policy.summary.worst for policy in policies)
    for i, policy in enumerate(policies):
        found = policy.summary
        heights = [100 * found.mean, 100 * found.p95, 100 * found.worst]
        places = np.arange(3) + (i - (len(policies) - 1) / 2) * width
        axes.bar(places, heights, width * 0.92, color=style.POLICIES[i], label=policy.name)
        for place, height in zip(places, heights, strict=True):
            axes.annotate(
                f"{height:.1f}" if height >= 0.05 else "0" if height == 0 else f"{height:.2g}",
                (place, height), xytext=(0, 2), textcoords="offset points", ha="center", fontsize=8,
            )  # fmt: skip
    axes.set_ylim(0, max(100 * tallest * 1.12, 1.0))
    axes.set_xticks(range(3), ["mean", "95th percentile", "worst"])
    axes.set_ylabel("regret (%)")
    axes.grid(visible=False, axis="x")


def _distribution(axes: Axes, policies: list[Policy]) -> None:
    most = 1.0
    for i, policy in enumerate(policies):
        values = 100 * np.sort(policy.regrets)
        shares = np.arange(1, len(values) + 1) / len(values) * 100
        axes.step([0, *values], [0, *shares], where="post", color=style.POLICIES[i], linewidth=1.8)
        most = max(most, float(values[-1]))
    axes.set_xscale("symlog", linthresh=_LINEAR_UP_TO, linscale=0.4)
    axes.set_xlim(-0.01, most * 1.2)
    axes.set_ylim(0, 102)
    ticks = [0, *(step * 10.0**power for power in range(-1, 5) for step in (1, 3))]
    axes.xaxis.set_major_locator(FixedLocator([tick for tick in ticks if tick <= most * 1.2]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("regret (%) at most")
    axes.set_ylabel("share of measured shapes (%)")
