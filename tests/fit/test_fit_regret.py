import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cake_tune.fit.regret import UNSEEN, octave_weights, summarise, workload_weights


def test_powers_of_two_weigh_one_each():
    assert octave_weights(np.array([1, 2, 4, 8])).tolist() == [1, 1, 1, 1]
    assert octave_weights(np.array([7])).tolist() == [1]


@given(st.sets(st.integers(1, 4096), min_size=2, max_size=30))
def test_a_denser_grid_does_not_weigh_more(tokens):
    grid = np.array(sorted(tokens | {1, 4096}))
    weights = octave_weights(grid)
    ends = np.log2(grid[1] / grid[0]) + np.log2(grid[-1] / grid[-2])
    assert (weights > 0).all()
    assert weights.sum() == pytest.approx(12 + ends / 2)


@given(st.lists(st.floats(0, 10), min_size=1, max_size=50))
def test_summaries_are_ordered(regrets):
    found = summarise(regrets)
    assert found.points == len(regrets)
    assert 0 <= found.mean <= found.worst + 1e-6
    assert found.p95 <= found.worst
    assert found.worst == pytest.approx(max(regrets), abs=1e-6)


def test_no_regrets_no_summary():
    assert summarise([]) is None


def test_a_workload_counts_for_the_nearest_points_on_a_log_axis():
    grid = np.array([1, 4, 16, 64])
    weights = workload_weights(grid, ((1, 1.0), (7, 2.0), (9, 3.0), (300, 4.0)))
    expected = (1 - UNSEEN) * np.array([0.1, 0.2, 0.3, 0.4]) * 8 + UNSEEN * 2
    assert weights == pytest.approx(expected)


@given(
    st.sets(st.integers(1, 4096), min_size=1, max_size=30),
    st.dictionaries(st.integers(1, 8192), st.floats(0.001, 1e6), min_size=1, max_size=20),
)
def test_a_workload_shares_out_the_weight_of_the_octaves(tokens, workload):
    grid = np.array(sorted(tokens))
    weights = workload_weights(grid, tuple(sorted(workload.items())))
    assert (weights > 0).all()
    assert weights.sum() == pytest.approx(octave_weights(grid).sum())
    scaled = tuple((tokens, 7 * weight) for tokens, weight in sorted(workload.items()))
    assert workload_weights(grid, scaled) == pytest.approx(weights)


def test_no_points_no_weights():
    assert workload_weights(np.array([], dtype=np.int64), ((1, 1.0),)).tolist() == []
