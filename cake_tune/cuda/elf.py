"""Registers and memory of a kernel, read from its cubin: no GPU, no driver, no tool, and cached programs answer too.

A cubin is a 64-bit ELF file. Section ``.nv.info`` is a list of attributes, each four bytes of (format, attribute, size
or value), then ``size`` bytes of payload for the format that has one. The two used here hold (symbol index, number).
Section ``.nv.shared.<kernel>`` is as large as the kernel's static shared memory and the system's share before it.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from cake_tune.errors import CakeTuneError

SIZED_PAYLOAD = 4
FRAME_SIZE = 0x11
SYSTEM_SHARED_BYTES = 1024
"""Shared memory of each CTA that the system keeps for itself, on sm_90 and later."""
REGISTER_COUNT = 0x2F

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")


@dataclass(frozen=True, slots=True)
class Resources:
    """What one kernel takes: registers per thread, static shared memory per CTA and local memory per thread in bytes.

    Spilled registers live in local memory, so a kernel with no local bytes spills nothing.
    """

    registers: int
    static_shared_bytes: int
    local_bytes: int


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    data: bytes
    size: int


def read_resources(cubin: bytes, entry: str) -> Resources:
    """The resources of the kernel named ``entry``; ``CakeTuneError`` if ``cubin`` is none, or does not hold it."""
    try:
        sections = _sections(cubin)
        symbols = _symbol_names(sections)
        attributes = {
            (attribute, symbols[symbol]): number for attribute, symbol, number in _attributes(sections[".nv.info"].data)
        }
        shared = sections.get(f".nv.shared.{entry}")
        return Resources(
            registers=attributes[REGISTER_COUNT, entry],
            static_shared_bytes=max(0, shared.size - SYSTEM_SHARED_BYTES) if shared is not None else 0,
            local_bytes=attributes[FRAME_SIZE, entry],
        )
    except (struct.error, KeyError, IndexError, ValueError) as error:
        raise CakeTuneError(
            f"cubin: no attributes of a kernel {entry} found in {len(cubin)} bytes ({error!r})"
        ) from error


def _sections(cubin: bytes) -> dict[str, _Section]:
    magic, *_, table, _, _, _, _, entry_size, count, names_index = _HEADER.unpack_from(cubin)
    if magic[:5] != b"\x7fELF\x02":
        raise ValueError("not a 64-bit ELF file")
    raw = [_SECTION.unpack_from(cubin, table + number * entry_size) for number in range(count)]
    names_start = raw[names_index][4]
    found = {}
    for name_offset, _, _, _, offset, size, *_ in raw:
        name = _string(cubin, names_start + name_offset)
        found[name] = _Section(name, cubin[offset : offset + size], size)
    return found


def _symbol_names(sections: dict[str, _Section]) -> list[str]:
    table, strings = sections[".symtab"].data, sections[".strtab"].data
    return [_string(strings, name) for name, *_ in _SYMBOL.iter_unpack(table)]


def _attributes(info: bytes) -> Iterator[tuple[int, int, int]]:
    position = 0
    while position < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, position)
        position += 4
        if form != SIZED_PAYLOAD:
            continue
        if attribute in (REGISTER_COUNT, FRAME_SIZE):
            symbol, number = struct.unpack_from("<II", info, position)
            yield attribute, symbol, number
        position += size


def _string(data: bytes, start: int) -> str:
    return data[start : data.index(b"\0", start)].decode("ascii")
