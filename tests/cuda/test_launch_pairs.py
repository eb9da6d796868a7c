"""When neighbouring splits are launched as clusters of two."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cake_tune.cuda.launch import merges_in_pairs, spreads_merge
from cake_tune.planner.cost import in_pairs


@pytest.mark.parametrize(
    ("blocks", "splits", "expected"),
    [
        (1, 2, True),  # two splits: no merge is left
        (1000, 2, True),
        (8, 8, False),  # 64 of 132 multiprocessors: a waiting merge finds room
        (8, 16, True),  # 128 of 132
        (33, 4, False),  # few partials: a merge reads them as fast
        (4, 32, True),
        (8, 32, False),  # two waves
        (6, 17, False),  # no pairs
    ],
)
def test_pairs_are_for_two_splits_and_for_many_splits_in_one_wave(blocks, splits, expected):
    """On 132 multiprocessors."""
    assert merges_in_pairs(blocks, splits, 132) is expected


@pytest.mark.parametrize(
    ("blocks", "rows", "expected"),
    [
        (64, 16, False),  # the merge finds free multiprocessors enough
        (128, 128, True),
        (256, 528, True),  # all resident, four each
        (256, 529, False),  # the last ones would wait for the first
    ],
)
def test_a_waiting_merge_is_spread_where_few_multiprocessors_are_free(blocks, rows, expected):
    """On 132 multiprocessors."""
    assert spreads_merge(blocks, rows, 132) is expected


@given(blocks=st.integers(1, 400), splits=st.integers(2, 64), num_sms=st.integers(1, 200))
def test_the_cost_model_knows_which_splits_the_launch_merges_in_pairs(blocks, splits, num_sms):
    """It cannot import the launch, which needs torch."""
    assert in_pairs(blocks * splits, splits, num_sms) is merges_in_pairs(blocks, splits, num_sms)
