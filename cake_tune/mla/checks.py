"""Every error of the contract about tensors, and the checked mode.

The checks read shapes, strides and pointers, never an element, so that a call costs the host a few microseconds and
nothing on a GPU; those of the tensors speak only where ``fits`` does not find a call right at a glance. Checked mode
is the exception: it reads the indices to refuse slots outside the cache.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from cake_tune.errors import ContractError
from cake_tune.mla.cache import HEAD_DIM, CachePages, parse_cache
from cake_tune.mla.call import AttentionCall, Sizes
from cake_tune.mla.fits import fits
from cake_tune.mla.memory import cache_span, check_aligned, check_apart, span
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


def sizes_of(q: Tensor, indices: Tensor, extra_indices: Tensor | None) -> Sizes:
    """The sizes of a call, and that these three have the shapes of it; ``ContractError`` where one has not."""
    if not isinstance(q, Tensor) or len(shape := q.shape) != 3:
        raise ContractError(f"q: expected a tensor of shape [num_tokens, num_heads, {HEAD_DIM}], got {describe(q)}")
    num_tokens, num_heads, dims = shape
    if num_heads not in HEAD_COUNTS:
        raise ContractError(f"q: expected one of {', '.join(map(str, HEAD_COUNTS))} heads (axis 1), got {num_heads}")
    if dims != HEAD_DIM:
        raise _unfit("q", q, torch.bfloat16, (num_tokens, num_heads, HEAD_DIM), q.device)
    topk = _width("indices", indices, num_tokens, q)
    extra_topk = 0 if extra_indices is None else _width("extra_indices", extra_indices, num_tokens, q)
    return num_tokens, num_heads, topk, extra_topk


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


def check_call(call: AttentionCall) -> None:
    """Check the tensors of ``call``, whose sizes are those of ``sizes_of`` and whose plan is resolved."""
    if not fits(call):
        _explain(call)
    if _checked.get():
        _slots_inside("indices", call.indices, call.topk_length, call.cache)
        if call.extra_cache is not None and call.extra_indices is not None:
            _slots_inside("extra_indices", call.extra_indices, call.extra_topk_length, call.extra_cache)


def _explain(call: AttentionCall) -> None:
    """The same checks argument by argument, for the name and the words of what is wrong."""
    tokens, heads, device = call.num_tokens, call.num_heads, call.q.device
    rows = (tokens, heads)
    _tensor("q", call.q, torch.bfloat16, (*rows, HEAD_DIM), device)
    _tensor("output", call.output, torch.bfloat16, (*rows, HEAD_DIM), device)
    _tensor("out_lse", call.out_lse, torch.float32, rows, device)
    _tensor("indices", call.indices, torch.int32, call.indices.shape, device)
    _cache("kv_cache", call.cache, device)
    if call.topk_length is not None:
        _vector("topk_length", call.topk_length, torch.int32, tokens, "num_tokens", device)
    if call.attn_sink is not None:
        _vector("attn_sink", call.attn_sink, torch.float32, heads, "num_heads", device)
    if call.extra_cache is not None and call.extra_indices is not None:
        _cache("extra_kv_cache", call.extra_cache, device)
        _tensor("extra_indices", call.extra_indices, torch.int32, call.extra_indices.shape, device)
        if call.extra_topk_length is not None:
            _vector("extra_topk_length", call.extra_topk_length, torch.int32, tokens, "num_tokens", device)
    if call.num_splits > 1 and tokens:
        _scratch(call, device)
    _memory(call)


def _tensor(name: str, tensor: object, dtype: torch.dtype, shape: tuple[int, ...], device: torch.device) -> None:
    if (
        isinstance(tensor, Tensor)
        and tensor.dtype is dtype
        and tensor.shape == shape
        and tensor.is_contiguous()
        and tensor.device == device
    ):
        return
    raise _unfit(name, tensor, dtype, shape, device)


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
        f"got {describe(tensor)}"
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
            f"got {describe(mid_out)}"
        )
    capacity = mid_out.shape[2]
    _tensor("mid_out", mid_out, torch.bfloat16, (tokens, heads, capacity, HEAD_DIM), device)
    assert mid_lse is not None
    _tensor("mid_lse", mid_lse, torch.float32, (tokens, heads, capacity), device)


def _memory(call: AttentionCall) -> None:
    """A cache counts with the padding between its pages."""
    written = {"output": span(call.output), "out_lse": span(call.out_lse)}
    if call.mid_out is not None and call.mid_lse is not None:
        written |= {"mid_out": span(call.mid_out), "mid_lse": span(call.mid_lse)}
    read = {"q": span(call.q), "indices": span(call.indices), "kv_cache": cache_span(call.cache)}
    if call.extra_cache is not None and call.extra_indices is not None:
        read |= {"extra_kv_cache": cache_span(call.extra_cache), "extra_indices": span(call.extra_indices)}
    for name in ("topk_length", "attn_sink", "extra_topk_length"):
        tensor = getattr(call, name)
        if tensor is not None:
            read[name] = span(tensor)
    for name, (start, _) in (written | read).items():
        if name in _VECTOR_LOADED:
            check_aligned(name, start)
    if call.num_tokens:
        check_apart(written, read)


def _width(name: str, indices: Tensor, num_tokens: int, q: Tensor) -> int:
    """Candidates per token of an index tensor."""
    shape = indices.shape if isinstance(indices, Tensor) else ()
    if len(shape) != 2 and (len(shape) != 3 or shape[1] != 1):
        kind = "topk" if name == "indices" else "extra_topk"
        raise ContractError(
            f"{name}: expected shape [num_tokens, {kind}] or [num_tokens, 1, {kind}], got {describe(indices)}"
        )
    width = shape[-1]
    if width < 1:
        raise ContractError(f"{name}: expected topk >= 1, got {width}")
    if shape[0] != num_tokens:
        raise _unfit(name, indices, torch.int32, (num_tokens, *shape[1:]), q.device)
    return width


def _unfit(
    name: str, tensor: object, dtype: torch.dtype, shape: tuple[int, ...], device: torch.device
) -> ContractError:
    return ContractError(f"{name}: expected contiguous {dtype} {list(shape)} on {device}, got {describe(tensor)}")


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


def describe(value: object) -> str:
    """What came, for an error: a tensor's contiguity, dtype, shape and device, or another object's type."""
    if not isinstance(value, Tensor):
        return type(value).__name__ if value is not None else "None"
    contiguity = "contiguous" if value.is_contiguous() else "non-contiguous"
    return f"{contiguity} {value.dtype} {list(value.shape)} on {value.device}"
