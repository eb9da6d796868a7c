"""The compiled kernels on a GPU.

Asking for the device or the kernel's identity loads no torch; opening a session does.
"""

from contextlib import AbstractContextManager
from functools import cache

from cake_tune.backends.base import AfterLaunch, Session
from cake_tune.cuda.devices import gpu_device
from cake_tune.cuda.identity import kernel_identity
from cake_tune.errors import UsageError
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.shape import Device, Shape
from cake_tune.planner.table import KernelIdentity


class CudaBackend:
    """The first visible GPU as a backend."""

    name = "cuda"
    options = frozenset({"qk", "variant"})

    def __init__(self, after_launch: AfterLaunch | None = None) -> None:
        self._after_launch = after_launch

    def device(self) -> Device:
        """The GPU; ``DeviceUnfitError`` where there is none that runs the kernels."""
        return _device()

    def identity(self) -> KernelIdentity:
        """The hash of the kernels' sources, NVRTC's version and the driver's."""
        return kernel_identity()

    def start(self) -> None:
        """Import torch and the op, and make the context."""
        import torch

        from cake_tune.backends import cuda_session  # noqa: F401

        torch.zeros(1, device="cuda")

    def open(self, shape: Shape, protocol: Protocol, seed: int) -> AbstractContextManager[Session]:
        """Inputs of ``shape`` on the GPU."""
        from cake_tune.backends.cuda_session import open_session

        return open_session(shape, protocol, seed, self._after_launch)


@cache
def _device() -> Device:
    return gpu_device()


def create(configuration: str, after_launch: AfterLaunch | None = None) -> CudaBackend:
    """The backend ``cuda``, which takes no configuration (``CUDA_VISIBLE_DEVICES`` chooses the GPU)."""
    if configuration:
        raise UsageError(f"backend: expected 'cuda' without configuration, got {configuration!r}")
    return CudaBackend(after_launch)
