"""The statistics agree with references and survive what latencies do."""

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from cake_tune.measure.statistics import (
    location,
    paired_log_ratios,
    quantile,
    relative_spread,
    tie_band,
    upper_bound,
)

finite = st.floats(-1e3, 1e3)
samples = st.lists(finite, min_size=1, max_size=30)


@given(samples, st.floats(0, 1))
def test_quantiles_agree_with_numpy(values, share):
    assert quantile(values, share) == pytest.approx(np.quantile(values, share), abs=1e-9)


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=30))
def test_the_upper_bound_is_students(values):
    expected = np.mean(values) + stats.t.ppf(0.95, len(values) - 1) * stats.sem(values)
    assert upper_bound(values) == pytest.approx(expected, abs=1e-9)


def test_the_upper_bound_covers_the_mean_as_often_as_it_says():
    rng = random.Random(1)
    covered = sum(upper_bound([rng.gauss(0.3, 1) for _ in range(12)]) >= 0.3 for _ in range(2000))
    assert 0.935 <= covered / 2000 <= 0.965


def test_one_value_bounds_nothing():
    assert upper_bound([0.5]) == math.inf


@given(samples, finite)
def test_the_centre_moves_with_its_values(values, shift):
    assert location([value + shift for value in values]) == pytest.approx(location(values) + shift, abs=1e-6)


def test_the_centre_ignores_a_quarter_of_wild_values():
    assert location([0.99, 1.0, 1.01, 1.0, 1.02, 0.98, 50.0, 1e9]) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("count", range(3, 10))
def test_the_centre_ignores_one_wild_value_among_three_or_more(count):
    assert location([1.0] * (count - 1) + [1e9]) == 1.0


def test_the_centre_is_sharper_than_a_median_on_quiet_values():
    rng = random.Random(2)
    rounds = [[rng.gauss(0, 1) for _ in range(12)] for _ in range(500)]
    assert np.std([location(values) for values in rounds]) < 0.93 * np.std([np.median(values) for values in rounds])


def test_ratios_pair_by_round_and_skip_rounds_without_a_time():
    ratios = paired_log_ratios([2.0, math.nan, 4.0, 8.0, 5.0], [1.0, 1.0, 2.0, math.nan])
    assert ratios == pytest.approx([math.log(2), math.log(2)])


@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=20), st.floats(0.5, 2))
def test_the_spread_of_times_has_no_unit(times, unit):
    assert relative_spread([time * unit for time in times]) == pytest.approx(relative_spread(times), abs=1e-9)


def test_the_band_is_twice_the_95th_percentile_over_the_root_of_the_rounds():
    ratios = [0.01, -0.02, 0.03, -0.04] * 4
    assert tie_band(ratios, 0.0, 1.0) == pytest.approx(2 * 0.04 / 4)


@given(st.lists(st.floats(-1, 1), min_size=1, max_size=20))
def test_the_band_stays_within_its_limits(ratios):
    assert 0.005 <= tie_band(ratios, 0.005, 0.02) <= 0.02
