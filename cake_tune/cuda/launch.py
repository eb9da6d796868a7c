"""The launch: a checked call becomes one or two kernels on torch's current stream.

It allocates nothing on the GPU and waits for nothing, so it can be captured in a CUDA graph. The first call of a kernel
in a process loads it (and compiles it, where the program cache has none): seconds rather than microseconds, also
correct inside a capture, but better spent before it.
"""

import ctypes
import threading
from typing import TYPE_CHECKING

import torch

from cake_tune.cuda.arguments import ARGUMENTS, NUM_SPLITS, NUM_SPLITS_OFFSET, pack_arguments
from cake_tune.cuda.driver import checked, driver
from cake_tune.cuda.loader import LoadedKernel, loaded_kernel, loaded_merge
from cake_tune.cuda.options import chosen_options
from cake_tune.errors import ContractError

if TYPE_CHECKING:
    from cake_tune.mla.call import AttentionCall

MAX_BLOCKS, MAX_SPLITS = 2**31 - 1, 2**16 - 1
"""Of a grid: blocks side by side, and splits of each."""
MANY_SPLITS, SPREAD_MERGES = 16, 4
"""Measured (kernels/NOTES.md): splits from which pairs pay, and merge CTAs that a multiprocessor takes when spread."""


def launch_decode(call: "AttentionCall") -> None:
    """Run a decode call, and the merge of its splits, on its device.

    Raises ``DeviceUnfitError`` for a GPU or an installation that cannot run the kernels, ``ContractError`` for a call
    of more blocks or splits than a grid can have or a build variant that cannot run it.
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
    rows, splits = call.num_tokens * call.num_heads, call.num_splits
    if rows > MAX_BLOCKS or splits > MAX_SPLITS:
        raise ContractError(
            f"q: expected at most {MAX_BLOCKS} rows and {MAX_SPLITS} splits, got {call.num_tokens} tokens of "
            f"{call.num_heads} heads in {splits} splits"
        )
    launcher = _launcher()
    submit = launcher.submit
    pack_arguments(launcher.arguments, call)
    stream = torch._C._cuda_getCurrentRawStream(device)
    dual_cache = call.extra_cache is not None
    kernel = loaded_kernel(device, call.kernel, call.head_tiles, dual_cache, chosen_options())
    blocks = call.num_tokens * -(-call.num_heads // kernel.heads_per_block)
    if splits == 1:
        submit(kernel, blocks, stream)
        return
    pairs = kernel.max_cluster > 1 and merges_in_pairs(blocks, splits, kernel.num_sms)
    submit(kernel, blocks, stream, splits, 2 if pairs else 1)
    if pairs:
        splits //= 2
        NUM_SPLITS.pack_into(launcher.arguments, NUM_SPLITS_OFFSET, splits)
    if splits > 1:
        merge = loaded_merge(device)
        spread = spreads_merge(blocks * call.num_splits, rows, kernel.num_sms)
        submit(merge, rows, stream, padding=merge.spread_bytes if spread else 0)


def merges_in_pairs(blocks: int, splits: int, num_sms: int) -> bool:
    """Whether neighbouring splits are launched as clusters that leave one partial between them, or the result.

    Two splits always (no merge then). From ``MANY_SPLITS`` on, where a merge has much to read, if the grid takes more
    than half of the multiprocessors and no more than all: in later waves a cluster waits for two of them to be free.
    """
    many = splits >= MANY_SPLITS and splits % 2 == 0
    return splits == 2 or (many and num_sms < 2 * blocks * splits <= 2 * num_sms)


def spreads_merge(blocks: int, rows: int, num_sms: int) -> bool:
    """Whether the ``rows`` CTAs of a merge ask for shared memory that they do not use.

    They are launched early and wait, all on the few multiprocessors that ``blocks`` CTAs of decode leave free, unless
    only a few fit on each. Where they are too many to be resident at once, that would hold the last ones back.
    """
    return 2 * blocks > num_sms and rows <= SPREAD_MERGES * num_sms


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
        self._config.gridDimZ = 1
        self._config.blockDimY = self._config.blockDimZ = 1
        self._config.attrs, self._config.numAttrs = [early], 1
        pair = driver.CUlaunchAttribute()
        pair.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        pair.value.clusterDim.x, pair.value.clusterDim.y, pair.value.clusterDim.z = 1, 2, 1
        self._pair_config = driver.CUlaunchConfig()
        self._pair_config.gridDimZ = 1
        self._pair_config.blockDimY = self._pair_config.blockDimZ = 1
        self._pair_config.attrs, self._pair_config.numAttrs = [early, pair], 2

    def submit(
        self, kernel: LoadedKernel, blocks: int, stream: int, splits: int = 1, cluster: int = 1, padding: int = 0
    ) -> None:
        """Put ``blocks`` x ``splits`` CTAs of ``kernel`` on ``stream``, clusters of 1 or 2 splits.

        ``padding`` is shared memory in bytes beyond what the kernel uses.
        The driver copies the arguments before it returns.
        """
        config = self._config if cluster == 1 else self._pair_config
        config.gridDimX = blocks
        config.gridDimY = splits
        config.blockDimX = kernel.threads
        config.sharedMemBytes = kernel.shared_bytes + padding
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
