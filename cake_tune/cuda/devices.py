"""GPUs as planner devices, asked of the driver alone: no torch, no context, nothing allocated."""

from cake_tune.cuda.requirements import arch_of
from cake_tune.errors import DeviceUnfitError
from cake_tune.planner.shape import Device


def gpu_device(index: int = 0) -> Device:
    """The GPU of that index among the visible ones; ``DeviceUnfitError`` where there is none or it runs no kernel."""
    from cake_tune.cuda.driver import checked, driver

    try:
        checked(driver.cuInit(0))
        count = checked(driver.cuDeviceGetCount())
    except RuntimeError as error:  # the driver's library is not there
        raise DeviceUnfitError(f"no CUDA driver: {error}") from error
    if index >= count:
        raise DeviceUnfitError(f"device: expected one of {count} visible GPUs, got {index}")
    handle, attribute = checked(driver.cuDeviceGet(index)), driver.CUdevice_attribute

    def ask(what: object) -> int:
        return int(checked(driver.cuDeviceGetAttribute(what, handle)))

    name = checked(driver.cuDeviceGetName(256, handle)).split(b"\0")[0].decode()
    major = ask(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
    minor = ask(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
    return Device(
        name=name,
        arch=arch_of((major, minor), name),
        num_sms=ask(attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
        l2_bytes=ask(attribute.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
    )
