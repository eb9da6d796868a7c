"""Latency over num_tokens: every plan, the best of each kernel, and the crossover with its bracket."""

from collections.abc import Iterator
from itertools import groupby
from math import ceil
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from cake_tune.fit.crossover import Crossover
from cake_tune.fit.samples import Samples
from cake_tune.planner.shape import PREFILL_TILES
from cake_tune.report.drawn import Drawn
from cake_tune.report.findings import Findings
from cake_tune.report.plots import style

_COLUMNS = 3
Group = tuple[tuple[int, int, int], range]


def draw_latencies(findings: Findings, samples: Samples, directory: Path) -> Iterator[Drawn]:
    """One figure per head count, one panel per (topk, extra_topk)."""
    crossings = {(each.num_heads, each.topk, each.extra_topk): each for each in findings.crossovers}
    for num_heads, found in groupby(samples.groups(), key=lambda group: group[0][0]):
        groups = list(found)
        yield _figure(findings, samples, num_heads, groups, crossings, directory)


def _figure(
    findings: Findings,
    samples: Samples,
    num_heads: int,
    groups: list[Group],
    crossings: dict[tuple[int, int, int], Crossover],
    directory: Path,
) -> Drawn:
    columns = min(_COLUMNS, len(groups))
    rows = ceil(len(groups) / columns)
    with style.figure(max(6.4, 4.2 * columns), 1.3 + 3.3 * rows) as drawn:
        panels = drawn.subplots(rows, columns, squeeze=False).flatten()
        for axes, (group, points) in zip(panels, groups, strict=False):
            _panel(axes, samples, points, crossings.get(group))
            axes.set_title(f"topk {group[1]}" + (f" + {group[2]} extra" if group[2] else ""), loc="left")
        for axes in panels[len(groups) :]:
            axes.set_visible(False)
        style.title(drawn, f"Time per call, {num_heads} heads", findings)
        handles = _legend(bool(PREFILL_TILES.get(num_heads)), any(group in crossings for group, _ in groups))
        drawn.legend(handles=handles, loc="outside lower center", ncols=3 if columns == 1 else 5)
        path = style.save(drawn, directory / f"latency-h{num_heads}.png")
    return Drawn(path, f"Time per call over num_tokens, {num_heads} heads, with the crossovers")


def _panel(axes: Axes, samples: Samples, points: range, crossing: Crossover | None) -> None:
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
    for kernel, colour, marker, dash in (
        ("decode", style.DECODE, "o", "-"),
        ("prefill", style.PREFILL, "s", "--"),
    ):
        times = np.exp(samples.best(kernel)[1][points.start : points.stop])  # type: ignore[arg-type]
        held = np.isfinite(times)
        axes.plot(tokens[held], times[held], dash, color=colour, marker=marker, markersize=4, linewidth=1.8, zorder=3)
    everything = [time for line in lines.values() for _, time in line]
    style.token_axis(axes, tokens.tolist())
    style.time_axis(axes, min(everything), max(everything))
    if crossing is not None:
        _mark(axes, crossing)
    axes.set_xlabel("num_tokens")
    axes.set_ylabel("time per call (µs)")


def _mark(axes: Axes, crossing: Crossover) -> None:
    """The bracket as a band, the threshold as a line just above the last num_tokens that decodes."""
    left, right = axes.get_xlim()
    high = right if crossing.high is None else crossing.high
    axes.axvspan(max(crossing.low, left), high, color=style.CROSSING, alpha=0.15, linewidth=0, zorder=0)
    if crossing.threshold is None or crossing.intervals:
        return
    at = crossing.threshold + 0.5
    if left < at < right:
        axes.axvline(at, color=style.CROSSING, linewidth=1.4, zorder=2)
    text = (
        f"decode up to {crossing.threshold}" if crossing.threshold >= crossing.num_tokens[0] else "prefill everywhere"
    )
    axes.text(
        0.98, 0.03, text, transform=axes.transAxes, ha="right", va="bottom", color="#00664B",
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
    )  # fmt: skip


def _legend(prefill: bool, crossed: bool) -> list[Line2D | Patch]:
    shown: list[Line2D | Patch] = [
        Line2D([], [], color=style.DECODE, marker="o", markersize=4, linewidth=1.8, label="best decode plan")
    ]
    if prefill:
        shown.append(
            Line2D([], [], color=style.PREFILL, marker="s", markersize=4, ls="--", lw=1.8, label="best prefill plan")
        )
    shown.append(Line2D([], [], color=style.OTHER, marker=".", linewidth=0.7, label="every other plan"))
    if crossed:
        shown.append(Line2D([], [], color=style.CROSSING, linewidth=1.4, label="crossover"))
        shown.append(Patch(color=style.CROSSING, alpha=0.15, label="its bracket (95 %)"))
    return shown
