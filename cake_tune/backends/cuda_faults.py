"""Faults that only a GPU can have, by kernels that really have them. A process that runs one is good for nothing more.

They are no part of ``kernels/``: nothing that answers for a device is built from here.
"""

from functools import cache
from typing import Any

from cake_tune.cuda.driver import checked, driver
from cake_tune.cuda.requirements import cuda_packages

SOURCE = r"""
extern "C" __global__ void write_to_nowhere(unsigned long long address) {
  *reinterpret_cast<volatile int*>(address) = 1;
}

extern "C" __global__ void never_end(unsigned long long address) {
  // Volatile: what changes the word is beyond the compiler's knowledge, so it may not take the loop for empty.
  while (*reinterpret_cast<volatile int*>(address) == 0) {
  }
}
"""
NOWHERE = 1 << 20
"""No device allocation lies so low."""


def illegal_address() -> None:
    """Run a kernel that writes where nothing is, and wait for it: raises what every call raises from now on."""
    import torch

    _launch("write_to_nowhere", NOWHERE)
    torch.cuda.synchronize()


def never_end() -> None:
    """Run a kernel that does not end, and wait for it."""
    import torch

    flag = torch.zeros(1, dtype=torch.int32, device="cuda")
    _launch("never_end", flag.data_ptr())
    torch.cuda.synchronize()


def out_of_memory() -> None:
    """Ask for more than the GPU has: ``MemoryError``, and the process goes on."""
    import torch

    from cake_tune.backends.cuda_pools import memory_errors

    with memory_errors():
        torch.empty(2 * torch.cuda.mem_get_info()[1], dtype=torch.uint8, device="cuda")


def _launch(entry: str, address: int) -> None:
    import ctypes

    import torch

    value = ctypes.c_uint64(address)
    pointers = (ctypes.c_void_p * 1)(ctypes.addressof(value))
    stream = torch.cuda.current_stream().cuda_stream
    function = checked(driver.cuKernelGetFunction(_kernel(entry).handle))
    checked(driver.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, ctypes.addressof(pointers), 0))


@cache
def _kernel(entry: str) -> Any:
    """Compiled for the device at hand by NVRTC, loaded once per process."""
    import torch

    with cuda_packages():
        from cuda.core import Program, ProgramOptions

    major, minor = torch.cuda.get_device_capability()
    program = Program(SOURCE, "c++", ProgramOptions(name="faults.cu", arch=f"sm_{major}{minor}"))
    return program.compile("cubin").get_kernel(entry)
