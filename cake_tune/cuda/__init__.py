"""The compiled kernels: built with NVRTC at first use, kept on disk, launched on torch's current stream."""

from typing import TYPE_CHECKING

from cake_tune._lazy import lazy_names

if TYPE_CHECKING:
    from cake_tune.cuda.build import Built, build_kernels
    from cake_tune.cuda.identity import kernel_identity
    from cake_tune.cuda.launch import launch_decode, launch_prefill
    from cake_tune.cuda.options import BuildOptions, build_options

__all__ = [
    "BuildOptions",
    "Built",
    "build_kernels",
    "build_options",
    "kernel_identity",
    "launch_decode",
    "launch_prefill",
]

__getattr__, __dir__ = lazy_names(
    __name__, __all__, [f"{__name__}.{home}" for home in ("options", "identity", "build", "launch")]
)
