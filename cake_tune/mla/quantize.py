"""Writing the NVFP4 latent cache (pack whole pages, append single rows) and reading it back (dequantize).

Vectorised torch that runs on any device. Rounding is to nearest even in both formats: per group of 16 dims the scale
is ``E4M3(amax / 6)``, saturated to 448, and the codes are ``E2M1(x / scale)``, saturated to 6; a scale of 0 gives zero
codes.
"""

import math
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor

from cake_tune.errors import ContractError
from cake_tune.mla.cache import (
    CODE_BYTES,
    GROUP,
    HEAD_DIM,
    NOPE_DIM,
    RECORD_BYTES,
    SCALE_BYTES,
    SCALES,
    CachePages,
    parse_cache,
)
from cake_tune.mla.checks import describe
from cake_tune.mla.eager import runs_now
from cake_tune.mla.memory import cache_span, check_aligned, check_apart, span

E4M3_MAX = 448.0
E2M1_MAX = 6.0
E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
"""Magnitudes of the eight E2M1 codes; bit 3 is the sign."""


def nvfp4_quantize_pack_sparse_mla_cache(latent_kv: Tensor, *, kv_layout: Literal["HND", "NHD"] = "HND") -> Tensor:
    """Quantise whole pages of latents into a new cache.

    ``latent_kv`` is contiguous BF16 ``[num_pages, page_size, 512]``, or with a head axis of 1 in HND or NHD position.
    Returns uint8 ``[num_pages, 1, page_size, 384]`` (HND) or ``[num_pages, page_size, 1, 384]`` (NHD) on the same
    device. Raises ``ContractError`` on other input. Same behaviour as ``flashinfer.mla``'s function of this name.
    """
    if kv_layout not in ("HND", "NHD"):
        raise ContractError(f"kv_layout: expected 'HND' or 'NHD', got {kv_layout!r}")
    num_pages, page_size = _latent_pages(latent_kv)
    pack = _pack if runs_now(latent_kv) else torch.ops.cake_tune.nvfp4_pack_sparse_mla_cache
    cache: Tensor = pack(latent_kv.view(num_pages, page_size, HEAD_DIM))
    return cache.unsqueeze(1 if kv_layout == "HND" else 2)


def nvfp4_quantize_append_sparse_mla_cache(latent_kv: Tensor, slot_mapping: Tensor, cache: Tensor) -> None:
    """Quantise rows of latents into the slots of ``cache``, in place.

    ``latent_kv`` is contiguous BF16 ``[rows, 512]`` and ``slot_mapping`` 1-D int32 or int64 with one slot,
    ``page * page_size + row``, per row. Negative and out-of-range slots are padding and are ignored; where a slot
    repeats the lowest row wins. ``cache`` is any cache view; only the addressed rows change. On a GPU the call
    synchronises. Raises ``ContractError`` on other input, a misaligned cache, or one that shares memory with the rest.
    Same behaviour as ``flashinfer.mla``'s function of this name.
    """
    pages = _check_append(latent_kv, slot_mapping, cache)
    if runs_now(latent_kv) and runs_now(cache):
        _append(latent_kv, slot_mapping, pages)
    else:
        torch.ops.cake_tune.nvfp4_append_sparse_mla_cache(latent_kv, slot_mapping, cache)


def dequantize_sparse_mla_cache(cache: Tensor) -> Tensor:
    """The latents of a whole cache: BF16 ``[num_pages, page_size, 512]``, exact (E2M1 times E4M3 fits BF16).

    ``cache`` is any cache view; raises ``ContractError`` on one that the op would refuse.
    """
    pages = parse_cache("cache", cache)
    if runs_now(cache):
        check_aligned("cache", cache.data_ptr())
    data, scales = pages.data_rows(), pages.scale_rows()[..., :SCALES].contiguous()
    codes = data[..., :CODE_BYTES]
    nibbles = torch.stack((codes & 15, codes >> 4), dim=-1).flatten(-2)
    values = torch.tensor((*E2M1_VALUES, *(-v for v in E2M1_VALUES)), device=cache.device)
    groups = values[nibbles.int()].view(*scales.shape, GROUP)
    nope = groups * scales.view(torch.float8_e4m3fn).float().unsqueeze(-1)
    # A copy even of a single row: a view may start where no BF16 number can.
    rope = data[..., CODE_BYTES:].clone(memory_format=torch.contiguous_format).view(torch.bfloat16)
    return torch.cat((nope.flatten(-2).bfloat16(), rope), dim=-1)


def quantize_rows(latents: Tensor) -> tuple[Tensor, Tensor]:
    """Data rows ``[..., 352]`` and scale rows ``[..., 32]``, both uint8, of BF16 latents ``[..., 512]``."""
    groups = latents[..., :NOPE_DIM].float().reshape(*latents.shape[:-1], SCALES, GROUP)
    scales = (groups.abs().amax(-1) / E2M1_MAX).clamp(max=E4M3_MAX).to(torch.float8_e4m3fn)
    divisor = scales.float().unsqueeze(-1)
    codes = torch.where(divisor == 0, 0, encode_e2m1(groups / divisor)).flatten(-2)
    packed = codes[..., 0::2] | codes[..., 1::2] << 4
    rope = latents[..., NOPE_DIM:].contiguous().view(torch.uint8)
    padding = scales.new_zeros((*scales.shape[:-1], SCALE_BYTES - SCALES), dtype=torch.uint8)
    return torch.cat((packed, rope), dim=-1), torch.cat((scales.view(torch.uint8), padding), dim=-1)


def encode_e2m1(values: Tensor) -> Tensor:
    """E2M1 codes (uint8, 0 to 15) of float32 ``values``: nearest, ties to the even code, saturated."""
    magnitude = values.abs()
    code = torch.zeros_like(values, dtype=torch.uint8)
    for step, (low, high) in enumerate(pairwise(E2M1_VALUES)):
        middle = (low + high) / 2
        # A tie goes to the even code: up from an odd step, down from an even one.
        code += magnitude >= middle if step % 2 else magnitude > middle
    return code | torch.signbit(values).to(torch.uint8) << 3


@torch.no_grad()
def _pack(latents: Tensor) -> Tensor:
    num_pages, page_size, _ = latents.shape
    cache = latents.new_empty((num_pages, page_size, RECORD_BYTES), dtype=torch.uint8)
    pages = parse_cache("cache", cache)
    data, scales = quantize_rows(latents)
    pages.data_rows().copy_(data)
    pages.scale_rows().copy_(scales)
    return cache


def _append(latents: Tensor, slots: Tensor, pages: CachePages) -> None:
    place = cache_span(pages)
    check_aligned("cache", place[0])
    check_apart({"cache": place}, {"latent_kv": span(latents), "slot_mapping": span(slots)})
    with torch.inference_mode():  # where a cache made in one may be written too
        rows, slots = _winners(slots.long(), pages)
        data, scales = quantize_rows(latents[rows])
        page, row = slots // pages.page_size, slots % pages.page_size
        pages.data_rows()[page, row] = data
        pages.scale_rows()[page, row] = scales


# The way of the dispatcher, for tracing; a plain call does not go through it. With its first op torch imports all of
# Dynamo: a second and more, in every process that writes a cache and in every worker of a sweep.
@torch.library.custom_op("cake_tune::nvfp4_pack_sparse_mla_cache", mutates_args=())
def _pack_op(latents: Tensor) -> Tensor:
    return _pack(latents)


@_pack_op.register_fake
def _(latents: Tensor) -> Tensor:
    return latents.new_empty((*latents.shape[:2], RECORD_BYTES), dtype=torch.uint8)


@torch.library.custom_op("cake_tune::nvfp4_append_sparse_mla_cache", mutates_args=("cache",))
def _append_op(latents: Tensor, slots: Tensor, cache: Tensor) -> None:
    _append(latents, slots, _check_append(latents, slots, cache))


@_append_op.register_fake
def _(latents: Tensor, slots: Tensor, cache: Tensor) -> None:
    return None


def _winners(slots: Tensor, pages: CachePages) -> tuple[Tensor, Tensor]:
    """Rows to write and their slots: padding dropped, and of the rows of one slot only the lowest kept."""
    rows = torch.nonzero((slots >= 0) & (slots < pages.num_slots)).squeeze(1)
    ordered, order = torch.sort(slots[rows], stable=True)
    first = torch.ones_like(ordered, dtype=torch.bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return rows[order[first]], ordered[first]


def _check_append(latent_kv: Tensor, slot_mapping: Tensor, cache: Tensor) -> CachePages:
    """The pages of ``cache``; ``ContractError`` where anything but memory is wrong."""
    _check_latent(latent_kv, "[rows, 512]", (2,))
    rows, device = latent_kv.shape[0], latent_kv.device
    if (
        not isinstance(slot_mapping, Tensor)
        or slot_mapping.dtype not in (torch.int32, torch.int64)
        or slot_mapping.shape != (rows,)
    ):
        raise ContractError(f"slot_mapping: expected int32 or int64 of shape [{rows}], got {describe(slot_mapping)}")
    pages = parse_cache("cache", cache)
    for name, tensor in (("slot_mapping", slot_mapping), ("cache", cache)):
        if tensor.device != device:
            raise ContractError(f"{name}: expected device {device} (latent_kv's), got {tensor.device}")
    return pages


def _latent_pages(latent_kv: Tensor) -> tuple[int, int]:
    expected = "[num_pages, page_size, 512] (a head axis of 1 is allowed)"
    _check_latent(latent_kv, expected, (3, 4))
    num_pages, *tokens, _ = latent_kv.shape
    page_size = math.prod(tokens)
    if len(tokens) == 2 and 1 not in tokens:
        raise ContractError(f"latent_kv: expected shape {expected}, got {list(latent_kv.shape)}")
    if page_size < 1:
        raise ContractError(f"latent_kv: expected at least one token per page, got shape {list(latent_kv.shape)}")
    return num_pages, page_size


def _check_latent(latent_kv: Tensor, expected: str, ranks: tuple[int, ...]) -> None:
    if not isinstance(latent_kv, Tensor):
        raise ContractError(f"latent_kv: expected a tensor of shape {expected}, got {describe(latent_kv)}")
    if latent_kv.dim() not in ranks or latent_kv.shape[-1] != HEAD_DIM:
        raise ContractError(f"latent_kv: expected shape {expected}, got {list(latent_kv.shape)}")
    if latent_kv.dtype is not torch.bfloat16 or not latent_kv.is_contiguous():
        raise ContractError(f"latent_kv: expected contiguous torch.bfloat16, got {describe(latent_kv)}")
