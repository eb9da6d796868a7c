"""How far one plan is apart from itself under two labels."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from matplotlib.ticker import MaxNLocator

from cake_tune.report.drawn import Drawn
from cake_tune.report.plots import style
from cake_tune.study.evidence import Evidence
from cake_tune.study.plots import parts


def draw_twins(evidence: Evidence, directory: Path) -> Iterator[Drawn]:
    """One figure: the paired ratios as a histogram, with those that were reported as different; none without any."""
    found = [twin for twin in evidence.twins.points if np.isfinite(twin.ratio)]
    if not found:
        return
    apart = {
        differs: [100 * (twin.ratio - 1) for twin in found if twin.differs is differs] for differs in (False, True)
    }
    most = max(abs(value) for values in apart.values() for value in values)
    band = 100 * max(twin.tie_band for twin in found)
    limit = max(most, band) * 1.1
    with style.figure(7.5, 4.2) as drawn:
        axes = drawn.subplots()
        axes.hist(
            [apart[False], apart[True]], bins=np.linspace(-limit, limit, 42).tolist(), stacked=True,
            color=[parts.COLOURS[0], parts.COLOURS[5]],
            label=[f"no difference reported ({len(apart[False])})", f"reported as different ({len(apart[True])})"],
        )  # fmt: skip
        axes.axvspan(
            -band, band, color=style.CROSSING, alpha=0.12, linewidth=0, zorder=0, label="tie band (the widest)"
        )
        axes.set_xlabel("second label over the first, minus 1 (%)")
        axes.set_ylabel("A/A points")
        axes.yaxis.set_major_locator(MaxNLocator(integer=True))
        axes.grid(visible=False, axis="x")
        drawn.legend(loc="outside lower center", ncols=3)
        parts.title(drawn, "A/A: one plan under two labels", evidence)
        yield Drawn(style.save(drawn, directory / "twins.png"), "Paired ratios of one plan under two labels")
