"""Inputs for the CPU grid: cache pools too large for the last-level cache, and index sets that walk through them."""

import os
from dataclasses import dataclass

import torch
from torch import Tensor

from cake_tune.measure.protocol import Protocol
from cake_tune.mla import nvfp4_quantize_pack_sparse_mla_cache
from cake_tune.planner.host import cpu_device
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
    """int32 [T, topk] each, disjoint as far as the pool reaches."""
    extra_cache: Tensor | None
    extra_indices: list[Tensor] | None
    lengths: Tensor | None
    extra_lengths: Tensor | None
    sink: Tensor | None


class CachePools:
    """Random cache pools by page size; the last two are kept, since making one takes longer than a small point."""

    def __init__(self) -> None:
        self._pools: dict[tuple[int, int, int], Tensor] = {}

    def get(self, page_size: int, slots: int, seed: int) -> Tensor:
        """A pool of at least ``slots`` tokens in pages of ``page_size``; ``MemoryError`` if it is too large."""
        num_pages = -(-slots // page_size)
        key = (page_size, num_pages, seed)
        if key not in self._pools:
            _check_memory(num_pages * page_size * SLOT_BYTES)
            while len(self._pools) > 1:
                del self._pools[next(iter(self._pools))]
            self._pools[key] = _pool(page_size, num_pages, seed)
        return self._pools[key]


def make_inputs(shape: Shape, protocol: Protocol, seed: int, pools: CachePools) -> Inputs:
    """Inputs of ``shape`` from ``seed``.

    Cold: between two uses of a slot, calls read at least ``cold_factor`` times the last-level cache of other slots.
    Warm: one index set, over and over.
    """
    random = torch.Generator().manual_seed(seed)
    cold = _cold_slots(protocol)

    def side(page_size: int, width: int) -> tuple[Tensor, list[Tensor]]:
        wanted = max(1, shape.num_tokens * width)
        pool = pools.get(page_size, cold if protocol.regime == "cold" else max(wanted, DISTINCT_TOKENS), seed)
        slots = pool.shape[0] * page_size
        sets = max(1, slots // wanted) if protocol.regime == "cold" else 1
        order = torch.randperm(slots, generator=random, dtype=torch.int32)
        order = order.repeat(-(-wanted // slots))[: sets * wanted]
        return pool, list(order[: sets * shape.num_tokens * width].view(sets, shape.num_tokens, width))

    cache, indices = side(shape.page_size, shape.topk)
    extra_cache, extra_indices = side(shape.extra_page_size, shape.extra_topk) if shape.extra_topk else (None, None)
    query_shape = (QUERIES, shape.num_tokens, shape.num_heads, HEAD_DIM)
    return Inputs(
        queries=list(torch.randn(query_shape, generator=random).bfloat16()),
        cache=cache,
        indices=indices,
        extra_cache=extra_cache,
        extra_indices=extra_indices,
        lengths=_lengths(shape, shape.topk, random),
        extra_lengths=_lengths(shape, shape.extra_topk, random) if shape.extra_topk else None,
        sink=torch.randn(shape.num_heads, generator=random) if shape.sink else None,
    )


def _lengths(shape: Shape, width: int, random: torch.Generator) -> Tensor | None:
    """Valid lengths between half and all of ``width``; the first token's is full."""
    if not shape.lengths:
        return None
    lengths = torch.randint(width // 2, width + 1, (shape.num_tokens,), generator=random, dtype=torch.int32)
    lengths[:1] = width
    return lengths


def _cold_slots(protocol: Protocol) -> int:
    cache_bytes = cpu_device().l2_bytes or UNKNOWN_CACHE_BYTES
    return int(-(-protocol.cold_factor * cache_bytes // SLOT_BYTES))


def _pool(page_size: int, num_pages: int, seed: int) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    distinct = min(num_pages, -(-DISTINCT_TOKENS // page_size))
    latents = torch.randn(distinct, page_size, HEAD_DIM, generator=random).bfloat16()
    pages = nvfp4_quantize_pack_sparse_mla_cache(latents).squeeze(1)
    return pages[torch.randint(distinct, (num_pages,), generator=random)]


def _check_memory(needed: int) -> None:
    if "SC_AVPHYS_PAGES" in os.sysconf_names:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if needed > free // MEMORY_SHARE:
            raise MemoryError(f"inputs: expected a pool of {needed} bytes within a quarter of the {free} that are free")
