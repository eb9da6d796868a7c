"""The kernels' one by-value argument, ``AttentionArgs`` of kernels/ABI.md, packed from a checked call."""

import math
import struct
from ctypes import Array, c_char
from functools import lru_cache
from typing import TYPE_CHECKING

from cake_tune.planner.shape import num_chunks

if TYPE_CHECKING:
    from torch import Tensor

    from cake_tune.mla.cache import CachePages
    from cake_tune.mla.call import AttentionCall

ARGUMENTS = struct.Struct("<6Q 3Q2q2i2I 3Q2q2i2I 6i2f")
"""Query and outputs, main cache, extra cache, then the scalars."""

NUM_SPLITS, NUM_SPLITS_OFFSET = struct.Struct("<i"), 176
"""The one scalar that a merge of pairs has another value of."""

_LOG2_E = 1 / math.log(2)
_NO_CACHE = (0,) * 9


def pack_arguments(buffer: "Array[c_char]", call: "AttentionCall") -> None:
    """Write the ``AttentionArgs`` of ``call`` into ``buffer``."""
    mid_out, mid_lse, sink = call.mid_out, call.mid_lse, call.attn_sink
    extra: tuple[int, ...] = _NO_CACHE
    if call.extra_cache is not None and call.extra_indices is not None:
        extra = _cache(call.extra_cache, call.extra_indices, call.extra_topk_length, call.extra_topk)
    ARGUMENTS.pack_into(
        buffer,
        0,
        call.q.data_ptr(),
        call.output.data_ptr(),
        call.out_lse.data_ptr(),
        0 if mid_out is None else mid_out.data_ptr(),
        0 if mid_lse is None else mid_lse.data_ptr(),
        0 if sink is None else sink.data_ptr(),
        *_cache(call.cache, call.indices, call.topk_length, call.topk),
        *extra,
        call.num_tokens,
        call.num_heads,
        num_chunks(call.topk, call.extra_topk),
        call.chunks_per_block,
        call.num_splits,
        call.split_capacity,
        call.sm_scale * _LOG2_E,
        call.lse_scale,
    )


@lru_cache(maxsize=256)
def page_divider(page_size: int) -> tuple[int, int]:
    """(magic, shift) with ``slot // page_size == (2 * slot * magic >> 32) >> shift`` for every slot below 2^31."""
    shift = (page_size - 1).bit_length()
    return -(-(1 << (31 + shift)) // page_size), shift


def _cache(pages: "CachePages", indices: "Tensor", lengths: "Tensor | None", width: int) -> tuple[int, ...]:
    magic, shift = page_divider(pages.page_size)
    return (
        pages.tensor.data_ptr(),
        indices.data_ptr(),
        0 if lengths is None else lengths.data_ptr(),
        pages.page_stride,
        width,
        width,
        pages.page_size,
        magic,
        shift,
    )
