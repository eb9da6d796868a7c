"""A visit: some samples thrown away, the others kept, one median out of it, or the reason why there is none."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Literal

from cake_tune.measure.protocol import Protocol

Sampler = Callable[[int], list[float]]
"""Takes that many samples of one plan; microseconds per call."""

DIGITS = 4
"""Decimals kept of a time in microseconds: a tenth of a nanosecond."""


@dataclass(frozen=True, slots=True)
class Visit:
    """What one visit of a plan gave: its median in microseconds (NaN unless ``status`` is "ok"), and why not.

    ``mean_us`` and ``mad_us``, mean and median absolute deviation of the same samples, decide nothing here: they are
    kept so that other policies can be replayed on the journal.
    """

    median_us: float
    status: Literal["ok", "unstable", "invalid"] = "ok"
    reason: str | None = None
    mean_us: float = field(default=math.nan, compare=False)
    mad_us: float = field(default=math.nan, compare=False)


def take_visit(
    sample: Sampler,
    protocol: Protocol,
    *,
    least_us: float,
    disturbance: Callable[[], str | None],
    known_us: float | None = None,
) -> Visit:
    """Visit a plan as ``protocol`` says.

    ``known_us`` is about what a call takes, where that is known: all samples are then taken in one go, which leaves a
    device no pause between those that are thrown away and those that are kept.
    ``disturbance`` says what disturbed the device since it was last asked; a disturbed visit is taken again, at most
    ``protocol.retries`` times, and then is unstable. A median below ``least_us``, or a sample that is no positive
    finite time, makes the visit invalid.
    """
    reason = None
    for _ in range(protocol.retries + 1):
        disturbance()
        values = _samples(sample, protocol, known_us)
        reason = disturbance()
        if reason is None:
            return _judge(values, least_us)
    return Visit(math.nan, "unstable", f"disturbed {protocol.retries + 1} times: {reason}")


def _samples(sample: Sampler, protocol: Protocol, known_us: float | None) -> list[float]:
    if known_us is not None:
        return sample(protocol.discard + _kept(known_us, protocol))[protocol.discard :]
    first = sample(protocol.discard) if protocol.discard else []
    return sample(_kept(median(first) if first else math.inf, protocol))


def _kept(call_us: float, protocol: Protocol) -> int:
    return protocol.short_samples if call_us < protocol.short_us else protocol.samples


def _judge(values: list[float], least_us: float) -> Visit:
    wild = [value for value in values if not (math.isfinite(value) and value > 0)]
    if wild or not values:
        return Visit(math.nan, "invalid", f"expected positive finite times, got {wild[:3]}")
    middle = median(values)
    if middle < least_us:
        return Visit(math.nan, "invalid", f"{middle:.4g} us is less than the {least_us:.4g} us that a call must take")
    spread = median(abs(value - middle) for value in values)
    return Visit(round(middle, DIGITS), mean_us=round(fmean(values), DIGITS), mad_us=round(spread, DIGITS))
