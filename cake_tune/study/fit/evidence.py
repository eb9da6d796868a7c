"""What the fit study found, and the figures that it holds against a target."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count
from statistics import fmean

from cake_tune.backends.simulated_device import PRESETS, simulated_device
from cake_tune.planner.registry import nearest_published
from cake_tune.study.figures import Figure
from cake_tune.study.fit.crossings import Crossing
from cake_tune.study.fit.rivals import compete
from cake_tune.study.fit.simulated import Subject
from cake_tune.study.fit.size import Size
from cake_tune.study.fit.skus import FITS, Recovered, recovered
from cake_tune.study.fit.spread import spread
from cake_tune.study.fit.subject import Studied, study_subject
from cake_tune.study.trial import Score
from cake_tune.sweep.words import counted

CROSSOVERS, MEASURED, HELD_OUT, SEARCHED, NEEDED = 95.0, 0.5, 1.0, 0.5, 20.0
"""Targets in per cent."""


@dataclass(frozen=True)
class Evidence:
    """Random devices, presets, SKUs, and the selectors side by side on the random devices."""

    size: Size
    devices: tuple[Studied, ...]
    presets: tuple[Studied, ...]
    skus: tuple[Recovered, ...]
    scores: tuple[Score, ...]

    @property
    def crossings(self) -> list[Crossing]:
        """Of all random devices."""
        return [each for device in self.devices for each in device.crossings]


def gather(
    devices: int, size: Size, tell: Callable[[str], None] = lambda text: None, *, processes: int = 1
) -> Evidence:
    """Study the random devices of the seeds 0 to ``devices - 1``, the presets and the SKUs; ``tell`` hears of devices.

    Over several ``processes`` the evidence is the same, and is told in the same order.
    """
    drawn = [f"random:{seed}" for seed in range(devices)]
    studies = [partial(_study, name, size, seed) for seed, name in enumerate([*drawn, *PRESETS])]
    fits = [partial(recovered, sku, start, size) for sku, start in FITS]
    numbers = count(1)

    def told(found: Studied | Recovered) -> None:
        if isinstance(found, Studied):
            number = next(numbers)
            tell(found.name if number > devices else f"{found.name}: {number} of {counted(devices, 'device')}")

    found = spread([*studies, *fits], processes, told)
    studied = [each for each in found if isinstance(each, Studied)]
    return Evidence(
        size,
        devices=tuple(studied[:devices]),
        presets=tuple(studied[devices:]),
        skus=tuple(each for each in found if isinstance(each, Recovered)),
        scores=tuple(compete(map(_subject, drawn), size)),
    )


def _study(name: str, size: Size, seed: int) -> Studied:
    return study_subject(_subject(name), size, seed)


def _subject(name: str) -> Subject:
    device = simulated_device(name)
    return Subject(device, nearest_published(device.num_sms))


def figures_of(evidence: Evidence) -> list[Figure]:
    """Every figure with a target, in the order of the report."""
    return list(_figures(evidence))


def _figures(evidence: Evidence) -> Iterator[Figure]:
    devices, found = evidence.devices, evidence.crossings
    grid = len(evidence.size.grid())
    yield Figure(
        "crossovers within one step",
        f"Share of the {counted(len(found), 'crossover')}, one per (num_heads, topk) of each random device, whose "
        "fitted cut lies at most one step of the grid from the least-regret cut of the true times.",
        100 * fmean(abs(each.steps) <= 1 for each in found),
        ">=",
        CROSSOVERS,
    )
    yield Figure(
        "regret on measured shapes",
        f"True time of what the fitted table answers over that of the fastest plan, minus 1: the mean over the {grid} "
        f"measured shapes of each of {counted(len(devices), 'random device')}, and over the devices.",
        100 * fmean(fmean(each.measured) for each in devices),
        "<=",
        MEASURED,
    )
    yield Figure(
        "regret on held-out shapes",
        f"The same over {evidence.size.held_out} shapes of each device that were not measured, drawn from all head "
        "counts, eight top-ks and every num_tokens within the span of the grid.",
        100 * fmean(fmean(each.held_out) for each in devices),
        "<=",
        HELD_OUT,
    )
    yield Figure(
        "SKU rules given back",
        f"Share of {len(evidence.skus)} fits (three devices that follow the published rules of a SKU, each started at "
        "the rules of all three) that return exactly these constants and no exception.",
        100 * fmean(each.exact for each in evidence.skus),
        ">=",
        100.0,
    )
    for name, studied in (("random devices", devices), ("presets", evidence.presets)):
        yield Figure(
            f"adaptive search, measured, {name}",
            "Pairs of a point and a plan that the search measured, per cent of those of the exhaustive sweep of the "
            f"same {grid} points; the mean over {counted(len(studied), 'device')}.",
            100 * fmean(each.searched.pairs for each in studied),
            "<=",
            NEEDED,
        )
        yield Figure(
            f"adaptive search, excess regret, {name}",
            "Mean true regret on all points of the grid of the table that the search ends with, minus that of the "
            "exhaustive sweep's table; the mean over the devices.",
            100 * fmean(each.search_excess for each in studied),
            "<=",
            SEARCHED,
        )
