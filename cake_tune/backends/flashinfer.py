"""FlashInfer's compiled Cake kernels on a GPU of compute capability 12.0 or 12.1, measured as this project's own are.

``flashinfer:pack=flashinfer`` has FlashInfer write the caches, ``pack=cake-tune`` (the default) this project, in one
format. Asking for the device or the kernels' identity reads files and the driver alone: no torch, no FlashInfer.
"""

from functools import cache
from typing import TYPE_CHECKING

from cake_tune.backends.base import AfterLaunch
from cake_tune.backends.cuda import CudaBackend
from cake_tune.cuda.devices import gpu_device
from cake_tune.cuda.identity import driver_version
from cake_tune.cuda.requirements import cuda_packages
from cake_tune.errors import UsageError
from cake_tune.flashinfer.compiler import compiler_version
from cake_tune.flashinfer.interface import drivable_package, served_archs
from cake_tune.planner.shape import Device
from cake_tune.planner.table import KernelIdentity

if TYPE_CHECKING:
    from cake_tune.backends.launcher import Launcher

PACKERS = ("cake-tune", "flashinfer")
"""Who can write the caches."""


class FlashInferBackend(CudaBackend):
    """The first visible GPU, running FlashInfer's kernels."""

    options = frozenset({"rival=sparse"})
    start_seconds = 1800.0
    """The first start on a machine has FlashInfer compile its kernels, unless ``cake-tune build --flashinfer`` did:
    minutes, and more on a busy machine or one with few cores."""

    def __init__(self, configuration: str, after_launch: AfterLaunch | None = None) -> None:
        super().__init__(after_launch)
        self.name = f"flashinfer:{configuration}" if configuration else "flashinfer"
        self._packer = _packer(configuration)

    def device(self) -> Device:
        """The GPU; ``DeviceUnfitError`` where FlashInfer or a GPU that runs its Cake kernels is missing."""
        return _device()

    def identity(self) -> KernelIdentity:
        """The identity in FlashInfer's manifest with FlashInfer's version, the CUDA compiler's and the driver's."""
        package = drivable_package()
        with cuda_packages():
            driver = driver_version()
        return KernelIdentity(package.manifest["family"], package.identity, compiler_version(), driver)

    def start(self) -> None:
        """Import torch, lock the GPU and make the context; FlashInfer compiles its Cake kernels if it never did."""
        if self._gpu is None:
            from cake_tune.backends.flashinfer_launcher import compile_cake

            _device()
            super().start()
            compile_cake("cuda")

    def _launcher(self) -> "Launcher":
        from cake_tune.backends.flashinfer_launcher import FlashInferLauncher

        return FlashInferLauncher(self._packer)


@cache
def _device() -> Device:
    return gpu_device(archs=served_archs(drivable_package()))


def _packer(configuration: str) -> str:
    key, _, packer = configuration.partition("=")
    if not configuration:
        return PACKERS[0]
    if key != "pack" or packer not in PACKERS:
        raise UsageError(
            f"backend: expected flashinfer or flashinfer:pack=WRITER with WRITER one of {', '.join(PACKERS)}, "
            f"got 'flashinfer:{configuration}'"
        )
    return packer


def create(configuration: str, after_launch: AfterLaunch | None = None) -> FlashInferBackend:
    """The backend ``flashinfer`` or ``flashinfer:pack=WRITER`` (``CUDA_VISIBLE_DEVICES`` chooses the GPU)."""
    return FlashInferBackend(configuration, after_launch)
