"""Compiled kernels loaded onto devices, each once."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch

from cake_tune.cuda.driver import checked, driver
from cake_tune.cuda.manifest import load_manifest
from cake_tune.cuda.options import BuildOptions
from cake_tune.cuda.program_cache import load_cubin
from cake_tune.cuda.requirements import arch_of, cuda_packages
from cake_tune.cuda.specialisation import Specialisation

_loaded: dict[tuple[int, str, int, bool, BuildOptions], "LoadedKernel"] = {}
_loading = threading.Lock()


class LoadedKernel(NamedTuple):
    """One kernel on one device, ready to launch."""

    function: Any
    """The driver's ``CUfunction``."""
    threads: int
    shared_bytes: int
    heads_per_block: int
    """0 for merge, which takes rows."""
    max_cluster: int
    """Splits that may be launched as one cluster."""
    spread_bytes: int
    """Shared memory in bytes that a CTA may ask for beyond what it uses: of merge only."""
    num_sms: int
    """Of the device."""
    code: Any
    """The ``ObjectCode`` that must outlive the function."""


def loaded_kernel(device: int, kernel: str, head_tiles: int, dual_cache: bool, options: BuildOptions) -> LoadedKernel:
    """The kernel of a call, for the current device: the first such call compiles and loads it, later ones find it."""
    key = (device, kernel, head_tiles, dual_cache, options)
    found = _loaded.get(key)
    if found is None:
        with _loading:
            found = _loaded.get(key)
            if found is None:
                found = _loaded[key] = _load(specialisation_of(_arch(device), *key[1:]))
    return found


def loaded_merge(device: int) -> LoadedKernel:
    """The merge kernel, for the current device."""
    return loaded_kernel(device, "merge", 0, False, _NO_OPTIONS)


_NO_OPTIONS = BuildOptions("", None)


def specialisation_of(
    arch: str, kernel: str, head_tiles: int, dual_cache: bool, options: BuildOptions
) -> Specialisation:
    """The program of a call; ``ContractError`` where the options name a variant that cannot run it."""
    if kernel == "merge":
        return Specialisation(arch, kernel)
    manifest = load_manifest()
    if options.variant is None:
        variant = manifest.default_variant(arch, kernel, head_tiles)
    else:
        variant = manifest.variant(options.variant, arch, kernel, head_tiles)
    return Specialisation(arch, kernel, variant, dual_cache, options.qk)


def _arch(device: int) -> str:
    properties = torch.cuda.get_device_properties(device)
    return arch_of((properties.major, properties.minor), properties.name)


def _load(specialisation: Specialisation) -> LoadedKernel:
    manifest = load_manifest()
    spread = manifest.merge_spread_bytes[specialisation.arch] if specialisation.variant is None else 0
    cubin = load_cubin(manifest, specialisation)
    with cuda_packages():
        from cuda.core import ObjectCode

    with _allowed_during_capture():
        code = ObjectCode.from_cubin(cubin, name=str(specialisation))
        kernel = code.get_kernel(manifest.sources[specialisation.kernel].entry)
        # The function itself, not the kernel: it is loaded now, and the launch need not look for it.
        function = checked(driver.cuKernelGetFunction(kernel.handle))
        checked(
            driver.cuFuncSetAttribute(
                function,
                driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                specialisation.shared_bytes + spread,
            )
        )
    return LoadedKernel(
        function,
        specialisation.threads(manifest),
        specialisation.shared_bytes,
        0 if specialisation.variant is None else specialisation.variant.heads_per_block,
        manifest.max_cluster[specialisation.arch],
        spread,
        torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count,
        code,
    )


@contextmanager
def _allowed_during_capture() -> Iterator[None]:
    """Loading code is forbidden to a thread that captures a graph, unless the thread says that it knows what it does.

    A load is no part of the graph and orders with nothing in it, so a first call inside a capture is safe.
    """
    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    before = checked(driver.cuThreadExchangeStreamCaptureMode(mode))
    try:
        yield
    finally:
        checked(driver.cuThreadExchangeStreamCaptureMode(before))
