"""CTAs that fit a multiprocessor, from a kernel's resources and the limits of its architecture.

Source of the limits: CUDA C++ programming guide, technical specifications per compute capability.
"""

from dataclasses import dataclass

from cake_tune.cuda.elf import SYSTEM_SHARED_BYTES

WARP = 32
REGISTERS = 65_536
"""Registers of a multiprocessor, on every architecture here."""
REGISTER_UNIT = 256
"""Registers are handed to a warp in multiples of this."""
SHARED_UNIT = 128


@dataclass(frozen=True, slots=True)
class Multiprocessor:
    """What the CTAs of one multiprocessor share."""

    threads: int
    ctas: int
    shared_bytes: int


MULTIPROCESSORS = {
    "sm_90a": Multiprocessor(threads=2048, ctas=32, shared_bytes=228 << 10),
    "sm_120a": Multiprocessor(threads=1536, ctas=24, shared_bytes=100 << 10),
    "sm_121a": Multiprocessor(threads=1536, ctas=24, shared_bytes=100 << 10),
}


def ctas_per_sm(arch: str, threads: int, registers: int, shared_bytes: int) -> int:
    """CTAs per multiprocessor, of ``threads`` threads with ``registers`` each and ``shared_bytes`` in all."""
    limits = MULTIPROCESSORS[arch]
    warps = -(-threads // WARP)
    # Four schedulers share the register file evenly, so a CTA takes its warps in fours.
    warp_registers = _round_up(registers * WARP, REGISTER_UNIT)
    by_registers = (REGISTERS // 4 // warp_registers) * 4 // warps
    by_shared = limits.shared_bytes // (_round_up(shared_bytes, SHARED_UNIT) + SYSTEM_SHARED_BYTES)
    return min(limits.ctas, limits.threads // (warps * WARP), by_registers, by_shared)


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
