"""Tests on a CUDA GPU: collected everywhere, skipped where there is none. They reuse ``tests/contract``."""

import os
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent

if "PYTEST_XDIST_WORKER" in os.environ:
    # Inputs are made on the CPU: test processes that each take every core stall one another for seconds.
    torch.set_num_threads(1)


def pytest_collection_modifyitems(items):
    missing = pytest.mark.skip(reason="needs a CUDA GPU")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            if not torch.cuda.is_available():
                item.add_marker(missing)


@pytest.fixture
def device():
    """Where the contract is tested."""
    return "cuda"
