"""The public op: decode and prefill, checked, planned, and run on the tensors' device.

Both are also ``torch.library`` custom ops, ``cake_tune::sparse_mla_decode`` and ``cake_tune::sparse_mla_prefill``:
that is how ``torch.compile`` and tracing see them. A plain eager call skips the dispatcher and launches at once.
"""

import operator

import torch
from torch import Tensor

from cake_tune.mla.cache import parse_cache
from cake_tune.mla.call import AttentionCall, Sizes
from cake_tune.mla.checks import check_call, parse_extra, sizes_of
from cake_tune.mla.eager import runs_now
from cake_tune.mla.launch import launch
from cake_tune.mla.planning import plan_decode, plan_prefill
from cake_tune.mla.scalars import check_factor
from cake_tune.planner.shape import Plan, head_blocks


def cake_sparse_mla_sm120_dsv4_nvfp4_decode(
    q: Tensor,
    kv_cache: Tensor,
    indices: Tensor,
    output: Tensor,
    out_lse: Tensor,
    sm_scale: float,
    *,
    topk_length: Tensor | None = None,
    attn_sink: Tensor | None = None,
    extra_kv_cache: Tensor | None = None,
    extra_indices: Tensor | None = None,
    extra_topk_length: Tensor | None = None,
    mid_out: Tensor | None = None,
    mid_lse: Tensor | None = None,
    lse_scale: float = 1.0,
    num_splits: int | None = None,
    max_splits: int = 16,
    head_tiles: int | None = None,
) -> dict[str, int]:
    """Sparse MLA over an NVFP4 paged cache, the candidates split over blocks; writes ``output`` and ``out_lse``.

    - ``q``: ``[T, H, 512]`` BF16 (448 NoPE dims, then 64 RoPE dims), H in 8, 16, 32, 48, 64, 80, 96, 112, 128.
    - ``kv_cache``: uint8 cache view, ``[num_pages, page_size, 384]``, HND or NHD, pages possibly padded.
    - ``indices``: ``[T, topk]`` or ``[T, 1, topk]`` int32 slots, ``page * page_size + row``; negative ones are masked.
    - ``output``, ``out_lse``: ``[T, H, 512]`` BF16 and ``[T, H]`` float32 (base-2 log-sum-exp times ``lse_scale``).
    - ``sm_scale``: factor on the QK logits.
    - ``topk_length``: int32, at least T entries: valid prefix of each token's slots, clamped to ``[0, topk]``.
    - ``attn_sink``: float32, at least H entries, natural-log units: joins the softmax denominator once.
    - ``extra_kv_cache``, ``extra_indices``, ``extra_topk_length``: a second cache with its own page size, the first two
      both or neither; one softmax runs over both caches.
    - ``mid_out``, ``mid_lse``: scratch for a plan that splits, BF16 ``[T, H, >= num_splits, 512]`` and float32 of the
      same first three sizes.
    - ``lse_scale``: factor on finite LSEs. A row with no valid slot writes zeros and the sink's LSE; without a sink its
      LSE is -inf whatever ``lse_scale`` is, so that it is never NaN and always tells an empty row.
    - ``num_splits``, ``head_tiles``: blocks that share a token's chunks, and tiles of 16 heads per block (1, or 2 for
      H in 32, 64, 96, 128); None asks the planner table in force. ``max_splits`` bounds what the table may say, and is
      at least ``ceil(chunks / 16)`` in every call.

    Returns the plan that ran, ``{"head_tiles", "num_splits", "chunks_per_block"}``, with aliases of ``num_splits``
    resolved. T = 0 does nothing. Under ``torch.compile`` the plan is a constant of the program, so each T compiles its
    own.

    Raises ``ContractError`` (a ``ValueError``) naming the argument, what was expected and what came, and
    ``DeviceUnfitError`` on a GPU that the kernel does not run on. All tensors are contiguous and on one device, and
    what is written overlaps nothing else. Contract: ``flashinfer.mla``'s function of this name.
    """
    sizes = sizes_of(q, indices, extra_indices)
    if runs_now(q):
        plan = plan_decode(q.device, sizes, num_splits, max_splits, head_tiles)
        _run(
            plan, sizes, q, kv_cache, indices, output, out_lse, sm_scale, topk_length, attn_sink, extra_kv_cache,
            extra_indices, extra_topk_length, lse_scale, mid_out, mid_lse,
        )  # fmt: skip
    else:
        plan = _trace_decode_plan(q.device, _constant(sizes), num_splits, max_splits, head_tiles)
        torch.ops.cake_tune.sparse_mla_decode(
            q, kv_cache, indices, output, out_lse, check_factor("sm_scale", sm_scale), topk_length, attn_sink,
            extra_kv_cache, extra_indices, extra_topk_length, check_factor("lse_scale", lse_scale), mid_out, mid_lse,
            plan.num_splits, plan.head_tiles,
        )  # fmt: skip
    return {"head_tiles": plan.head_tiles, "num_splits": plan.num_splits, "chunks_per_block": plan.chunks_per_block}


def cake_sparse_mla_sm120_dsv4_nvfp4_prefill(
    q: Tensor,
    kv_cache: Tensor,
    indices: Tensor,
    output: Tensor,
    out_lse: Tensor,
    sm_scale: float,
    *,
    topk_length: Tensor | None = None,
    attn_sink: Tensor | None = None,
    extra_kv_cache: Tensor | None = None,
    extra_indices: Tensor | None = None,
    extra_topk_length: Tensor | None = None,
    lse_scale: float = 1.0,
    head_tiles: int | None = None,
) -> dict[str, int]:
    """Sparse MLA in one launch without scratch: one block runs all chunks of a (token, head block).

    The arguments, their checks and what is written are those of ``cake_sparse_mla_sm120_dsv4_nvfp4_decode``. H is 16 to
    128 in steps of 16, a token has at most 16 chunks of 64 candidates, and ``head_tiles`` is 1, 2 for H in 32, 64, 96,
    128, or 4 for H in 64, 128; None asks the planner table in force.

    Returns the plan that ran: ``{"head_tiles", "num_ctas"}``, with one block per (token, head block).
    """
    sizes = sizes_of(q, indices, extra_indices)
    if runs_now(q):
        plan = plan_prefill(q.device, sizes, head_tiles)
        _run(
            plan, sizes, q, kv_cache, indices, output, out_lse, sm_scale, topk_length, attn_sink, extra_kv_cache,
            extra_indices, extra_topk_length, lse_scale, None, None,
        )  # fmt: skip
    else:
        sizes = _constant(sizes)
        plan = _trace_prefill_plan(q.device, sizes, head_tiles)
        torch.ops.cake_tune.sparse_mla_prefill(
            q, kv_cache, indices, output, out_lse, check_factor("sm_scale", sm_scale), topk_length, attn_sink,
            extra_kv_cache, extra_indices, extra_topk_length, check_factor("lse_scale", lse_scale), plan.head_tiles,
        )  # fmt: skip
    return {"head_tiles": plan.head_tiles, "num_ctas": sizes[0] * head_blocks(sizes[1], plan.head_tiles)}


def _run(
    plan: Plan,
    sizes: Sizes,
    q: Tensor,
    kv_cache: Tensor,
    indices: Tensor,
    output: Tensor,
    out_lse: Tensor,
    sm_scale: float,
    topk_length: Tensor | None,
    attn_sink: Tensor | None,
    extra_kv_cache: Tensor | None,
    extra_indices: Tensor | None,
    extra_topk_length: Tensor | None,
    lse_scale: float,
    mid_out: Tensor | None,
    mid_lse: Tensor | None,
) -> None:
    """Check and launch a call whose shape is checked and whose plan is made."""
    num_tokens, num_heads, topk, extra_topk = sizes
    num_splits = plan.num_splits
    if num_splits == 1:
        mid_out = mid_lse = None
    cache = parse_cache("kv_cache", kv_cache)
    extra_cache = parse_extra(extra_kv_cache, extra_indices, extra_topk_length)
    sm_scale, lse_scale = check_factor("sm_scale", sm_scale), check_factor("lse_scale", lse_scale)
    call = AttentionCall(
        plan.kernel, q, cache, indices, output, out_lse, sm_scale, lse_scale, topk_length, attn_sink, extra_cache,
        extra_indices, extra_topk_length, mid_out, mid_lse, num_tokens, num_heads, topk, extra_topk, plan.head_tiles,
        num_splits, plan.chunks_per_block,
    )  # fmt: skip
    check_call(call)
    launch(call)


def _constant(sizes: Sizes) -> Sizes:
    """The sizes as constants of the traced program: ``operator.index`` makes tracing specialise on them."""
    num_tokens, num_heads, topk, extra_topk = sizes
    return operator.index(num_tokens), operator.index(num_heads), operator.index(topk), operator.index(extra_topk)


# What torch.compiler.assume_constant_result does, without the import of all of Dynamo that it costs: seconds, in every
# process that uses the op and in every worker of a sweep.
_trace_decode_plan, _trace_prefill_plan = plan_decode, plan_prefill
for _planning in (plan_decode, plan_prefill):
    _planning._dynamo_marked_constant = True  # type: ignore[union-attr]


@torch.library.custom_op("cake_tune::sparse_mla_decode", mutates_args=("output", "out_lse", "mid_out", "mid_lse"))
def _decode_op(
    q: Tensor,
    kv_cache: Tensor,
    indices: Tensor,
    output: Tensor,
    out_lse: Tensor,
    sm_scale: float,
    topk_length: Tensor | None,
    attn_sink: Tensor | None,
    extra_kv_cache: Tensor | None,
    extra_indices: Tensor | None,
    extra_topk_length: Tensor | None,
    lse_scale: float,
    mid_out: Tensor | None,
    mid_lse: Tensor | None,
    num_splits: int,
    head_tiles: int,
) -> None:
    sizes = sizes_of(q, indices, extra_indices)
    _run(
        plan_decode(q.device, sizes, num_splits, num_splits, head_tiles), sizes, q, kv_cache, indices, output, out_lse,
        sm_scale, topk_length, attn_sink, extra_kv_cache, extra_indices, extra_topk_length, lse_scale, mid_out, mid_lse,
    )  # fmt: skip


@torch.library.custom_op("cake_tune::sparse_mla_prefill", mutates_args=("output", "out_lse"))
def _prefill_op(
    q: Tensor,
    kv_cache: Tensor,
    indices: Tensor,
    output: Tensor,
    out_lse: Tensor,
    sm_scale: float,
    topk_length: Tensor | None,
    attn_sink: Tensor | None,
    extra_kv_cache: Tensor | None,
    extra_indices: Tensor | None,
    extra_topk_length: Tensor | None,
    lse_scale: float,
    head_tiles: int,
) -> None:
    sizes = sizes_of(q, indices, extra_indices)
    _run(
        plan_prefill(q.device, sizes, head_tiles), sizes, q, kv_cache, indices, output, out_lse, sm_scale, topk_length,
        attn_sink, extra_kv_cache, extra_indices, extra_topk_length, lse_scale, None, None,
    )  # fmt: skip


def _fake(*arguments: object) -> None:
    """Both ops only write to their arguments."""


_decode_op.register_fake(_fake)
_prefill_op.register_fake(_fake)
