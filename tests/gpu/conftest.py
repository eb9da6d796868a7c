"""Tests on a CUDA GPU: collected everywhere, skipped where there is none. They reuse ``tests/contract``."""

from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent


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
