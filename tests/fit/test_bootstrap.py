import numpy as np
import pytest
from synthetic_points import record_of

from cake_tune.fit.bootstrap import interval, paired_differences
from cake_tune.fit.collect import collect
from cake_tune.planner.shape import Plan, Shape

FAST, SLOW = Plan("decode", 1, 1, 8), Plan("decode", 1, 2, 4)


def difference(noise, rounds=12, seed=0):
    record = record_of(Shape(4, 16, 512), [(FAST, 10.0), (SLOW, 10.3)], noise=noise, seed=seed)
    samples = collect([record])
    samples.confirm[0] = samples.confirm[0][:, :rounds]
    return paired_differences(samples, np.array([0]), np.array([1]), np.array([0]))


def test_drift_common_to_a_round_cancels():
    reported, replicates = difference(noise=0.002)
    low, high = interval(replicates)
    assert low < reported[0] < high
    # The rounds drift by 0.4 %, and both plans with them; the pairs differ by 0.3 % only.
    assert high - low < 0.006


def test_intervals_cover_the_truth_as_often_as_they_say():
    covered = 0
    for seed in range(200):
        low, high = interval(difference(noise=0.01, seed=seed)[1])
        covered += low <= np.log(1.03) <= high
    assert 170 <= covered <= 200


def test_too_few_common_rounds_are_as_wide_as_the_tie_band():
    _, replicates = difference(noise=0.0, rounds=2)
    assert replicates.std() == pytest.approx(np.log1p(0.005), rel=0.2)


def test_a_plan_against_itself_is_certain():
    samples = collect([record_of(Shape(4, 16, 512), [(FAST, 10.0)], noise=0.05)])
    reported, replicates = paired_differences(samples, np.array([0]), np.array([0]), np.array([0]))
    assert reported.tolist() == [0.0]
    assert not replicates.any()


def test_interval_ends_are_replicates():
    assert interval(np.arange(201)) == (5.0, 195.0)
