"""The compiled kernels on a GPU.

Asking for the device, the kernel's identity or the facts of a run loads no torch; opening a session does.
"""

from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING

from cake_tune.backends.base import AfterLaunch, Session
from cake_tune.cuda.devices import gpu_device, visible_gpus
from cake_tune.cuda.facts import gpu_facts
from cake_tune.cuda.identity import kernel_identity
from cake_tune.errors import UsageError
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.shape import Device, Shape
from cake_tune.planner.table import KernelIdentity

if TYPE_CHECKING:
    from cake_tune.backends.cuda_gpu import MeasuredGpu
    from cake_tune.backends.launcher import Launcher


class CudaBackend:
    """The first visible GPU as a backend."""

    name = "cuda"
    options = frozenset({"qk", "variant"})

    def __init__(self, after_launch: AfterLaunch | None = None) -> None:
        self._after_launch = after_launch
        self._gpu: MeasuredGpu | None = None

    def device(self) -> Device:
        """The GPU; ``DeviceUnfitError`` where there is none that runs the kernels."""
        return _device()

    def identity(self) -> KernelIdentity:
        """The hash of the kernels' sources, NVRTC's version and the driver's."""
        return kernel_identity()

    def facts(self, place: str = "") -> dict[str, str]:
        """The UUID, power limit and the like of the GPU ``place`` (empty: the first visible); other processes on it."""
        return gpu_facts(next((gpu for gpu in visible_gpus() if gpu.uuid == place), None))

    def start(self) -> None:
        """Import torch and the op, lock the GPU and make the context."""
        from cake_tune.backends.cuda_gpu import MeasuredGpu

        if self._gpu is None:
            self._gpu = MeasuredGpu(self._launcher())

    def open(self, shape: Shape, protocol: Protocol, seed: int) -> AbstractContextManager[Session]:
        """Inputs of ``shape`` on the GPU; its cache pools are kept for the next shapes of the same page sizes."""
        from cake_tune.backends.cuda_session import open_session

        self.start()
        assert self._gpu is not None
        return open_session(shape, protocol, seed, self._gpu, self._launcher(), self._after_launch)

    def _launcher(self) -> "Launcher":
        """Whose kernels are run."""
        from cake_tune.backends.cuda_launcher import CudaLauncher

        return CudaLauncher()


@cache
def _device() -> Device:
    return gpu_device()


def create(configuration: str, after_launch: AfterLaunch | None = None) -> CudaBackend:
    """The backend ``cuda``, which takes no configuration (``CUDA_VISIBLE_DEVICES`` chooses the GPU)."""
    if configuration:
        raise UsageError(f"backend: expected 'cuda' without configuration, got {configuration!r}")
    return CudaBackend(after_launch)
