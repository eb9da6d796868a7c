"""Latency over num_tokens: every plan, the best of each kernel, and the crossover with its bracket."""

from collections.abc import Iterator
from itertools import groupby
from math import ceil
from pathlib import Path
from typing import get_args

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from cake_tune.fit.crossover import Crossover
from cake_tune.fit.samples import Floats, Samples
from cake_tune.planner.shape import Kernel
from cake_tune.report.drawn import Drawn
from cake_tune.report.findings import Findings
from cake_tune.report.plots import style

_COLUMNS = 3
_MOST_PANELS = 9
_OTHERS, _CROSSING, _BRACKET = "every other plan", "crossover", "either may be faster (95 %)"
Group = tuple[tuple[int, int, int], range]


def draw_latencies(findings: Findings, samples: Samples, directory: Path) -> Iterator[Drawn]:
    """One figure per head count, one panel per (topk, extra_topk)."""
    crossings = {(each.num_heads, each.topk, each.extra_topk): each for each in findings.crossovers}
    best = {kernel: samples.best(kernel)[1] for kernel in get_args(Kernel)}
    for num_heads, found in groupby(samples.groups(), key=lambda group: group[0][0]):
        yield _figure(findings, samples, num_heads, list(found), crossings, best, directory)


def _figure(
    findings: Findings,
    samples: Samples,
    num_heads: int,
    groups: list[Group],
    crossings: dict[tuple[int, int, int], Crossover],
    best: dict[Kernel, Floats],
    directory: Path,
) -> Drawn:
    every, groups = len(groups), style.evenly(groups, _MOST_PANELS)
    columns = min(_COLUMNS, len(groups))
    rows = ceil(len(groups) / columns)
    with style.figure(max(6.4, 4.2 * columns), 1.3 + 3.3 * rows) as drawn:
        panels = drawn.subplots(rows, columns, squeeze=False).flatten()
        shown: set[str] = set()
        for axes, (group, points) in zip(panels, groups, strict=False):
            shown |= _panel(axes, samples, points, crossings.get(group), best)
            axes.set_title(f"topk {group[1]}" + (f" + {group[2]} extra" if group[2] else ""), loc="left")
        for axes in panels[len(groups) :]:
            axes.set_visible(False)
        style.title(drawn, f"Time per call, {num_heads} heads", findings)
        drawn.legend(handles=_legend(shown), loc="outside lower center", ncols=5 if columns == _COLUMNS else 3)
        path = style.save(drawn, directory / f"latency-h{num_heads}.png")
    crossed = ", with the crossovers" if any(group in crossings for group, _ in groups) else ""
    some = style.some_words(len(groups), every)
    return Drawn(path, f"Time per call over num_tokens, {num_heads} heads{crossed}{some}")


def _panel(
    axes: Axes, samples: Samples, points: range, crossing: Crossover | None, best: dict[Kernel, Floats]
) -> set[str]:
    """Draw one group; returns the labels of what was drawn."""
    tokens = samples.num_tokens[points.start : points.stop]
    lines: dict[tuple[str, int, int], list[tuple[int, float]]] = {}
    for point in points:
        for row in samples.rows(point):
            plan = samples.plans[samples.plan[row]]
            if not np.isnan(samples.log_time[row]):
                key = (plan.kernel, plan.head_tiles, plan.num_splits)
                lines.setdefault(key, []).append((int(samples.num_tokens[point]), float(np.exp(samples.log_time[row]))))
    for line in lines.values():
        axes.plot(*zip(*line, strict=True), color=style.OTHER, linewidth=0.7, marker=".", markersize=2, zorder=1)
    shown = set()
    drawn: tuple[tuple[Kernel, str, str, str], ...] = (
        ("decode", style.DECODE, "o", "-"),
        ("prefill", style.PREFILL, "s", "--"),
    )
    for kernel, colour, marker, dash in drawn:
        times = np.exp(best[kernel][points.start : points.stop])
        held = np.isfinite(times)
        if not held.any():
            continue
        shown.add(f"best {kernel} plan")
        axes.plot(tokens[held], times[held], dash, color=colour, marker=marker, markersize=4, linewidth=1.8, zorder=3)
    if len(lines) > len(shown):
        shown.add(_OTHERS)
    everything = [time for line in lines.values() for _, time in line]
    style.token_axis(axes, tokens.tolist())
    style.time_axis(axes, min(everything), max(everything))
    if crossing is not None:
        shown |= _mark(axes, crossing)
    axes.set_xlabel("num_tokens")
    axes.set_ylabel("time per call (µs)")
    return shown


def _mark(axes: Axes, crossing: Crossover) -> set[str]:
    """The bracket as a band over the measured num_tokens inside it, the threshold as a line just above the last one
    that decodes, and both in words; returns the labels of what was drawn.
    """
    shown = set()
    first, last = crossing.num_tokens[0], crossing.num_tokens[-1]
    text = _said(crossing)
    if not crossing.decided:
        text += " (neither surely faster)"
    elif crossing.doubtful or crossing.everywhere is None:
        left, right = max(crossing.low, first), last if crossing.high is None else crossing.high
        axes.axvspan(left, right, color=style.CROSSING, alpha=0.15, linewidth=0, zorder=0)
        shown.add(_BRACKET)
    if crossing.threshold is not None and crossing.everywhere is None and not crossing.intervals:
        axes.axvline(crossing.threshold + 0.5, color=style.CROSSING, linewidth=1.4, zorder=2)
        shown.add(_CROSSING)
    axes.text(
        0.98, 0.03, text, transform=axes.transAxes, ha="right", va="bottom", color="#00664B",
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
    )  # fmt: skip
    return shown


def _said(crossing: Crossover) -> str:
    if crossing.intervals:
        return "no single crossover"
    if crossing.everywhere is None:
        return f"decode up to {crossing.threshold}"
    first, last = crossing.num_tokens[0], crossing.num_tokens[-1]
    return f"{crossing.everywhere} at " + (f"T={first}" if first == last else "every measured T")


def _legend(shown: set[str]) -> list[Line2D | Patch]:
    """Handles of the labels in ``shown``."""
    handles: list[Line2D | Patch] = [
        Line2D([], [], color=style.DECODE, marker="o", markersize=4, linewidth=1.8, label="best decode plan"),
        Line2D([], [], color=style.PREFILL, marker="s", markersize=4, ls="--", lw=1.8, label="best prefill plan"),
        Line2D([], [], color=style.OTHER, marker=".", linewidth=0.7, label=_OTHERS),
        Line2D([], [], color=style.CROSSING, linewidth=1.4, label=_CROSSING),
        Patch(color=style.CROSSING, alpha=0.15, label=_BRACKET),
    ]
    return [handle for handle in handles if handle.get_label() in shown]
