"""Inputs on a GPU: cache pools several times its L2, and index sets that walk through them."""

from dataclasses import dataclass

import torch
from torch import Tensor

from cake_tune.measure.protocol import Protocol
from cake_tune.mla import device_of, nvfp4_quantize_pack_sparse_mla_cache
from cake_tune.planner.shape import Shape

HEAD_DIM = 512
SLOT_BYTES = 384
DISTINCT_TOKENS = 1 << 16
"""Tokens that are quantised; a pool repeats their pages in random order, so that a wrong address shows all the same."""


class CandidateRing:
    """One cache, and an endless supply of index sets over it: a slot returns only after all others were used."""

    def __init__(self, shape: tuple[int, int], page_size: int, least_slots: int, random: torch.Generator) -> None:
        num_pages = -(-max(least_slots, 1) // page_size)
        self.cache = _pool(page_size, num_pages, random)
        self._shape = shape
        self._order = torch.randperm(num_pages * page_size, generator=random, dtype=torch.int32, device="cuda")
        self._next = 0

    def fill(self, sets: Tensor) -> None:
        """Write the next index sets into ``sets`` ``[count, T, topk]``."""
        flat, done = sets.view(-1), 0
        while done < flat.numel():
            part = self._order[self._next : self._next + flat.numel() - done]
            flat[done : done + part.numel()] = part
            done += part.numel()
            self._next = (self._next + part.numel()) % self._order.numel()

    def sets(self, count: int) -> Tensor:
        """``count`` new index sets."""
        made = torch.empty(count, *self._shape, dtype=torch.int32, device="cuda")
        self.fill(made)
        return made


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the calls on one shape read."""

    query: Tensor
    """BF16 [T, H, 512]."""
    main: CandidateRing
    extra: CandidateRing | None
    lengths: Tensor | None
    extra_lengths: Tensor | None
    sink: Tensor | None


def make_inputs(shape: Shape, protocol: Protocol, seed: int) -> Inputs:
    """Inputs of ``shape`` from ``seed``.

    Cold: between two uses of a slot, at least ``cold_factor`` times the L2 of other slots are read. Only the caches'
    tokens are cold: query, output and scratch are those of the call before, and may be found in the L2.
    Warm: a pool just as large as one call's candidates.
    """
    random = torch.Generator("cuda").manual_seed(seed)

    def ring(page_size: int, width: int) -> CandidateRing:
        wanted = shape.num_tokens * width
        if protocol.regime == "cold":
            l2_bytes = device_of(torch.device("cuda")).l2_bytes
            # Slots behind a token's length are handed out but not read.
            unread = 2 if shape.lengths else 1
            wanted = unread * (int(protocol.cold_factor * l2_bytes) // SLOT_BYTES + 1)
        return CandidateRing((shape.num_tokens, width), page_size, wanted, random)

    query = torch.randn(shape.num_tokens, shape.num_heads, HEAD_DIM, generator=random, device="cuda")
    return Inputs(
        query=query.bfloat16(),
        main=ring(shape.page_size, shape.topk),
        extra=ring(shape.extra_page_size, shape.extra_topk) if shape.extra_topk else None,
        lengths=_lengths(shape, shape.topk, random),
        extra_lengths=_lengths(shape, shape.extra_topk, random) if shape.extra_topk else None,
        sink=torch.randn(shape.num_heads, generator=random, device="cuda") if shape.sink else None,
    )


def _lengths(shape: Shape, width: int, random: torch.Generator) -> Tensor | None:
    """Valid lengths between half and all of ``width``; the first token's is full."""
    if not shape.lengths:
        return None
    lengths = torch.randint(
        width // 2, width + 1, (shape.num_tokens,), generator=random, dtype=torch.int32, device="cuda"
    )
    lengths[:1] = width
    return lengths


def _pool(page_size: int, num_pages: int, random: torch.Generator) -> Tensor:
    distinct = min(num_pages, -(-DISTINCT_TOKENS // page_size))
    latents = torch.randn(distinct, page_size, HEAD_DIM, generator=random, device="cuda").bfloat16()
    pages = nvfp4_quantize_pack_sparse_mla_cache(latents)
    return pages[torch.randint(distinct, (num_pages,), generator=random, device="cuda")]
