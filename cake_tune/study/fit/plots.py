"""The plots of the fit study: regret over devices, crossovers, the adaptive search, the race beside argmin."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import fmean

import numpy as np
from matplotlib.axes import Axes

from cake_tune.report.drawn import Drawn
from cake_tune.report.plots import style
from cake_tune.study.fit.evidence import HELD_OUT, MEASURED, NEEDED, SEARCHED, Evidence
from cake_tune.study.plots.parts import COLOURS

_MOST_STEPS = 4


def draw_all(evidence: Evidence, directory: Path) -> list[Drawn]:
    """Write every plot into ``directory``, in place of an earlier study's PNG files."""
    directory.mkdir(parents=True, exist_ok=True)
    for stale in directory.glob("*.png"):
        stale.unlink()
    return [*_regret(evidence, directory), *_crossovers(evidence, directory), *_search(evidence, directory),
            *_selectors(evidence, directory)]  # fmt: skip


def _regret(evidence: Evidence, directory: Path) -> Iterator[Drawn]:
    with style.figure(7, 4.4) as drawn:
        axes = drawn.subplots()
        for losses, colour, label in (
            ([fmean(each.measured) for each in evidence.devices], COLOURS[0], "measured shapes"),
            ([fmean(each.held_out) for each in evidence.devices], COLOURS[2], "held-out shapes"),
            (
                [fmean(each.in_force) for each in evidence.devices],
                COLOURS[3],
                "nearest published rules, measured shapes",
            ),
        ):
            values = np.sort(100 * np.array(losses))
            shares = np.arange(1, len(values) + 1) / len(values) * 100
            axes.step([0, *values], [0, *shares], where="post", color=colour, linewidth=1.8, label=label)
        for target, colour in ((MEASURED, COLOURS[0]), (HELD_OUT, COLOURS[2])):
            axes.axvline(target, color=colour, linewidth=0.9, linestyle=":")
        axes.set_xscale("symlog", linthresh=0.1, linscale=0.5)
        axes.set_xlim(0, None)
        axes.set_xticks([0, 0.05, 0.1, 0.5, 1, 5, 10, 50], ["0", "0.05", "0.1", "0.5", "1", "5", "10", "50"])
        axes.minorticks_off()
        axes.set_ylim(0, 102)
        axes.set_xlabel("mean regret of the fitted table (%) at most; dotted: targets of the mean")
        axes.set_ylabel("share of devices (%)")
        drawn.legend(loc="outside lower center", ncols=3)
        drawn.suptitle(f"Regret by the true times, {len(evidence.devices)} random devices", fontsize=11)
        yield Drawn(style.save(drawn, directory / "regret.png"), "Mean regret of the fitted tables over the devices")


def _crossovers(evidence: Evidence, directory: Path) -> Iterator[Drawn]:
    counts = Counter(max(-_MOST_STEPS, min(_MOST_STEPS, each.steps)) for each in evidence.crossings)
    with style.figure(6.4, 3.8) as drawn:
        axes = drawn.subplots()
        steps = range(-_MOST_STEPS, _MOST_STEPS + 1)
        shares = [100 * counts[step] / len(evidence.crossings) for step in steps]
        colours = [COLOURS[0] if abs(step) <= 1 else COLOURS[5] for step in steps]
        _labelled_bars(axes, list(steps), shares, colours)
        names = [f"{step:+d}" if step else "0" for step in steps]
        axes.set_xticks(list(steps), [f"≤{names[0]}", *names[1:-1], f"≥{names[-1]}"])
        axes.set_xlabel("fitted cut minus true cut, in steps of the num_tokens grid")
        axes.set_ylabel("share of crossovers (%)")
        drawn.suptitle(f"{len(evidence.crossings)} crossovers of random devices", fontsize=11)
        yield Drawn(style.save(drawn, directory / "crossovers.png"), "How far fitted crossovers lie from the true ones")


def _search(evidence: Evidence, directory: Path) -> Iterator[Drawn]:
    with style.figure(6.8, 4.4) as drawn:
        axes = drawn.subplots()
        for studied, marker, colour, label in (
            (evidence.devices, "o", COLOURS[0], "random devices"),
            (evidence.presets, "s", COLOURS[5], "presets"),
        ):
            needed = [100 * each.searched.pairs for each in studied]
            excess = [100 * each.search_excess for each in studied]
            axes.plot(needed, excess, marker, color=colour, markersize=4, alpha=0.6, label=label)
        axes.axvline(NEEDED, color="black", linewidth=0.9, linestyle=":")
        axes.axhline(SEARCHED, color="black", linewidth=0.9, linestyle=":", label="goals")
        axes.set_yscale("symlog", linthresh=0.5)
        axes.set_yticks([-0.5, 0, 0.5, 1, 2, 5, 10], ["-0.5", "0", "0.5", "1", "2", "5", "10"])
        axes.minorticks_off()
        axes.set_xlim(0, None)
        axes.set_xlabel("pairs of a point and a plan measured (% of the exhaustive sweep)")
        axes.set_ylabel("regret beyond the exhaustive table's (%)")
        axes.legend()
        drawn.suptitle("Adaptive search beside the exhaustive sweep", fontsize=11)
        yield Drawn(style.save(drawn, directory / "search.png"), "What adaptive search needs, and what it gives up")


def _selectors(evidence: Evidence, directory: Path) -> Iterator[Drawn]:
    scores = [each for each in evidence.scores if each.regret is not None]
    with style.figure(9.4, 3.8) as drawn:
        regrets, flips = drawn.subplots(1, 2)
        places = list(range(len(scores)))
        _labelled_bars(regrets, places, [100 * each.regret.mean for each in scores if each.regret], [COLOURS[0]])
        regrets.set_ylabel("mean regret (%)")
        _labelled_bars(flips, places, [100 * each.flips for each in scores], [style.OTHER], "different winners")
        costly = [100 * each.costly_flips for each in scores]
        flips.bar(places, costly, 0.4, color=COLOURS[5], label="over 1 % apart")
        flips.set_ylabel("flips (% of pairs of repetitions)")
        for axes in (regrets, flips):
            axes.set_xticks(
                places,
                [f"{each.selector.removesuffix(':mean')}\n{each.visits:.0f} visits" for each in scores],
                fontsize=8,
            )
            axes.grid(visible=False, axis="x")
        flips.legend()
        drawn.suptitle("Selectors on the same simulated points", fontsize=11)
        yield Drawn(style.save(drawn, directory / "selectors.png"), "Regret and winner flips of the race and of argmin")


def _labelled_bars(
    axes: Axes, places: list[int], heights: list[float], colours: list[str], label: str | None = None
) -> None:
    axes.bar(places, heights, 0.75, color=colours if len(colours) > 1 else colours[0], label=label)
    for place, height in zip(places, heights, strict=True):
        text = "0" if height == 0 else f"{height:.3g}"
        axes.annotate(text, (place, height), xytext=(0, 2), textcoords="offset points", ha="center", fontsize=8)
    axes.set_ylim(0, max([*heights, 0.01]) * 1.12)
