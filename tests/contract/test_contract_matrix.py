"""The covering selection of the contract on the CPU grid, against the reference."""

import itertools

import pytest
from contract_matrix import AXES, PREFILL_AXES, Case, cases, check_case, every_split

from cake_tune.planner.shape import distinct_splits


@pytest.mark.parametrize("case", cases(), ids=str)
def test_case_meets_the_contract(case, device):
    """Output and LSE are as accurate as the contract says, nothing leaks, only outputs and scratch are written."""
    check_case(case, device)


@pytest.mark.parametrize(("kernel", "axes"), [("decode", AXES), ("prefill", PREFILL_AXES)])
def test_selection_covers_pairs(kernel, axes):
    """Every two values of two axes meet in both kernels (num_tokens aside, which the covering selection cuts)."""
    selection = [case for case in cases() if case.kernel == kernel]
    for first, second in itertools.combinations(axes.keys() - {"num_tokens"}, 2):
        met = {(getattr(case, first), getattr(case, second)) for case in selection}
        assert met >= set(itertools.product(axes[first], axes[second]))


def test_every_split_is_every_distinct_split():
    """A topk of 2048 is split in each of the ways that 32 chunks can be."""
    splits = {case.splits for case in every_split() if case.topk == 2048 and case.extra_topk == 0}
    assert splits == {splits for splits, _ in distinct_splits(32)} == {2, 3, 4, 5, 6, 7, 8, 11, 16, 32}


def test_selection_is_the_same_every_time():
    """A failing id can be run again."""
    assert cases() == cases()
    assert len(cases(full=True)) > len(cases())
    assert str(Case()) == ""
