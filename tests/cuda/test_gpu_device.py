"""Asking for a GPU where there is none."""

import pytest
import torch

from cake_tune.backends import BACKENDS, get_backend
from cake_tune.cuda.devices import gpu_device
from cake_tune.cuda.identity import driver_version
from cake_tune.errors import DeviceUnfitError, UsageError

without_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


@without_gpu
def test_no_gpu_is_a_clear_error():
    """Of the function and of the backend, before any torch is loaded."""
    for ask in (gpu_device, get_backend("cuda").device):
        with pytest.raises(DeviceUnfitError, match=r"no CUDA driver|expected one of 0"):
            ask()


@without_gpu
def test_driver_version_is_empty_without_a_driver():
    """An identity can be asked for on a machine that only builds."""
    assert driver_version() == ""


def test_backend_is_listed_and_takes_no_configuration():
    """``cuda`` is one of the names, and what follows a colon is refused."""
    assert "cuda" in BACKENDS
    with pytest.raises(UsageError, match="without configuration"):
        get_backend("cuda:0")
