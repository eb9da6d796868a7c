"""A visit: some samples thrown away, the others kept, one median out of it, or the reason why there is none."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Literal

from cake_tune.measure.protocol import Protocol

Sampler = Callable[[int], list[float]]
"""Takes that many samples of one plan; microseconds per call."""

DIGITS = 4
"""Decimals kept of a time in microseconds: a tenth of a nanosecond."""


@dataclass(frozen=True, slots=True)
class Visit:
    """What one visit of a plan gave: its median in microseconds (NaN unless ``status`` is "ok"), and why not."""

    median_us: float
    status: Literal["ok", "unstable", "invalid"] = "ok"
    reason: str | None = None


def take_visit(sample: Sampler, protocol: Protocol, *, least_us: float, disturbance: Callable[[], str | None]) -> Visit:
    """Visit a plan as ``protocol`` says.

    ``disturbance`` says what disturbed the device since it was last asked; a disturbed visit is taken again, at most
    ``protocol.retries`` times, and then is unstable. A median below ``least_us``, or a sample that is no positive
    finite time, makes the visit invalid.
    """
    reason = None
    for _ in range(protocol.retries + 1):
        disturbance()
        values = _samples(sample, protocol)
        reason = disturbance()
        if reason is None:
            return _judge(values, least_us)
    return Visit(math.nan, "unstable", f"disturbed {protocol.retries + 1} times: {reason}")


def _samples(sample: Sampler, protocol: Protocol) -> list[float]:
    first = sample(protocol.discard) if protocol.discard else []
    short = bool(first) and median(first) < protocol.short_us
    return sample(protocol.short_samples if short else protocol.samples)


def _judge(values: list[float], least_us: float) -> Visit:
    wild = [value for value in values if not (math.isfinite(value) and value > 0)]
    if wild or not values:
        return Visit(math.nan, "invalid", f"expected positive finite times, got {wild[:3]}")
    middle = median(values)
    if middle < least_us:
        return Visit(math.nan, "invalid", f"{middle:.4g} us is less than the {least_us:.4g} us that a call must take")
    return Visit(round(middle, DIGITS))
