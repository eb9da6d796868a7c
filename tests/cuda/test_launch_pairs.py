"""When neighbouring splits are launched as clusters of two."""

import pytest

from cake_tune.cuda.launch import merges_in_pairs


@pytest.mark.parametrize(
    ("blocks", "splits", "expected"),
    [
        (1, 2, True),  # two splits: no merge is left
        (1000, 2, True),
        (8, 8, False),  # 64 of 132 multiprocessors: a waiting merge finds room
        (8, 16, True),  # 128 of 132
        (33, 4, True),  # exactly all
        (64, 4, False),  # two waves
        (44, 3, False),  # no pairs
    ],
)
def test_pairs_are_for_two_splits_and_for_grids_that_leave_few_multiprocessors_free(blocks, splits, expected):
    """On 132 multiprocessors."""
    assert merges_in_pairs(blocks, splits, 132) is expected
