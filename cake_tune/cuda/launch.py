"""The launch: a checked call becomes one or two kernels on torch's current stream.

It allocates nothing on the GPU and waits for nothing, so it can be captured in a CUDA graph. The first call of a kernel
in a process loads it (and compiles it, where the program cache has none): seconds rather than microseconds, also
correct inside a capture, but better spent before it.
"""

import ctypes
import threading
from typing import TYPE_CHECKING

import torch

from cake_tune.cuda.arguments import ARGUMENTS, pack_arguments
from cake_tune.cuda.driver import checked, driver
from cake_tune.cuda.loader import LoadedKernel, loaded_kernel, loaded_merge
from cake_tune.cuda.options import chosen_options
from cake_tune.errors import ContractError

if TYPE_CHECKING:
    from cake_tune.mla.call import AttentionCall

MAX_BLOCKS = 2**31 - 1
"""Blocks of a one-dimensional grid."""


def launch_decode(call: "AttentionCall") -> None:
    """Run a decode call, and the merge of its splits, on its device.

    Raises ``DeviceUnfitError`` for a GPU or an installation that cannot run the kernels, ``ContractError`` for a call
    of more than 2^31 - 1 blocks or a build variant that cannot run it.
    """
    _launch(call)


def launch_prefill(call: "AttentionCall") -> None:
    """Run a prefill call on its device; errors as ``launch_decode``."""
    _launch(call)


def _launch(call: "AttentionCall") -> None:
    if call.num_tokens == 0:
        return
    device = call.q.get_device()
    if device == torch._C._cuda_getDevice():
        _launch_here(call, device)
        return
    with torch.cuda.device(device):
        _launch_here(call, device)


def _launch_here(call: "AttentionCall", device: int) -> None:
    blocks, rows = call.num_tokens * call.num_splits * call.head_blocks, call.num_tokens * call.num_heads
    if max(blocks, rows) > MAX_BLOCKS:
        raise ContractError(
            f"q: expected at most {MAX_BLOCKS} blocks and rows, got {blocks} blocks "
            f"({call.num_tokens} tokens, {call.num_splits} splits, {call.head_blocks} head blocks) and {rows} rows"
        )
    launcher = _launcher()
    submit = launcher.submit
    pack_arguments(launcher.arguments, call)
    stream = torch._C._cuda_getCurrentRawStream(device)
    dual_cache = call.extra_cache is not None
    submit(loaded_kernel(device, call.kernel, call.head_tiles, dual_cache, chosen_options()), blocks, stream)
    if call.num_splits > 1:
        submit(loaded_merge(device), rows, stream)


class _Launcher:
    """What one thread launches with: the driver's structures, made once, since making them costs more than a launch."""

    def __init__(self) -> None:
        _have_context()
        self.arguments = ctypes.create_string_buffer(ARGUMENTS.size)
        self._pointers = (ctypes.c_void_p * 1)(ctypes.addressof(self.arguments))
        self._parameters = ctypes.addressof(self._pointers)
        # Every kernel waits for the grid before it at its first access to memory, so each may be launched early.
        early = driver.CUlaunchAttribute()
        early.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        early.value.programmaticStreamSerializationAllowed = 1
        self._config = driver.CUlaunchConfig()
        self._config.gridDimY = self._config.gridDimZ = 1
        self._config.blockDimY = self._config.blockDimZ = 1
        self._config.attrs, self._config.numAttrs = [early], 1

    def submit(self, kernel: LoadedKernel, blocks: int, stream: int) -> None:
        """Put ``blocks`` CTAs of ``kernel`` on ``stream``; the driver copies the arguments before it returns."""
        config = self._config
        config.gridDimX = blocks
        config.blockDimX = kernel.threads
        config.sharedMemBytes = kernel.shared_bytes
        config.hStream = stream
        status = driver.cuLaunchKernelEx(config, kernel.function, self._parameters, 0)
        if status[0]:
            checked(status)


_of_thread = threading.local()


def _launcher() -> _Launcher:
    """The calling thread's own."""
    try:
        found: _Launcher = _of_thread.launcher
    except AttributeError:
        found = _of_thread.launcher = _Launcher()
    return found


def _have_context() -> None:
    """Make the device's context current in a thread that no CUDA call has given one: the default stream needs it."""
    if not int(checked(driver.cuCtxGetCurrent())):
        device = checked(driver.cuDeviceGet(torch._C._cuda_getDevice()))
        checked(driver.cuCtxSetCurrent(checked(driver.cuDevicePrimaryCtxRetain(device))))
