"""The machine's own cores as a device; standard library only, so that asking costs nothing."""

import os
import platform
from functools import lru_cache
from pathlib import Path

from cake_tune.errors import UsageError
from cake_tune.planner.shape import Device

_WORKERS_VARIABLE = "CAKE_TUNE_CPU_WORKERS"
_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")


def cpu_workers() -> int:
    """Worker threads of the CPU grid, its ``num_sms``: ``CAKE_TUNE_CPU_WORKERS``, or the cores this process may use."""
    given = os.environ.get(_WORKERS_VARIABLE)
    if given is None:
        return len(usable_cores())
    if not given.isdecimal() or int(given) < 1:
        raise UsageError(f"{_WORKERS_VARIABLE}: expected an integer >= 1, got {given!r}")
    return int(given)


def usable_cores() -> list[int]:
    """The cores this process may run on, ascending."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def cpu_device() -> Device:
    """The CPU grid as a device: ``num_sms`` workers, ``l2_bytes`` of last-level cache (0 where unknown)."""
    return _cpu_device(cpu_workers())


@lru_cache
def _cpu_device(workers: int) -> Device:
    return Device(_cpu_name(), "cpu", workers, _last_level_cache_bytes())


def _cpu_name() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _last_level_cache_bytes() -> int:
    """Bytes of the largest cache that the first core sees; 0 where the system does not say."""
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    sizes = [0]
    for size in _CACHES.glob("index*/size"):
        text = size.read_text().strip()
        sizes.append(int(text[:-1]) * units[text[-1]] if text[-1:] in units else int(text))
    return max(sizes)
