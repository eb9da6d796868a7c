"""Inputs of one shape on a GPU: what its calls read, and the proof that they read it cold."""

from dataclasses import dataclass

import torch
from torch import Tensor

from cake_tune.backends.cuda_pools import DISTINCT_TOKENS, Pools, Ring
from cake_tune.backends.plan_call import Caches
from cake_tune.backends.regime import Walk, bytes_between_uses, cold_slots, require_cold
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.shape import BYTES_PER_TOKEN, QUERY_DIM, Shape

POOL_FACTOR = 4
"""A new pool has so many times the slots that cold calls need at least, so that most shapes find it large enough."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the calls on one shape read."""

    query: Tensor
    """BF16 [T, H, 512]."""
    caches: Caches
    main: Ring
    extra: Ring | None
    read_bytes: int
    """Bytes of cached tokens that a call reads."""
    between_bytes: int
    """Least bytes of other tokens that are read between two uses of one, when every call takes new index sets."""

    def sets(self, count: int) -> tuple[Tensor, Tensor | None]:
        """The next ``count`` index sets of each cache."""
        return self.main.sets(count), None if self.extra is None else self.extra.sets(count)

    def fill(self, indices: Tensor, extra_indices: Tensor | None) -> None:
        """Put the next index sets in place of those used."""
        self.main.fill(indices)
        if self.extra is not None and extra_indices is not None:
            self.extra.fill(extra_indices)


def make_inputs(shape: Shape, protocol: Protocol, seed: int, pools: Pools, l2_bytes: int) -> Inputs:
    """Inputs of ``shape`` from ``seed``, on the GPU with that L2.

    Cold: between two uses of a slot, at least ``cold_factor`` times the L2 of other slots are read; ``RegimeError``
    where that cannot be shown. Only the caches' tokens are cold: query, output and scratch are those of the call
    before, and may be found in the L2.
    """
    random = torch.Generator("cuda").manual_seed(seed)
    lengths = _lengths(shape, shape.topk, random)
    extra_lengths = _lengths(shape, shape.extra_topk, random) if shape.extra_topk else None
    read = _read(shape, shape.topk, lengths) + _read(shape, shape.extra_topk, extra_lengths)
    cold = protocol.regime == "cold"
    needed = protocol.cold_factor * l2_bytes if cold else 0.0
    usual = max(POOL_FACTOR * int(needed) // BYTES_PER_TOKEN, DISTINCT_TOKENS)

    def ring(side: str, page_size: int, width: int) -> Ring:
        per_call = shape.num_tokens * width
        least = cold_slots(per_call, read, needed)
        return Ring(pools.get(side, page_size, seed, least=least, wanted=max(usual, least)), (shape.num_tokens, width))

    main = ring("main", shape.page_size, shape.topk)
    extra = ring("extra", shape.extra_page_size, shape.extra_topk) if shape.extra_topk else None
    walks = [Walk(one.pool.slots, shape.num_tokens * one.per_call[1]) for one in (main, extra) if one is not None]
    between = bytes_between_uses(walks, read)
    if cold:
        require_cold(between, l2_bytes, protocol.cold_factor)
    query = torch.randn(shape.num_tokens, shape.num_heads, QUERY_DIM, generator=random, device="cuda")
    caches = Caches(
        main.pool.cache,
        None if extra is None else extra.pool.cache,
        lengths,
        extra_lengths,
        torch.randn(shape.num_heads, generator=random, device="cuda") if shape.sink else None,
    )
    return Inputs(query.bfloat16(), caches, main, extra, read * BYTES_PER_TOKEN, between)


def _lengths(shape: Shape, width: int, random: torch.Generator) -> Tensor | None:
    """Valid lengths between half and all of ``width``; the first token's is full."""
    if not shape.lengths:
        return None
    lengths = torch.randint(
        width // 2, width + 1, (shape.num_tokens,), generator=random, dtype=torch.int32, device="cuda"
    )
    lengths[:1] = width
    return lengths


def _read(shape: Shape, width: int, lengths: Tensor | None) -> int:
    """Slots that a call reads of one cache."""
    return shape.num_tokens * width if lengths is None else int(lengths.sum())
