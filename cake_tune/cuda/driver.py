"""The CUDA driver API, and its status codes as errors."""

from typing import Any

from cake_tune.cuda.requirements import cuda_packages
from cake_tune.errors import CakeTuneError

with cuda_packages():
    from cuda.bindings import driver

__all__ = ["checked", "driver"]


def checked(result: tuple[Any, ...]) -> Any:
    """The value of a driver call's ``(status, value)``; ``CakeTuneError`` names a status other than success.

    Running out of memory is a ``MemoryError``.
    """
    status = result[0]
    if status == driver.CUresult.CUDA_SUCCESS:
        return result[1] if len(result) > 1 else None
    if status == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY:
        raise MemoryError("CUDA: out of memory")
    raise CakeTuneError(f"CUDA: {status.name}")
