"""A worker's own buffers, allocated once: the shared memory of a CPU block."""

from typing import NamedTuple

import torch
from torch import Tensor

from cake_tune.mla.cache import CODE_BYTES, GROUP, HEAD_DIM, NOPE_DIM, ROPE_DIM, SCALE_BYTES, SCALES
from cake_tune.planner.shape import CHUNK, HEADS_PER_TILE, MAX_CHUNKS_PER_BLOCK

MAX_CANDIDATES = CHUNK * MAX_CHUNKS_PER_BLOCK
MAX_BLOCK_HEADS = 4 * HEADS_PER_TILE


class Stage(NamedTuple):
    """The buffers that some rows pass through, from gathered bytes to the float32 tile, in every form that is used."""

    code_bytes: Tensor
    """uint8 [rows, 224], as gathered."""
    flat_code_bytes: Tensor
    scale_bytes: Tensor
    """uint8 [rows, 32], as gathered."""
    flat_scale_bytes: Tensor
    rope: Tensor
    """BF16 [rows, 64], as gathered."""
    codes: Tensor
    """int32 [rows * 224]: a byte, two dims, each."""
    scale_codes: Tensor
    """int32 [rows * 32]."""
    pairs: Tensor
    """float64 [rows * 224] whose 8 bytes are the float32 values of a byte's two dims."""
    nope: Tensor
    """The same memory as float32 [rows, 28, 16]."""
    scales: Tensor
    """float32 [rows * 32]."""
    group_scales: Tensor
    """The same memory as [rows, 28, 1]."""
    tile_nope: Tensor
    """The tile's NoPE dims, float32 [rows, 28, 16]."""
    tile_rope: Tensor
    """The tile's RoPE dims, float32 [rows, 64]."""


class Workspace:
    """Buffers for the widest block: 1024 candidates and 64 heads.

    Views of them are kept: making one takes as long as a small gather, and each operator's return to Python has to wait
    for the interpreter lock, which the other workers want too.
    """

    def __init__(self) -> None:
        rows = MAX_CANDIDATES
        self._tile = torch.empty(rows, HEAD_DIM)
        self._logits = torch.empty(MAX_BLOCK_HEADS * rows)
        self._code_bytes = torch.empty(rows, CODE_BYTES, dtype=torch.uint8)
        self._scale_bytes = torch.empty(rows, SCALE_BYTES, dtype=torch.uint8)
        self._rope = torch.empty(rows, ROPE_DIM, dtype=torch.bfloat16)
        self._codes = torch.empty(rows * CODE_BYTES, dtype=torch.int32)
        self._scale_codes = torch.empty(rows * SCALE_BYTES, dtype=torch.int32)
        self._pairs = torch.empty(rows * CODE_BYTES, dtype=torch.float64)
        self._scales = torch.empty(rows * SCALE_BYTES)
        self._stages: dict[tuple[int, int], Stage] = {}
        self._tiles: dict[int, tuple[Tensor, Tensor]] = {}

    def stage(self, first: int, rows: int) -> Stage:
        """The buffers cut to ``rows`` rows, the tile's beginning at row ``first``."""
        stage = self._stages.get((first, rows))
        if stage is None:
            if len(self._stages) == MAX_CANDIDATES:
                self._stages.clear()
            stage = self._stages[first, rows] = self._cut(first, rows)
        return stage

    def tile(self, rows: int) -> tuple[Tensor, Tensor]:
        """The tile's first ``rows`` rows, keys and values at once, as [rows, 512] and transposed."""
        tile = self._tiles.get(rows)
        if tile is None:
            cut = self._tile[:rows]
            tile = self._tiles[rows] = (cut, cut.t())
        return tile

    def logits(self, heads: int, candidates: int) -> Tensor:
        """A contiguous float32 [heads, candidates] buffer."""
        return self._logits[: heads * candidates].view(heads, candidates)

    def _cut(self, first: int, rows: int) -> Stage:
        code_bytes, scale_bytes = self._code_bytes[:rows], self._scale_bytes[:rows]
        pairs, scales = self._pairs[: rows * CODE_BYTES], self._scales[: rows * SCALE_BYTES]
        tile = self._tile[first : first + rows]
        return Stage(
            code_bytes,
            code_bytes.view(-1),
            scale_bytes,
            scale_bytes.view(-1),
            self._rope[:rows],
            self._codes[: rows * CODE_BYTES],
            self._scale_codes[: rows * SCALE_BYTES],
            pairs,
            pairs.view(torch.float32).view(-1, SCALES, GROUP),
            scales,
            scales.view(-1, SCALE_BYTES, 1)[:, :SCALES],
            tile[:, :NOPE_DIM].view(-1, SCALES, GROUP),
            tile[:, NOPE_DIM:],
        )
