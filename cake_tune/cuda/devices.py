"""GPUs as planner devices, asked of the driver alone: no torch, no context, nothing allocated."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from cake_tune.cuda.requirements import arch_of
from cake_tune.errors import DeviceUnfitError
from cake_tune.planner.shape import Device


@dataclass(frozen=True, slots=True)
class Gpu:
    """One visible GPU: ``uuid`` as ``CUDA_VISIBLE_DEVICES`` and NVML take it, ``index`` among the visible ones."""

    uuid: str
    name: str
    num_sms: int
    index: int


def visible_gpus() -> tuple[Gpu, ...]:
    """The GPUs that ``CUDA_VISIBLE_DEVICES`` lets this process see, in its order; empty without a driver or a GPU.

    ``DeviceUnfitError`` where the packages of the ``cuda`` extra are missing.
    """
    try:
        count = _gpu_count()
    except DeviceUnfitError as error:
        if isinstance(error.__cause__, ImportError):
            raise
        return ()
    return tuple(_gpu(index) for index in range(count))


def gpu_device(index: int = 0, archs: Sequence[str] | None = None) -> Device:
    """The GPU of that index among the visible ones; ``DeviceUnfitError`` where there is none or it runs no kernel.

    ``archs`` are the architectures that the kernels run on; by default, those of this project's.
    """
    count = _gpu_count()
    if index >= count:
        raise DeviceUnfitError(f"device: expected one of {count} visible GPUs, got {index}")
    from cake_tune.cuda.driver import checked, driver

    attribute = driver.CUdevice_attribute
    handle = checked(driver.cuDeviceGet(index))
    name = _name(handle)
    major = _ask(handle, attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
    minor = _ask(handle, attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
    return Device(
        name=name,
        arch=arch_of((major, minor), name, archs),
        num_sms=_ask(handle, attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        l2_bytes=_ask(handle, attribute.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
    )


def _gpu_count() -> int:
    """GPUs that this process sees; ``DeviceUnfitError`` without a driver, or where it has none to offer."""
    from cake_tune.cuda.driver import checked, driver

    try:
        (status,) = driver.cuInit(0)
        if status == driver.CUresult.CUDA_ERROR_NO_DEVICE:
            return 0
        checked((status,))
        return int(checked(driver.cuDeviceGetCount()))
    except RuntimeError as error:  # the driver's library is not there
        raise DeviceUnfitError(f"no CUDA driver: {error}") from error


def _gpu(index: int) -> Gpu:
    from cake_tune.cuda.driver import checked, driver

    handle = checked(driver.cuDeviceGet(index))
    identifier = UUID(bytes=bytes(checked(driver.cuDeviceGetUuid(handle)).bytes))
    sms = _ask(handle, driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
    return Gpu(uuid=f"GPU-{identifier}", name=_name(handle), num_sms=sms, index=index)


def _ask(handle: Any, attribute: Any) -> int:
    from cake_tune.cuda.driver import checked, driver

    return int(checked(driver.cuDeviceGetAttribute(attribute, handle)))


def _name(handle: Any) -> str:
    from cake_tune.cuda.driver import checked, driver

    name: bytes = checked(driver.cuDeviceGetName(256, handle)).split(b"\0")[0]
    return name.decode()
