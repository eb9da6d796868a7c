"""The caches of a call as its blocks read them: byte windows, and every slot's address worked out once per launch."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, bfloat16, uint8

from cake_tune.mla.cache import ALIGNMENT, CODE_BYTES, DATA_BYTES, ROPE_DIM, SCALE_BYTES, CachePages
from cake_tune.mla.call import AttentionCall
from cake_tune.mla.checks import slot_outside
from cake_tune.planner.shape import num_chunks

Addresses = NDArray[np.int64]


class Source(NamedTuple):
    """One cache with its candidates. Addresses count in units of 16 bytes and index the windows' rows."""

    codes: Tensor
    rope: Tensor
    scales: Tensor
    first_chunk: int
    """Chunks of the caches before it."""
    ends: list[int]
    """Candidates per token within its length."""
    data_at: Addresses
    """[T, width]"""
    scales_at: Addresses
    valid: NDArray[np.bool_] | None
    """[T, width]: slots that are not masked; None where none is."""

    def addresses(self, token: int, start: int, end: int) -> tuple[Addresses, Addresses]:
        """Where the data and the scales of a token's candidates from ``start`` to ``end`` are; masked ones left out."""
        data_at, scales_at = self.data_at[token, start:end], self.scales_at[token, start:end]
        if self.valid is None:
            return data_at, scales_at
        valid = self.valid[token, start:end]
        return data_at[valid], scales_at[valid]


def open_sources(call: AttentionCall) -> list[Source]:
    """The one or two caches of a call; the extra cache's chunks follow the main one's.

    Raises ``ContractError`` for a slot that no page holds: on a CPU this is never left to chance.
    """
    sources = [_open("indices", call.cache, call.indices, call.topk_length, call.num_tokens, 0)]
    if call.extra_cache is not None and call.extra_indices is not None:
        extra = call.extra_cache, call.extra_indices, call.extra_topk_length
        sources.append(_open("extra_indices", *extra, call.num_tokens, num_chunks(call.topk)))
    return sources


def _open(
    name: str, pages: CachePages, indices: Tensor, lengths: Tensor | None, num_tokens: int, first_chunk: int
) -> Source:
    slots = indices.numpy().reshape(num_tokens, -1).astype(np.int64)
    width = slots.shape[1]
    ends = [width] * num_tokens if lengths is None else lengths[:num_tokens].clamp(0, width).tolist()
    if slots.max() >= pages.num_slots:
        _cut_tails(name, pages, slots, ends)
    page, row = np.divmod(slots, pages.page_size)
    page *= pages.page_stride // ALIGNMENT
    return Source(
        pages.windows(0, CODE_BYTES, uint8),
        pages.windows(CODE_BYTES, ROPE_DIM, bfloat16),
        pages.windows(pages.page_size * DATA_BYTES, SCALE_BYTES, uint8),
        first_chunk,
        ends,
        page + row * (DATA_BYTES // ALIGNMENT),
        page + row * (SCALE_BYTES // ALIGNMENT),
        slots >= 0 if slots.min() < 0 else None,
    )


def _cut_tails(name: str, pages: CachePages, slots: Addresses, ends: list[int]) -> None:
    """Drop what is beyond the lengths, where any number may stand; refuse a wild slot that remains."""
    slots[np.arange(slots.shape[1]) >= np.array(ends)[:, None]] = -1
    if slots.max() >= pages.num_slots:
        raise slot_outside(name, int(slots.max()), pages)
