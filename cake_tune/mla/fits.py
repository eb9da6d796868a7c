"""The checks of a call without words: one pass over its tensors for the calls that are right, which most are.

Asking a tensor for a fact takes the host a twentieth of a microsecond and more, and calling a function to ask takes as
long again. So this asks for what the contract needs, once, in line; names and messages are those of ``checks``.
"""

import torch
from torch import Tensor

from cake_tune.mla.cache import ALIGNMENT, HEAD_DIM
from cake_tune.mla.call import AttentionCall
from cake_tune.mla.memory import are_apart

BF16, F32, I32 = torch.bfloat16, torch.float32, torch.int32


def fits(call: AttentionCall) -> bool:
    """True if ``call`` meets the contract beyond doubt; False leaves the verdict to the checks that explain theirs.

    Its sizes are those of ``sizes_of`` and its plan is resolved. Reads no element.
    """
    (
        _, q, cache, indices, output, out_lse, _, _, topk_length, attn_sink, extra_cache, extra_indices,
        extra_topk_length, mid_out, mid_lse, tokens, heads, topk, extra_topk, _, num_splits, _,
    ) = call  # fmt: skip
    device, pool = q.device, cache.tensor
    if not (
        (rows := tokens * heads)
        and q.dtype is BF16
        and q.is_contiguous()
        and type(output) is Tensor
        and output.dtype is BF16
        and output.shape == (tokens, heads, HEAD_DIM)
        and output.is_contiguous()
        and output.device == device
        and type(out_lse) is Tensor
        and out_lse.dtype is F32
        and out_lse.shape == (tokens, heads)
        and out_lse.is_contiguous()
        and out_lse.device == device
        and indices.dtype is I32
        and indices.is_contiguous()
        and indices.device == device
        and pool.device == device
    ):
        return False
    q_at, output_at, lse_at = q.data_ptr(), output.data_ptr(), out_lse.data_ptr()
    pool_at, indices_at = pool.data_ptr(), indices.data_ptr()
    output_end, lse_end = output_at + 2 * HEAD_DIM * rows, lse_at + 4 * rows
    aligned = q_at | output_at | pool_at
    written = [(output_at, output_end), (lse_at, lse_end)]
    starts = [q_at, output_at, lse_at, pool_at, indices_at]
    stops = [
        q_at + 2 * HEAD_DIM * rows,
        output_end,
        lse_end,
        pool_at + cache.span_bytes,
        indices_at + 4 * tokens * topk,
    ]

    if num_splits > 1:
        if not (
            type(mid_out) is Tensor
            and mid_out.dtype is BF16
            and len(shape := mid_out.shape) == 4
            and (capacity := shape[2]) >= num_splits
            and shape == (tokens, heads, capacity, HEAD_DIM)
            and mid_out.is_contiguous()
            and mid_out.device == device
            and type(mid_lse) is Tensor
            and mid_lse.dtype is F32
            and mid_lse.shape == (tokens, heads, capacity)
            and mid_lse.is_contiguous()
            and mid_lse.device == device
        ):
            return False
        out_at, lse_at = mid_out.data_ptr(), mid_lse.data_ptr()
        out_end, lse_end = out_at + 2 * HEAD_DIM * rows * capacity, lse_at + 4 * rows * capacity
        aligned |= out_at
        written += ((out_at, out_end), (lse_at, lse_end))
        starts += (out_at, lse_at)
        stops += (out_end, lse_end)

    if extra_cache is not None and extra_indices is not None:
        pool = extra_cache.tensor
        if not (
            pool.device == device
            and extra_indices.dtype is I32
            and extra_indices.is_contiguous()
            and extra_indices.device == device
        ):
            return False
        pool_at, indices_at = pool.data_ptr(), extra_indices.data_ptr()
        aligned |= pool_at
        starts += (pool_at, indices_at)
        stops += (pool_at + extra_cache.span_bytes, indices_at + 4 * tokens * extra_topk)

    for tensor, dtype, least in ((topk_length, I32, tokens), (attn_sink, F32, heads), (extra_topk_length, I32, tokens)):
        if tensor is not None:
            if not (
                type(tensor) is Tensor
                and tensor.dtype is dtype
                and len(shape := tensor.shape) == 1
                and (entries := shape[0]) >= least
                and tensor.is_contiguous()
                and tensor.device == device
            ):
                return False
            at = tensor.data_ptr()
            starts.append(at)
            stops.append(at + 4 * entries)

    return aligned % ALIGNMENT == 0 and are_apart(starts, stops, written)
