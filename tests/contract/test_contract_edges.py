"""The edge cases of the contract on the CPU grid, in both kernels."""

import pytest
from contract_edges import EDGES


@pytest.mark.parametrize("kernel", ["decode", "prefill"])
@pytest.mark.parametrize("name", EDGES)
def test_edge(name, kernel, device):
    """What the check's name says holds in both kernels."""
    EDGES[name](device, kernel)
