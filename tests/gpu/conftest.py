"""Tests on a CUDA GPU: collected everywhere, skipped where there is none. They reuse ``tests/contract``."""

import os
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent

# Test processes run side by side, and the process that starts a sweep has a context of its own.
os.environ.setdefault("CAKE_TUNE_SHARE_GPU", "1")

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
