"""The validated, resolved call: what the CPU grid runs and what the CUDA launch is written from."""

from typing import NamedTuple

from torch import Tensor

from cake_tune.mla.cache import CachePages
from cake_tune.planner.shape import HEADS_PER_TILE, Kernel, head_blocks

Sizes = tuple[int, int, int, int]
"""num_tokens, num_heads, topk, extra_topk: what the planners decide from."""


class AttentionCall(NamedTuple):
    """One call of decode or prefill, checked against the contract and planned: needs no further check.

    Every tensor is on one device, contiguous (caches: see ``CachePages``) and disjoint from what is written.
    ``indices`` and ``extra_indices`` keep the caller's rank, ``[T, topk]`` or ``[T, 1, topk]``: rows are ``topk``
    elements apart either way. T may be 0, which launches nothing.
    """

    kernel: Kernel
    q: Tensor
    """[T, H, 512] BF16, 16-byte aligned."""
    cache: CachePages
    """Main cache: tensor (base pointer), num_pages, page_size in tokens, page_stride in bytes."""
    indices: Tensor
    """int32; negative slots are masked."""
    output: Tensor
    """[T, H, 512] BF16, 16-byte aligned; every element is written."""
    out_lse: Tensor
    """[T, H] float32; base-2 LSE times ``lse_scale``, infinite values unscaled."""
    sm_scale: float
    lse_scale: float
    topk_length: Tensor | None
    """int32 [>= T] or None: valid prefix per token, to be clamped to [0, topk]."""
    attn_sink: Tensor | None
    """float32 [>= H] or None, in natural-log units."""
    extra_cache: CachePages | None
    """Second cache with its own page size and stride; None exactly when ``extra_indices`` is None."""
    extra_indices: Tensor | None
    extra_topk_length: Tensor | None
    mid_out: Tensor | None
    """[T, H, capacity, 512] BF16, 16-byte aligned, capacity >= num_splits; None unless the plan splits."""
    mid_lse: Tensor | None
    """[T, H, capacity] float32; None unless the plan splits."""
    num_tokens: int
    num_heads: int
    topk: int
    extra_topk: int
    """0 without a second cache."""
    head_tiles: int
    num_splits: int
    """1 for prefill."""
    chunks_per_block: int

    @property
    def head_blocks(self) -> int:
        """Blocks over the heads of one token."""
        return head_blocks(self.num_heads, self.head_tiles)

    def heads_of(self, head_block: int) -> slice:
        """The heads of a head block."""
        first = head_block * HEADS_PER_TILE * self.head_tiles
        return slice(first, min(first + HEADS_PER_TILE * self.head_tiles, self.num_heads))

    @property
    def split_capacity(self) -> int:
        """Splits that the scratch has room for: the stride of its split axis."""
        return self.num_splits if self.mid_out is None else self.mid_out.shape[2]
