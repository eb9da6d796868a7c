"""Inputs of a contract case, hostile where the contract allows it.

Every byte that the op has no business reading as a value is NaN when it is read: unused cache rows, padding between
pages, what masked and cut-off indices point at. Outputs and scratch start as NaN, so that what is not written shows.
"""

import math
import zlib
from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from cake_tune.mla import nvfp4_quantize_pack_sparse_mla_cache

HEAD_DIM = 512
RECORD = 384
SM_SCALE = 1.5 * HEAD_DIM**-0.5
INT_MAX = 2**31 - 1


class CaseLike(Protocol):
    """What the inputs depend on: the axes of ``contract_matrix.Case``."""

    num_tokens: int
    num_heads: int
    topk: int
    extra_topk: int
    page_size: int
    extra_page_size: int
    layout: str
    padding: int
    lengths: str
    mask: str
    sink: str
    lse_scale: float
    indices_rank: int

    @property
    def chunks(self) -> int: ...


@dataclass
class ContractInputs:
    """Tensors of one call, on one device."""

    q: Tensor
    cache: Tensor
    indices: Tensor
    output: Tensor
    out_lse: Tensor
    mid_out: Tensor
    mid_lse: Tensor
    arguments: dict[str, Tensor | float]
    """Keyword arguments that op and reference share."""
    sm_scale: float = SM_SCALE
    read: dict[str, Tensor] = field(default_factory=dict)
    """Everything the op may only read, by name."""

    @property
    def positional(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, float]:
        return self.q, self.cache, self.indices, self.output, self.out_lse, self.sm_scale

    def poison(self) -> None:
        """Fill all that is written with NaN."""
        for tensor in (self.output, self.out_lse, self.mid_out, self.mid_lse):
            tensor.fill_(math.nan)


def make_inputs(case: CaseLike, device: str) -> ContractInputs:
    """The inputs of ``case``, the same on every device and in every run."""
    rng = torch.Generator().manual_seed(zlib.crc32(str(case).encode()))
    tokens, heads = case.num_tokens, case.num_heads
    q = torch.randn(tokens, heads, HEAD_DIM, generator=rng).bfloat16()
    cache, indices, lengths = _side(case, case.topk, case.page_size, rng)
    arguments: dict[str, Tensor | float] = {"lse_scale": case.lse_scale}
    if lengths is not None:
        arguments["topk_length"] = lengths
    if case.extra_topk:
        extra_cache, extra_indices, extra_lengths = _side(case, case.extra_topk, case.extra_page_size, rng)
        arguments |= {"extra_kv_cache": extra_cache, "extra_indices": extra_indices}
        if extra_lengths is not None:
            arguments["extra_topk_length"] = extra_lengths
    sink = _sink(case.sink, heads, rng)
    if sink is not None:
        arguments["attn_sink"] = sink
    arguments = {name: _to(value, device) if isinstance(value, Tensor) else value for name, value in arguments.items()}
    capacity = case.chunks + 1
    inputs = ContractInputs(
        q.to(device),
        _to(cache, device),
        indices.to(device),
        torch.empty(tokens, heads, HEAD_DIM, dtype=torch.bfloat16, device=device),
        torch.empty(tokens, heads, device=device),
        torch.empty(tokens, heads, capacity, HEAD_DIM, dtype=torch.bfloat16, device=device),
        torch.empty(tokens, heads, capacity, device=device),
        arguments,
    )
    inputs.read = {"q": inputs.q, "kv_cache": inputs.cache, "indices": inputs.indices}
    inputs.read |= {name: value for name, value in arguments.items() if isinstance(value, Tensor)}
    inputs.poison()
    return inputs


def lay_out(packed: Tensor, layout: str, padding: int) -> Tensor:
    """The pages of an HND cache in another view: ``padding`` NaN bytes after each page, then 3-D, HND or NHD."""
    num_pages, _, page_size, _ = packed.shape
    page_bytes = page_size * RECORD
    pool = torch.full((num_pages, page_bytes + padding), 0xFF, dtype=torch.uint8, device=packed.device)
    pool[:, :page_bytes] = packed.reshape(num_pages, page_bytes)
    pages = pool[:, :page_bytes].view(num_pages, page_size, RECORD)
    return {"3-D": pages, "HND": pages.unsqueeze(1), "NHD": pages.unsqueeze(2)}[layout]


def _side(case: CaseLike, topk: int, page_size: int, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor | None]:
    """A cache, its indices and its lengths; only rows that a valid index names hold numbers."""
    tokens = case.num_tokens
    slots = topk + topk // 2 + 3
    num_pages = -(-slots // page_size) + 1
    spread = torch.exp2(torch.randint(-2, 2, (num_pages * page_size, 1), generator=rng).float())
    latents = (torch.randn(num_pages * page_size, HEAD_DIM, generator=rng) * spread + 0.25).bfloat16()
    packed = nvfp4_quantize_pack_sparse_mla_cache(latents.view(num_pages, page_size, HEAD_DIM))
    indices = torch.empty(tokens, topk, dtype=torch.int32)
    for row in indices:
        row.copy_(torch.randperm(slots, generator=rng)[:topk])
    lengths = _lengths(case.lengths, tokens, topk, rng)
    masked = _mask(case.mask, tokens, topk, rng)
    used = ~masked
    if lengths is not None:
        cut = torch.arange(topk) >= lengths[:tokens, None]
        indices[cut] = INT_MAX
        used &= ~cut
    negative = torch.tensor([-1, -2, -INT_MAX - 1], dtype=torch.int32)
    indices[masked] = negative[torch.randint(0, 3, (int(masked.sum()),), generator=rng)]
    _ruin_unused(packed, indices[used].long(), num_pages, page_size)
    if case.indices_rank == 3:
        indices = indices.unsqueeze(1)
    return lay_out(packed, case.layout, case.padding), indices, lengths


def _ruin_unused(packed: Tensor, used: Tensor, num_pages: int, page_size: int) -> None:
    """0xFF in the rows that nothing names: NaN as E4M3 scale and as BF16. The padding of scale rows too."""
    data = packed.view(num_pages, -1)[:, : page_size * 352].view(num_pages, page_size, 352)
    scales = packed.view(num_pages, -1)[:, page_size * 352 :].view(num_pages, page_size, 32)
    unused = torch.ones(num_pages * page_size, dtype=torch.bool)
    unused[used] = False
    unused = unused.view(num_pages, page_size)
    data[unused] = 0xFF
    scales[unused] = 0xFF
    scales[..., 28:] = 0xFF


def _lengths(kind: str, tokens: int, topk: int, rng: torch.Generator) -> Tensor | None:
    if kind == "none":
        return None
    # More entries than tokens are allowed; the last one must not be looked at.
    lengths = torch.full((tokens + 1,), topk, dtype=torch.int32)
    if kind == "random":
        lengths = torch.randint(0, topk + 1, (tokens + 1,), generator=rng, dtype=torch.int32)
    elif kind == "zeros among full":
        lengths[1::2] = 0
    elif kind == "out of range":
        lengths[::2] = INT_MAX
        lengths[1::2] = -3
    return lengths


def _mask(kind: str, tokens: int, topk: int, rng: torch.Generator) -> Tensor:
    masked = torch.zeros(tokens, topk, dtype=torch.bool)
    if kind == "random":
        masked = torch.rand(tokens, topk, generator=rng) < 0.3
    elif kind == "whole rows":
        masked[1::2] = True
    return masked


def _sink(kind: str, heads: int, rng: torch.Generator) -> Tensor | None:
    if kind == "none":
        return None
    constant = {"finite": 0.0, "+large": 300.0, "-large": -300.0, "-inf": -math.inf, "mixed": 0.0}
    # More entries than heads are allowed; the last one must not be looked at.
    sink = torch.full((heads + 1,), constant[kind])
    if kind in ("finite", "mixed"):
        sink += 4 * torch.randn(heads + 1, generator=rng)
    if kind == "mixed":
        sink[::3] = -math.inf
        sink[1::5] = 200.0
    sink[heads] = math.nan
    return sink


def _to(tensor: Tensor, device: str) -> Tensor:
    """A copy on ``device`` that keeps the strides, and the NaN bytes between pages, of a view into a pool."""
    if tensor.dtype is not torch.uint8:
        return tensor.to(device)
    whole = torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
    return whole.to(device).as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
