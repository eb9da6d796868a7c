"""Which planner device a tensor is on: the one place that turns a torch device into a ``Device``."""

import torch

from cake_tune.host import cpu_device, cpu_workers, usable_cores
from cake_tune.planner.shape import Device

__all__ = ["cpu_workers", "device_of", "usable_cores"]


def device_of(device: torch.device) -> Device:
    """The planner's ``Device`` behind a torch device; a GPU is asked once, so it costs a look-up per call."""
    found = _gpus.get(device)
    if found is not None:
        return found
    if device.type != "cuda":
        return cpu_device()
    if device.index is None:
        return device_of(torch.device("cuda", torch.cuda.current_device()))
    properties = torch.cuda.get_device_properties(device)
    arch = f"sm_{properties.major}{properties.minor}a"
    gpu = Device(properties.name, arch, properties.multi_processor_count, properties.L2_cache_size)
    return _gpus.setdefault(device, gpu)


_gpus: dict[torch.device, Device] = {}
