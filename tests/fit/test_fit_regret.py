import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cake_tune.fit.regret import octave_weights, summarise


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
