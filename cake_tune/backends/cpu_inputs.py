"""Inputs for the CPU grid: cache pools too large for the last-level cache, and index sets that walk through them."""

import os
from dataclasses import dataclass

import torch
from torch import Tensor

from cake_tune.host import cpu_device
from cake_tune.measure.protocol import Protocol
from cake_tune.mla import nvfp4_quantize_pack_sparse_mla_cache
from cake_tune.planner.shape import Shape

HEAD_DIM = 512
SLOT_BYTES = 384
DISTINCT_TOKENS = 2048
"""Tokens that are quantised; a pool repeats their pages in random order, so that a wrong address shows all the same."""
UNKNOWN_CACHE_BYTES = 32 << 20
"""Last-level cache assumed where the system does not say."""
MEMORY_SHARE = 4
"""A pool takes at most one part in so many of the free memory."""
QUERIES = 4
"""Distinct query tensors that the calls rotate through."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the calls on one shape rotate through: call n takes query and index set n, modulo their number."""

    queries: list[Tensor]
    """BF16 [T, H, 512] each."""
    cache: Tensor
    """uint8 [pages, page_size, 384]."""
    indices: list[Tensor]
    """int32 [T, topk] each; no slot is in two of them, or twice in one."""
    extra_cache: Tensor | None
    extra_indices: list[Tensor] | None
    lengths: Tensor | None
    extra_lengths: Tensor | None
    sink: Tensor | None
    candidates: int
    """Valid candidates of one call, those of all tokens and of both caches."""


def check_memory(what: str, needed: int, share: int) -> None:
    """Raise ``MemoryError`` if ``needed`` bytes for ``what`` are more than one part in ``share`` of the free memory.

    The system itself promises more than there is, and ends the process that takes it at its word.
    """
    if "SC_AVPHYS_PAGES" in os.sysconf_names:
        most = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // share
        if needed > most:
            raise MemoryError(f"{what}: expected at most {most} bytes (1/{share} of the free memory), got {needed}")


class CachePools:
    """Random cache pools by page size; the last two are kept, since making one takes longer than a small point."""

    def __init__(self) -> None:
        self._pools: dict[tuple[int, int, int], Tensor] = {}

    def get(self, page_size: int, slots: int, seed: int) -> Tensor:
        """A pool of at least ``slots`` tokens in pages of ``page_size``; ``MemoryError`` if it is too large.

        Sizes are rounded up, to four per doubling at least, so that shapes share them.
        """
        step = 1 << max(0, slots.bit_length() - 3)
        num_pages = -(-(-(-slots // step) * step) // page_size)
        key = (page_size, num_pages, seed)
        if key not in self._pools:
            check_memory("cache pool", num_pages * page_size * SLOT_BYTES, MEMORY_SHARE)
            while len(self._pools) > 1:
                del self._pools[next(iter(self._pools))]
            self._pools[key] = _pool(page_size, num_pages, seed)
        return self._pools[key]


def make_inputs(shape: Shape, protocol: Protocol, seed: int, pools: CachePools) -> Inputs:
    """Inputs of ``shape`` from ``seed``.

    Cold: no two calls in a row of as many as there are index sets share a slot, and together they read at least
    ``cold_factor`` times the last-level cache. Only the caches' tokens are cold: query, output and scratch are those of
    a call or a few before, and may be found in the cache, as the neighbouring layers of a model leave them.
    Warm: one index set, over and over.
    """
    random = torch.Generator().manual_seed(seed)
    lengths = _lengths(shape, shape.topk, random)
    extra_lengths = _lengths(shape, shape.extra_topk, random) if shape.extra_topk else None
    candidates = _valid(shape, shape.topk, lengths) + _valid(shape, shape.extra_topk, extra_lengths)
    sets = -(-_cold_slots(protocol) // max(1, candidates)) if protocol.regime == "cold" else 1

    def side(page_size: int, width: int) -> tuple[Tensor, list[Tensor]]:
        wanted = sets * shape.num_tokens * width
        pool = pools.get(page_size, max(wanted, DISTINCT_TOKENS), seed)
        order = torch.randperm(pool.shape[0] * page_size, generator=random, dtype=torch.int32)
        return pool, list(order[:wanted].view(sets, shape.num_tokens, width).unbind())

    cache, indices = side(shape.page_size, shape.topk)
    extra_cache, extra_indices = side(shape.extra_page_size, shape.extra_topk) if shape.extra_topk else (None, None)
    query_shape = (QUERIES, shape.num_tokens, shape.num_heads, HEAD_DIM)
    return Inputs(
        queries=list(torch.randn(query_shape, generator=random).bfloat16()),
        cache=cache,
        indices=indices,
        extra_cache=extra_cache,
        extra_indices=extra_indices,
        lengths=lengths,
        extra_lengths=extra_lengths,
        sink=torch.randn(shape.num_heads, generator=random) if shape.sink else None,
        candidates=candidates,
    )


def _lengths(shape: Shape, width: int, random: torch.Generator) -> Tensor | None:
    """Valid lengths between half and all of ``width``; the first token's is full."""
    if not shape.lengths:
        return None
    lengths = torch.randint(width // 2, width + 1, (shape.num_tokens,), generator=random, dtype=torch.int32)
    lengths[:1] = width
    return lengths


def _valid(shape: Shape, width: int, lengths: Tensor | None) -> int:
    return shape.num_tokens * width if lengths is None else int(lengths.sum())


def _cold_slots(protocol: Protocol) -> int:
    cache_bytes = cpu_device().l2_bytes or UNKNOWN_CACHE_BYTES
    return int(-(-protocol.cold_factor * cache_bytes // SLOT_BYTES))


def _pool(page_size: int, num_pages: int, seed: int) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    distinct = min(num_pages, -(-DISTINCT_TOKENS // page_size))
    latents = torch.randn(distinct, page_size, HEAD_DIM, generator=random).bfloat16()
    pages = nvfp4_quantize_pack_sparse_mla_cache(latents).squeeze(1)
    return pages[torch.randint(distinct, (num_pages,), generator=random)]
