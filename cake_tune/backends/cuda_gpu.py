"""The GPU that a worker measures: its own while it lives, warm before the first sample, watched during each."""

import os
import time
from statistics import median

import torch

from cake_tune.backends.cuda_pools import Pools, memory_errors
from cake_tune.backends.cuda_timer import ReplayClock
from cake_tune.backends.launcher import Launcher
from cake_tune.cuda.devices import visible_gpus
from cake_tune.cuda.lock import SHARE, lock_gpu, shares_gpu
from cake_tune.cuda.monitor import GpuMonitor, Reading
from cake_tune.errors import DeviceUnfitError
from cake_tune.mla import device_of

WARM_SECONDS = (2.0, 10.0)
"""Least and longest warm-up: it ends when the SM clock has been flat for its last ``FLAT_READINGS``."""
FLAT_READINGS = 20
FLAT = 0.01
OTHERS_SECONDS = 30.0
"""How long to wait for a process that is just ending: the driver takes its time with one that was killed at work."""
COPY_BYTES = 1 << 28
COPIES = 20
"""Copies per series of the warm-up: some 2.5 ms on an H200."""
COPY_MARGIN = 1.2
"""Reading alone may be faster than copying by this factor: the directions of the memory bus need not alternate."""
SM_BYTES_PER_CYCLE = 128
"""What a multiprocessor can take in per cycle at most, from its own L1."""


class MeasuredGpu:
    """The first visible GPU, for as long as this process lives.

    Making one locks it and makes its context; ``DeviceUnfitError`` if another process measures on it or computes on it.
    Foreign processes are refused because no sample is free of them; ``CAKE_TUNE_SHARE_GPU=1`` measures all the same.
    """

    def __init__(self, launcher: Launcher) -> None:
        gpus = visible_gpus()
        if not gpus:
            raise DeviceUnfitError("device: expected a visible GPU, found none")
        self.uuid = gpus[0].uuid
        self.monitor = _monitor(self.uuid)
        if not shares_gpu():
            lock_gpu(self.uuid)
            self._refuse_others()
        torch.zeros(1, device="cuda")
        self.l2_bytes = device_of(torch.device("cuda")).l2_bytes
        self.pools = Pools(launcher.pack)
        self.clock = ReplayClock()
        self.copy_bytes_per_us = 0.0
        self.warm_clock_mhz = 0
        self._num_sms = gpus[0].num_sms
        self._flush = torch.empty(0, dtype=torch.uint8, device="cuda")

    def warm(self) -> None:
        """Once per process: keep the GPU busy until its SM clock is flat, and measure what a copy moves meanwhile."""
        if self.copy_bytes_per_us:
            return
        with memory_errors():
            source = torch.zeros(COPY_BYTES, dtype=torch.uint8, device="cuda")
            target = torch.empty_like(source)
        # A clock of its own: this is no point's GPU time.
        start, clock, clocks = time.monotonic(), ReplayClock(), list[int]()
        while True:
            (took,) = clock.time(
                lambda: _copy(source, target), 1, meanwhile=lambda: clocks.append(self.reading().sm_clock_mhz)
            )
            self.copy_bytes_per_us = max(self.copy_bytes_per_us, 2 * COPIES * COPY_BYTES / took)
            seconds = time.monotonic() - start
            if seconds > WARM_SECONDS[1] or (seconds > WARM_SECONDS[0] and _is_flat(clocks)):
                break
        self.warm_clock_mhz = round(median(clocks[-FLAT_READINGS:]))

    def cool(self, size: int) -> None:
        """Have the L2 hold none of what was used so far, by writing ``size`` bytes of something else."""
        if self._flush.numel() < size:
            self._flush = torch.empty(0, dtype=torch.uint8, device="cuda")
            with memory_errors():
                self._flush = torch.empty(size, dtype=torch.uint8, device="cuda")
        self._flush[:size].zero_()

    def reading(self) -> Reading:
        """Clock and reasons now; without NVML, nothing is known."""
        return Reading(0, ()) if self.monitor is None else self.monitor.reading()

    def least_us(self, read_bytes: int, *, cold: bool) -> float:
        """Least microseconds in which the GPU can read so many bytes: from its memory, or from its L2."""
        if cold:
            return read_bytes / (self.copy_bytes_per_us * COPY_MARGIN) if self.copy_bytes_per_us else 0.0
        return read_bytes / (self._num_sms * SM_BYTES_PER_CYCLE * (self.warm_clock_mhz or 3000))

    def _refuse_others(self) -> None:
        """Also waits for a predecessor that is just ending. In a container NVML may list nothing: then nobody knows."""
        if self.monitor is None or torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            return
        end = time.monotonic() + OTHERS_SECONDS
        while others := [pid for pid in self.monitor.compute_processes() if pid != os.getpid()]:
            if time.monotonic() > end:
                raise DeviceUnfitError(
                    f"{self.uuid}: other processes compute on this GPU ({', '.join(map(str, others))}): end them, or "
                    f"set {SHARE}=1 to measure beside them"
                )
            time.sleep(0.2)


def _monitor(uuid: str) -> GpuMonitor | None:
    try:
        return GpuMonitor(uuid)
    except DeviceUnfitError:
        return None  # the run's facts say so


def _copy(source: torch.Tensor, target: torch.Tensor) -> None:
    for _ in range(COPIES):
        target.copy_(source)


def _is_flat(clocks: list[int]) -> bool:
    last = clocks[-FLAT_READINGS:]
    return len(last) == FLAT_READINGS and max(last) - min(last) <= FLAT * max(last)
