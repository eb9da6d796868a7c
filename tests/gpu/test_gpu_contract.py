"""The whole contract on the compiled kernels: the CPU's generator and edge cases, with the full selection.

The matrix poisons outputs and scratch with NaN, and puts NaN bytes wherever the op has no business reading: masked and
cut-off slots, unused rows, padding. The float64 reference judges.
"""

import pytest
from contract_edges import EDGES
from contract_matrix import cases, check_case

# Collected here a second time, with this folder's device.
from test_contract_shapes import (  # noqa: F401
    test_any_shape_meets_the_contract,
    test_extra_cache_is_more_of_the_same,
    test_order_of_candidates_does_not_matter,
    test_plans_agree,
    test_requested_splits_resolve,
)


@pytest.mark.parametrize("case", cases(full=True), ids=str)
def test_gpu_case_meets_the_contract(case, device):
    """Output and LSE are as accurate as the contract says, nothing leaks, only outputs and scratch are written."""
    check_case(case, device)


@pytest.mark.parametrize("kernel", ["decode", "prefill"])
@pytest.mark.parametrize("name", EDGES)
def test_gpu_edge(name, kernel, device):
    """What the check's name says holds in both kernels."""
    EDGES[name](device, kernel)
