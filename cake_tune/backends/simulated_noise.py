"""What stands between a simulated device's true times and what a measurement sees: drift, offsets, spikes, a seed.

``level`` is the relative deviation of one visit against another of the same plan; the rest scales with it. The drift
is a slow wander of the whole device: common to the visits of one round, it cancels where plans are compared in pairs.
"""

import math
from random import Random

_DRIFT = 1.0
"""Deviation of the drift, in levels; it forgets over about ``_MEMORY`` visits."""
_MEMORY = 50
_SPIKE = 0.01
"""Share of samples that something else disturbs."""
_SPIKE_LEVELS = 15.0
"""How much longer a disturbed one takes on average, in levels."""
_SAMPLE = 0.5
"""Deviation of one sample within its visit, in levels."""
_MEDIAN = math.sqrt(math.pi / 2)
"""Deviation of a median over that of the mean, for many normal values."""


class Noise:
    """One stream of noise: the same seed and the same calls give the same numbers."""

    def __init__(self, seed: str | int, level: float) -> None:
        self._rng = Random(f"simulated noise {seed}")
        self._level = level
        self._drift = self._rng.gauss(0, _DRIFT * level)

    def samples(self, true_us: float, count: int) -> list[float]:
        """``count`` samples of one visit, in microseconds."""
        centre = true_us * math.exp(self._visit())
        return [centre * math.exp(self._sample()) for _ in range(count)]

    def median(self, true_us: float, count: int) -> float:
        """What the median of ``samples`` comes to, drawn at once: spikes are few, so that it shrugs them off."""
        within = _SAMPLE * self._level * _MEDIAN / math.sqrt(count)
        return true_us * math.exp(self._visit() + self._rng.gauss(0, within))

    def _visit(self) -> float:
        kept = 1 - 1 / _MEMORY
        self._drift = kept * self._drift + math.sqrt(1 - kept**2) * self._rng.gauss(0, _DRIFT * self._level)
        return self._drift + self._rng.gauss(0, self._level)

    def _sample(self) -> float:
        off = self._rng.gauss(0, _SAMPLE * self._level)
        if self._rng.random() < _SPIKE:
            off += self._rng.expovariate(1 / (_SPIKE_LEVELS * self._level)) if self._level else 0.0
        return off
