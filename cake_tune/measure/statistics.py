"""The statistics of the protocol, pure functions of numbers. Times enter as logarithms: ratios become differences."""

import math
from collections.abc import Sequence
from itertools import combinations_with_replacement
from statistics import fmean, median, stdev


def relative_spread(values: Sequence[float]) -> float:
    """Median absolute deviation of ``values`` over their median (positive values, at least one)."""
    middle = median(values)
    return median(abs(value - middle) for value in values) / middle


def quantile(values: Sequence[float], share: float) -> float:
    """The ``share`` quantile (0 to 1) of at least one value, linear between order statistics."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def paired_log_ratios(times: Sequence[float], base: Sequence[float]) -> list[float]:
    """``log(times / base)`` round by round, over the rounds that both have (positive and finite in both)."""
    pairs = zip(times, base, strict=False)
    return [math.log(ours / theirs) for ours, theirs in pairs if _usable(ours) and _usable(theirs)]


def _usable(time: float) -> bool:
    return math.isfinite(time) and time > 0


FEWEST_PAIRED = 4
"""Values below which ``location`` is the plain median."""


def location(values: Sequence[float]) -> float:
    """The Hodges-Lehmann centre: the median of all pairwise means; below four values, the plain median.

    As robust against spikes as the protocol needs (29 % of the rounds may be wild) and nearly as sharp as the mean on
    quiet ones, where a plain median would need half as many rounds again. Of three values only the median survives
    a wild one.
    """
    if len(values) < FEWEST_PAIRED:
        return median(values)
    return median((one + other) / 2 for one, other in combinations_with_replacement(values, 2))


def upper_bound(values: Sequence[float], confidence: float = 0.95) -> float:
    """One-sided upper confidence bound of the mean of ``values`` (Student's t); infinite for fewer than two values."""
    if len(values) < 2:
        return math.inf
    from scipy.special import stdtrit  # here, so that a sweep's parent process does not load it

    quantile_t = float(stdtrit(len(values) - 1, confidence))
    return fmean(values) + quantile_t * stdev(values) / math.sqrt(len(values))


def tie_band(aa_log_ratios: Sequence[float], lowest: float, highest: float) -> float:
    """The band within which two plans count as equal, from the paired log ratios of a plan with itself (at least one).

    ``clamp(2 * p95(|ratio|) / sqrt(rounds), lowest, highest)``.
    """
    width = 2 * quantile([abs(ratio) for ratio in aa_log_ratios], 0.95) / math.sqrt(len(aa_log_ratios))
    return min(max(width, lowest), highest)
