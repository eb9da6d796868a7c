"""Loading candidates: gather by address, and dequantisation into a block's float32 tile."""

from typing import NamedTuple

import torch
from torch import Tensor

from cake_tune.mla.sources import Source
from cake_tune.mla.workspace import Workspace
from cake_tune.planner.shape import CHUNK


class Part(NamedTuple):
    """Valid rows of one source that a block reads, by their addresses in units of 16 bytes."""

    source: Source
    data_at: Tensor
    scales_at: Tensor
    rows: int


def valid_parts(sources: list[Source], token: int, first_chunk: int, end_chunk: int, step: int) -> list[Part]:
    """What a block of the chunks ``first_chunk`` to ``end_chunk`` reads, in parts of at most ``step`` rows.

    Masked slots and tails are dropped; the order is kept, main before extra.
    """
    parts = []
    for source in sources:
        start = max(0, (first_chunk - source.first_chunk) * CHUNK)
        end = min(source.ends[token], (end_chunk - source.first_chunk) * CHUNK)
        for left in range(start, end, step):
            data_at, scales_at = source.addresses(token, left, min(left + step, end))
            if data_at.size:
                parts.append(Part(source, torch.from_numpy(data_at), torch.from_numpy(scales_at), data_at.size))
    return parts


def load_tile(part: Part, first: int, workspace: Workspace) -> None:
    """Gather the part's rows and dequantise them into the tile's rows from ``first`` on."""
    source, data_at, scales_at, rows = part
    stage = workspace.stage(first, rows)
    torch.index_select(source.codes, 0, data_at, out=stage.code_bytes)
    torch.index_select(source.scales, 0, scales_at, out=stage.scale_bytes)
    torch.index_select(source.rope, 0, data_at, out=stage.rope)
    stage.codes.copy_(stage.flat_code_bytes)
    torch.index_select(_CODE_PAIRS, 0, stage.codes, out=stage.pairs)
    stage.scale_codes.copy_(stage.flat_scale_bytes)
    torch.index_select(_SCALE_VALUES, 0, stage.scale_codes, out=stage.scales)
    torch.mul(stage.nope, stage.group_scales, out=stage.tile_nope)
    stage.tile_rope.copy_(stage.rope)


def _code_pairs() -> Tensor:
    """For each byte the float32 values of its low and high nibble, side by side in one 8-byte element."""
    codes = torch.arange(16)
    exponent, mantissa = codes >> 1 & 3, (codes & 1).float()
    magnitude = torch.where(exponent == 0, mantissa / 2, (1 + mantissa / 2) * 2.0 ** (exponent - 1))
    value = torch.where(codes >= 8, -magnitude, magnitude)
    byte = torch.arange(256)
    return torch.stack((value[byte & 15], value[byte >> 4]), dim=1).view(torch.float64).view(-1)


_CODE_PAIRS = _code_pairs()
_SCALE_VALUES = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).float()
