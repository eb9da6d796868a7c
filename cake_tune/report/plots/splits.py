"""The best number of splits over num_tokens and topk."""

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.lines import Line2D

from cake_tune.fit.samples import Samples
from cake_tune.report.drawn import Drawn
from cake_tune.report.findings import Findings
from cake_tune.report.plots import style

_COLOURS = "cividis"
_MOST_LINES = 16
_MOST_COLUMNS = 24
"""Lines and columns of cells that can be read."""


def draw_splits(findings: Findings, samples: Samples, directory: Path) -> Iterator[Drawn]:
    """One figure per head count that has decode times."""
    rows, _ = samples.best("decode")
    for num_heads, found in groupby(samples.groups(), key=lambda group: group[0][0]):
        groups = [(group, points) for group, points in found if (rows[points.start : points.stop] >= 0).any()]
        if groups:
            yield _figure(findings, samples, num_heads, groups, directory)


def _figure(
    findings: Findings,
    samples: Samples,
    num_heads: int,
    groups: list[tuple[tuple[int, int, int], range]],
    directory: Path,
) -> Drawn:
    every, groups = len(groups), style.evenly(groups, _MOST_LINES)
    listed = sorted({int(samples.num_tokens[point]) for _, points in groups for point in points})
    tokens = style.evenly(listed, _MOST_COLUMNS)
    width, height = max(6.4, 2.6 + 0.62 * len(tokens)), 2.1 + 0.55 * len(groups)
    with style.figure(width, height) as drawn:
        axes = drawn.subplots()
        norm = LogNorm(1, 16)
        _cells(axes, samples, groups, tokens, norm)
        axes.set_xticks(range(len(tokens)), [str(count) for count in tokens])
        names = [f"{topk}" + (f" + {extra}" if extra else "") for (_, topk, extra), _ in groups]
        axes.set_yticks(range(len(groups)), names)
        axes.set_xlabel("num_tokens")
        axes.set_ylabel("topk" if all(not extra for (_, _, extra), _ in groups) else "topk + extra_topk")
        axes.grid(visible=False)
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.tick_params(which="both", length=0)
        bar = drawn.colorbar(ScalarMappable(norm, _COLOURS), ax=axes, pad=0.02)
        bar.set_ticks([1, 2, 4, 8, 16], labels=["1", "2", "4", "8", "16"])
        bar.minorticks_off()
        bar.set_label("splits")
        style.title(drawn, f"Best splits of decode, {num_heads} heads", findings)
        if axes.lines:
            label = "prefill is faster by more than the tie band"
            mark = Line2D([], [], marker="s", color=style.PREFILL, markersize=5, ls="", label=label)
            drawn.legend(handles=[mark], loc="outside lower center")
        path = style.save(drawn, directory / f"splits-h{num_heads}.png")
    some = style.some_words(len(groups), every)
    return Drawn(path, f"Best splits of decode over num_tokens and topk, {num_heads} heads{some}")


def _cells(
    axes: Axes,
    samples: Samples,
    groups: list[tuple[tuple[int, int, int], range]],
    tokens: list[int],
    norm: LogNorm,
) -> None:
    best, decode_times = samples.best("decode")
    _, prefill_times = samples.best("prefill")
    splits = np.full((len(groups), len(tokens)), np.nan)
    columns = {count: column for column, count in enumerate(tokens)}
    for line, (_, points) in enumerate(groups):
        for point in points:
            column = columns.get(int(samples.num_tokens[point]))
            if best[point] < 0 or column is None:
                continue
            plan = samples.plans[samples.plan[best[point]]]
            splits[line, column] = plan.num_splits
            colour = "white" if plan.num_splits < 4 else "black"
            axes.text(column, line, str(plan.num_splits), ha="center", va="center", fontsize=10, color=colour)
            if plan.head_tiles == 2:
                axes.text(column, line + 0.3, "2 tiles", ha="center", va="center", fontsize=6.5, color=colour)
            if prefill_times[point] < decode_times[point] - samples.tie_band[point]:
                axes.plot(column + 0.36, line - 0.32, "s", color=style.PREFILL, markersize=5, markeredgecolor="white")
    axes.imshow(splits, cmap=_COLOURS, norm=norm, aspect="auto")
    # White gaps between the cells, also where neighbours have one colour.
    axes.set_xticks(np.arange(len(tokens) + 1) - 0.5, minor=True)
    axes.set_yticks(np.arange(len(groups) + 1) - 0.5, minor=True)
    axes.grid(which="minor", color="white", linewidth=1.5)
