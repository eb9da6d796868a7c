"""When neighbouring splits are launched as clusters of two."""

import pytest

from cake_tune.cuda.launch import merges_in_pairs, spreads_merge


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
