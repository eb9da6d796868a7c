"""Every error of the contract, and the checked mode.

The checks read shapes, strides and pointers, never an element, so that a call costs the host a few microseconds and
nothing on a GPU. Checked mode is the exception: it reads the indices to refuse slots outside the cache.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from cake_tune.errors import ContractError
from cake_tune.mla.cache import ALIGNMENT, HEAD_DIM, CachePages, parse_cache
from cake_tune.mla.call import AttentionCall, Sizes
from cake_tune.planner.shape import HEAD_COUNTS

_checked: ContextVar[bool] = ContextVar("cake_tune_checked", default=os.environ.get("CAKE_TUNE_CHECKED") == "1")

_VECTOR_LOADED = frozenset(("q", "output", "mid_out", "kv_cache", "extra_kv_cache"))


@contextmanager
def checked_slots(enabled: bool = True) -> Iterator[None]:
    """Calls inside refuse slots at or above ``num_pages * page_size`` (``ContractError``), which means reading them.

    ``CAKE_TUNE_CHECKED=1`` in the environment turns this on for the process. On a GPU it synchronises, so it cannot be
    used while a CUDA graph is captured.
    """
    token = _checked.set(enabled)
    try:
        yield
    finally:
        _checked.reset(token)


def check_call(call: AttentionCall) -> None:
    """Check the tensors of ``call`` whose scalars were read by ``sizes_of`` and whose plan is resolved."""
    tokens, heads, device = call.num_tokens, call.num_heads, call.q.device
    rows = (tokens, heads)
    _tensor("q", call.q, torch.bfloat16, (*rows, HEAD_DIM), device)
    _tensor("output", call.output, torch.bfloat16, (*rows, HEAD_DIM), device)
    _tensor("out_lse", call.out_lse, torch.float32, rows, device)
    _indices("indices", call.indices, tokens, device)
    _cache("kv_cache", call.cache, device)
    if call.topk_length is not None:
        _vector("topk_length", call.topk_length, torch.int32, tokens, "num_tokens", device)
    if call.attn_sink is not None:
        _vector("attn_sink", call.attn_sink, torch.float32, heads, "num_heads", device)
    if call.extra_cache is not None and call.extra_indices is not None:
        _cache("extra_kv_cache", call.extra_cache, device)
        _indices("extra_indices", call.extra_indices, tokens, device)
        if call.extra_topk_length is not None:
            _vector("extra_topk_length", call.extra_topk_length, torch.int32, tokens, "num_tokens", device)
    if call.num_splits > 1 and tokens:
        _scratch(call, device)
    _memory(call)
    if _checked.get():
        _slots_inside("indices", call.indices, call.topk_length, call.cache)
        if call.extra_cache is not None and call.extra_indices is not None:
            _slots_inside("extra_indices", call.extra_indices, call.extra_topk_length, call.extra_cache)


def sizes_of(q: Tensor, indices: Tensor, extra_indices: Tensor | None) -> Sizes:
    """The sizes of the arguments; ``ContractError`` where a rank or a count is wrong."""
    if not isinstance(q, Tensor) or q.dim() != 3:
        raise ContractError(f"q: expected a tensor of shape [num_tokens, num_heads, {HEAD_DIM}], got {_describe(q)}")
    num_tokens, num_heads, _ = q.shape
    if num_heads not in HEAD_COUNTS:
        raise ContractError(f"q: expected one of {', '.join(map(str, HEAD_COUNTS))} heads (axis 1), got {num_heads}")
    extra_topk = 0 if extra_indices is None else _width("extra_indices", extra_indices)
    return num_tokens, num_heads, _width("indices", indices), extra_topk


def parse_extra(
    extra_kv_cache: Tensor | None, extra_indices: Tensor | None, extra_topk_length: Tensor | None
) -> CachePages | None:
    """The second cache, or None; ``ContractError`` where only a part of it is given."""
    if extra_kv_cache is None and extra_indices is None:
        if extra_topk_length is not None:
            raise ContractError("extra_topk_length: expected None without extra_kv_cache, got a tensor")
        return None
    if extra_kv_cache is None or extra_indices is None:
        given, missing = "extra_kv_cache", "extra_indices"
        if extra_kv_cache is None:
            given, missing = missing, given
        raise ContractError(f"{missing}: expected a tensor beside {given} (both or neither), got None")
    return parse_cache("extra_kv_cache", extra_kv_cache)


def check_factor(name: str, value: float) -> float:
    """``value`` as a float; ``ContractError`` where it is no real number."""
    if not isinstance(value, (float, int)):
        raise ContractError(f"{name}: expected a float, got {type(value).__name__}")
    return float(value)


def _width(name: str, indices: Tensor) -> int:
    """Candidates per token of an index tensor."""
    if not isinstance(indices, Tensor) or not (indices.dim() == 2 or (indices.dim() == 3 and indices.shape[1] == 1)):
        kind = "topk" if name == "indices" else "extra_topk"
        raise ContractError(
            f"{name}: expected shape [num_tokens, {kind}] or [num_tokens, 1, {kind}], got {_describe(indices)}"
        )
    width = indices.shape[-1]
    if width < 1:
        raise ContractError(f"{name}: expected topk >= 1, got {width}")
    return width


def _tensor(name: str, tensor: Tensor, dtype: torch.dtype, shape: tuple[int, ...], device: torch.device) -> None:
    if (
        isinstance(tensor, Tensor)
        and tensor.dtype is dtype
        and tensor.shape == shape
        and tensor.is_contiguous()
        and tensor.device == device
    ):
        return
    raise ContractError(f"{name}: expected contiguous {dtype} {list(shape)} on {device}, got {_describe(tensor)}")


def _indices(name: str, indices: Tensor, num_tokens: int, device: torch.device) -> None:
    shape = (num_tokens, indices.shape[-1]) if indices.dim() == 2 else (num_tokens, 1, indices.shape[-1])
    _tensor(name, indices, torch.int32, shape, device)


def _vector(name: str, tensor: Tensor, dtype: torch.dtype, least: int, count: str, device: torch.device) -> None:
    if (
        isinstance(tensor, Tensor)
        and tensor.dtype is dtype
        and tensor.dim() == 1
        and tensor.shape[0] >= least
        and tensor.is_contiguous()
        and tensor.device == device
    ):
        return
    raise ContractError(
        f"{name}: expected contiguous 1-D {dtype} of at least {count} = {least} entries on {device}, "
        f"got {_describe(tensor)}"
    )


def _cache(name: str, pages: CachePages, device: torch.device) -> None:
    if pages.tensor.device != device:
        raise ContractError(f"{name}: expected device {device} (q's), got {pages.tensor.device}")


def _scratch(call: AttentionCall, device: torch.device) -> None:
    tokens, heads, splits = call.num_tokens, call.num_heads, call.num_splits
    for name, tensor in (("mid_out", call.mid_out), ("mid_lse", call.mid_lse)):
        if tensor is None:
            raise ContractError(f"{name}: expected scratch for a plan of {splits} splits, got None")
    mid_out, mid_lse = call.mid_out, call.mid_lse
    if not isinstance(mid_out, Tensor) or mid_out.dim() != 4 or mid_out.shape[2] < splits:
        raise ContractError(
            f"mid_out: expected shape [{tokens}, {heads}, >= {splits}, {HEAD_DIM}] for a plan of {splits} splits, "
            f"got {_describe(mid_out)}"
        )
    capacity = mid_out.shape[2]
    _tensor("mid_out", mid_out, torch.bfloat16, (tokens, heads, capacity, HEAD_DIM), device)
    assert mid_lse is not None
    _tensor("mid_lse", mid_lse, torch.float32, (tokens, heads, capacity), device)


def _memory(call: AttentionCall) -> None:
    """Pointers of vector loads are aligned, and nothing written shares memory with anything else of the call.

    A cache counts with the padding between its pages.
    """
    written = [_span("output", call.output), _span("out_lse", call.out_lse)]
    if call.num_splits > 1 and call.mid_out is not None and call.mid_lse is not None:
        written += (_span("mid_out", call.mid_out), _span("mid_lse", call.mid_lse))
    read = [_span("q", call.q), _span("indices", call.indices), _cache_span("kv_cache", call.cache)]
    if call.extra_cache is not None and call.extra_indices is not None:
        read += (_cache_span("extra_kv_cache", call.extra_cache), _span("extra_indices", call.extra_indices))
        if call.extra_topk_length is not None:
            read.append(_span("extra_topk_length", call.extra_topk_length))
    if call.topk_length is not None:
        read.append(_span("topk_length", call.topk_length))
    if call.attn_sink is not None:
        read.append(_span("attn_sink", call.attn_sink))
    for start, _, name in (*written, *read):
        if start % ALIGNMENT and name in _VECTOR_LOADED:
            raise ContractError(f"{name}: expected a {ALIGNMENT}-byte aligned data pointer, got {start:#x}")
    while written:
        start, end, name = written.pop()
        for other_start, other_end, other in (*written, *read):
            if start < other_end and other_start < end:
                raise ContractError(f"{name}: expected memory of its own, got memory that overlaps {other}")


def _span(name: str, tensor: Tensor) -> tuple[int, int, str]:
    start = tensor.data_ptr()
    return start, start + tensor.nbytes, name


def _cache_span(name: str, pages: CachePages) -> tuple[int, int, str]:
    start = pages.tensor.data_ptr()
    return start, start + pages.span_bytes, name


def _slots_inside(name: str, indices: Tensor, lengths: Tensor | None, pages: CachePages) -> None:
    rows = indices.flatten(1) if indices.shape[0] else indices.new_empty((0, 1))
    outside = rows >= pages.num_slots
    if lengths is not None:
        position = torch.arange(rows.shape[1], device=rows.device)
        outside &= position < lengths[: rows.shape[0], None]
    if bool(outside.any()):
        raise slot_outside(name, int(rows[outside].max()), pages)


def slot_outside(name: str, slot: int, pages: CachePages) -> ContractError:
    """The error for a slot that no page holds."""
    return ContractError(
        f"{name}: expected slots below num_pages * page_size = {pages.num_pages} * {pages.page_size} "
        f"= {pages.num_slots}, got {slot}"
    )


def _describe(value: object) -> str:
    if not isinstance(value, Tensor):
        return type(value).__name__ if value is not None else "None"
    contiguity = "contiguous" if value.is_contiguous() else "non-contiguous"
    return f"{contiguity} {value.dtype} {list(value.shape)} on {value.device}"
