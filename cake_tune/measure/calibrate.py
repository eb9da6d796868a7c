"""Before the first point: warm the device up, and measure how far apart two equal plans look."""

from collections.abc import Callable
from random import Random
from statistics import median

from cake_tune.measure.protocol import Protocol
from cake_tune.measure.statistics import paired_log_ratios, tie_band
from cake_tune.measure.visit import Sampler, Visit

FLAT = 0.02
"""A device is warm when two medians in a row differ by at most this fraction."""


def warm_up(sample: Sampler, seconds: float, clock: Callable[[], float]) -> None:
    """Sample until two medians of five in a row agree within ``FLAT``, for at most ``seconds`` of ``clock``."""
    end = clock() + seconds
    last = median(sample(5))
    while clock() < end:
        now = median(sample(5))
        if abs(now - last) <= FLAT * last:
            return
        last = now


def measure_band(visit: Callable[[], Visit], protocol: Protocol, rng: Random) -> float | None:
    """The tie band from an A/A run: one plan under two labels, ``protocol.aa_rounds`` paired rounds.

    Which label is first is drawn in even rounds and turned around in odd ones, as in a race. None if fewer than half
    of the rounds gave a pair of times: there is nothing to go by.
    """
    times: tuple[list[float], list[float]] = ([], [])
    first = 0
    for number in range(protocol.aa_rounds):
        first = rng.randrange(2) if number % 2 == 0 else 1 - first
        for label in (first, 1 - first):
            times[label].append(visit().median_us)
    ratios = paired_log_ratios(*times)
    return tie_band(ratios, protocol.band_min, protocol.band_max) if 2 * len(ratios) >= protocol.aa_rounds else None
