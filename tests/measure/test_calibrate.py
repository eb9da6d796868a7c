"""The A/A run and the warm-up."""

import itertools
import math
from random import Random

import pytest
from synthetic_device import PREFILL, SyntheticDevice

from cake_tune.measure.calibrate import measure_band, warm_up
from cake_tune.measure.protocol import Protocol
from cake_tune.measure.visit import Visit


@pytest.mark.parametrize(("noise", "low", "high"), [(1e-5, 0.005, 0.005), (0.01, 0.008, 0.02), (0.3, 0.02, 0.02)])
def test_the_band_grows_with_the_noise_of_the_device_within_its_limits(noise, low, high):
    device = SyntheticDevice({PREFILL: 50.0}, seed=5, noise=noise)
    band = measure_band(lambda: device(PREFILL), Protocol(), Random(1))
    assert low <= band <= high
    assert len(device.log) == 2 * Protocol().aa_rounds


def test_there_is_no_band_where_most_visits_give_no_time():
    device = SyntheticDevice({PREFILL: 50.0}, seed=5, noise=1e-5)
    for lost in (0, 6, 7):
        visits = itertools.count()

        def visit(lost=lost, visits=visits):
            # Two visits a round: the rounds at the start are the lost ones.
            return device(PREFILL) if next(visits) >= 2 * lost else Visit(math.nan, "unstable", "throttled")

        assert (measure_band(visit, Protocol(), Random(1)) is None) == (lost > 6)


def test_a_slow_drift_does_not_widen_the_band():
    device = SyntheticDevice({PREFILL: 50.0}, seed=5, noise=1e-5, drift=0.3)
    assert measure_band(lambda: device(PREFILL), Protocol(), Random(1)) <= 0.01


def test_the_warm_up_ends_when_times_are_flat():
    times = itertools.chain([100.0] * 5, [80.0] * 5, [70.0] * 5, itertools.repeat(70.5))
    taken = []

    def sample(count):
        taken.extend(itertools.islice(times, count))
        return taken[-count:]

    warm_up(sample, 10.0, clock=lambda: 0.0)
    assert len(taken) == 20


def test_the_warm_up_ends_when_its_time_is_over():
    clock = itertools.count()
    falling = itertools.count(1000, -10)
    taken = []

    def sample(count):
        taken.extend(itertools.islice(falling, count))
        return [float(value) for value in taken[-count:]]

    warm_up(sample, 4.0, clock=lambda: float(next(clock)))
    assert 20 <= len(taken) <= 30
