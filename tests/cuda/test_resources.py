"""Registers and memory read from a cubin are what the assembler reported; occupancy follows from them."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cake_tune.cuda.elf import Resources, read_resources
from cake_tune.cuda.occupancy import MULTIPROCESSORS, REGISTERS, ctas_per_sm
from cake_tune.errors import CakeTuneError

PROGRAMS = {
    "plain": "x[threadIdx.x] *= 2;",
    "static shared": "__shared__ float s[100]; s[threadIdx.x] = x[1]; __syncthreads(); x[0] = s[99 - threadIdx.x];",
    "both shared": "__shared__ float s[100]; extern __shared__ float d[]; d[threadIdx.x] = s[threadIdx.x] = x[1];"
    " __syncthreads(); x[threadIdx.x] = s[99 - threadIdx.x] + d[1];",
    "local": "volatile float a[64]; a[int(x[1]) & 63] = 1; x[0] = a[int(x[2]) & 63];",
}


class Log:
    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text


def compiled(body, arch):
    from cuda.core import Program, ProgramOptions

    log = Log()
    code = 'extern "C" __global__ void kernel(float* x) {' + body + "}"
    program = Program(code, "c++", ProgramOptions(arch=arch, ptxas_options=["-v"]))
    return program.compile("cubin", logs=log).code, log.text


def reported(text):
    def number(pattern):
        found = re.search(pattern, text)
        return int(found.group(1)) if found else 0

    return Resources(number(r"Used (\d+) registers"), number(r"(\d+) bytes smem"), number(r"(\d+) bytes stack frame"))


@pytest.mark.parametrize("arch", MULTIPROCESSORS)
@pytest.mark.parametrize("body", PROGRAMS.values(), ids=PROGRAMS)
def test_cubin_says_what_the_assembler_said(arch, body):
    """Registers, static shared memory and stack frame of the ELF are those of ``ptxas -v``."""
    cubin, log = compiled(body, arch)
    assert read_resources(cubin, "kernel") == reported(log)


def test_the_programs_differ_in_what_they_take():
    """The cases above tell the numbers apart: static shared memory, local memory, neither."""
    found = {name: read_resources(compiled(body, "sm_120a")[0], "kernel") for name, body in PROGRAMS.items()}
    assert found["plain"].static_shared_bytes == found["plain"].local_bytes == 0
    assert found["static shared"].static_shared_bytes == found["both shared"].static_shared_bytes == 400
    assert found["local"].local_bytes == 256


@pytest.mark.parametrize("cubin", [b"", b"\x7fELF" + bytes(200), b"something else" * 100], ids=["empty", "ELF", "text"])
def test_no_cubin_is_a_clear_error(cubin):
    """Bytes that are no cubin are refused."""
    with pytest.raises(CakeTuneError, match="no attributes of a kernel kernel"):
        read_resources(cubin, "kernel")


def test_kernel_of_another_name_is_a_clear_error():
    """A cubin without the kernel is refused."""
    cubin, _ = compiled(PROGRAMS["plain"], "sm_90a")
    with pytest.raises(CakeTuneError, match="other"):
        read_resources(cubin, "other")


@pytest.mark.parametrize(
    ("arch", "threads", "registers", "shared", "expected"),
    [
        ("sm_90a", 256, 128, 0, 2),  # 32768 of 65536 registers each
        ("sm_90a", 256, 128, 120_000, 1),  # shared memory allows one of 227 KB
        ("sm_90a", 32, 16, 0, 32),  # the most CTAs of a multiprocessor
        ("sm_90a", 1024, 32, 0, 2),  # 2048 threads
        ("sm_120a", 1024, 32, 0, 1),  # 1536 threads
        ("sm_120a", 64, 64, 0, 16),  # registers again
        ("sm_120a", 256, 255, 101_376, 1),  # exactly the most shared memory of a CTA
        ("sm_120a", 256, 64, 50_176, 2),  # twice half of it
        ("sm_120a", 256, 64, 50_177, 1),  # and a byte more
        ("sm_121a", 512, 255, 0, 0),  # too many registers for even one
    ],
)
def test_occupancy_of_known_kernels(arch, threads, registers, shared, expected):
    """The scarcest of threads, CTAs, registers and shared memory decides."""
    assert ctas_per_sm(arch, threads, registers, shared) == expected


@given(st.sampled_from(sorted(MULTIPROCESSORS)), st.integers(1, 1024), st.integers(1, 255), st.integers(0, 101_376))
def test_occupancy_never_oversubscribes_and_never_grows_with_demand(arch, threads, registers, shared):
    """What fits fits together, and asking for more never fits more CTAs."""
    ctas, limits = ctas_per_sm(arch, threads, registers, shared), MULTIPROCESSORS[arch]
    assert ctas * threads <= limits.threads
    assert ctas * threads * registers <= REGISTERS
    assert ctas * shared <= limits.shared_bytes
    assert ctas_per_sm(arch, threads, min(255, registers + 1), shared) <= ctas
    assert ctas_per_sm(arch, threads, registers, shared + 1) <= ctas
