"""Which planner device a tensor is on: the one place that turns a torch device into a ``Device``."""

from functools import lru_cache

import torch

from cake_tune.planner.host import cpu_device, cpu_workers, usable_cores
from cake_tune.planner.shape import Device

__all__ = ["cpu_workers", "device_of", "usable_cores"]


def device_of(device: torch.device) -> Device:
    """The planner's ``Device`` behind a torch device; cached, so it costs a look-up per call."""
    if device.type == "cuda":
        return _cuda_device(torch.cuda.current_device() if device.index is None else device.index)
    return cpu_device()


@lru_cache
def _cuda_device(index: int) -> Device:
    properties = torch.cuda.get_device_properties(index)
    arch = f"sm_{properties.major}{properties.minor}a"
    return Device(properties.name, arch, properties.multi_processor_count, properties.L2_cache_size)
