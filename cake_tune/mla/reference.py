"""The float64 reference that judges every path: plain attention over the dequantised cache, written for plainness.

It shares nothing with what it checks: it finds bytes by its own arithmetic, decodes E2M1 by formula, masks by position,
softmaxes in natural logarithms, and takes the sink as one more logit with no value.
"""

import math

import torch
from torch import Tensor

_LOG2_E = 1 / math.log(2)
_BATCH_ELEMENTS = 1 << 24


def sparse_mla_reference(
    q: Tensor,
    kv_cache: Tensor,
    indices: Tensor,
    sm_scale: float,
    *,
    topk_length: Tensor | None = None,
    attn_sink: Tensor | None = None,
    extra_kv_cache: Tensor | None = None,
    extra_indices: Tensor | None = None,
    extra_topk_length: Tensor | None = None,
    lse_scale: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """What decode and prefill should write: (output ``[T, H, 512]``, out_lse ``[T, H]``), both float32.

    Takes the op's arguments, checks none of them, computes in float64 on ``q``'s device, and allocates as it likes.
    """
    sides = [(kv_cache, indices, topk_length)]
    if extra_kv_cache is not None and extra_indices is not None:
        sides.append((extra_kv_cache, extra_indices, extra_topk_length))
    num_tokens, num_heads, dim = q.shape
    output = torch.zeros(num_tokens, num_heads, dim, device=q.device)
    out_lse = torch.zeros(num_tokens, num_heads, device=q.device)
    candidates = sum(side[1].shape[-1] for side in sides)
    batch = max(1, _BATCH_ELEMENTS // (candidates * dim))
    for start in range(0, num_tokens, batch):
        tokens = slice(start, min(start + batch, num_tokens))
        pairs = [_candidates(cache, slots[tokens], _part(lengths, tokens)) for cache, slots, lengths in sides]
        latents, valid = torch.cat([p[0] for p in pairs], 1), torch.cat([p[1] for p in pairs], 1)
        output[tokens], out_lse[tokens] = _attention(q[tokens].double(), latents, valid, sm_scale, attn_sink, lse_scale)
    return output, out_lse


def _part(lengths: Tensor | None, tokens: slice) -> Tensor | None:
    return None if lengths is None else lengths[tokens]


def _attention(
    q: Tensor, latents: Tensor, valid: Tensor, sm_scale: float, sink: Tensor | None, lse_scale: float
) -> tuple[Tensor, Tensor]:
    logits = (q @ latents.transpose(1, 2) * sm_scale).masked_fill(~valid[:, None, :], -math.inf)
    if sink is not None:
        column = sink[: q.shape[1]].double().view(1, -1, 1).expand(q.shape[0], -1, 1)
        logits = torch.cat((logits, column), 2)
    lse = torch.logsumexp(logits, 2)
    empty = lse == -math.inf
    weights = torch.exp(logits - lse.masked_fill(empty, 0)[..., None])[..., : latents.shape[1]]
    # exp(inf - inf): a sink of +inf takes the whole weight.
    weights = weights.masked_fill((lse == math.inf)[..., None], 0)
    scaled = torch.where(lse.isinf(), lse, lse * (_LOG2_E * lse_scale))
    return (weights @ latents).float(), scaled.float()


def _candidates(cache: Tensor, indices: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """Latents ``[T, width, 512]`` (zeros where masked) and validity ``[T, width]``."""
    slots = indices.reshape(indices.shape[0], indices.shape[-1]).long()
    valid = slots >= 0
    if lengths is not None:
        valid = valid & (torch.arange(slots.shape[1], device=slots.device)[None, :] < lengths[:, None])
    return torch.where(valid[..., None], _latents(cache, slots.where(valid, 0)), 0.0), valid


def _latents(cache: Tensor, slots: Tensor) -> Tensor:
    """Decoded rows ``[..., 512]`` of slots, from the bytes of the pool."""
    is_hnd = cache.dim() == 4 and cache.shape[1] == 1
    page_size, stride = (cache.shape[2] if is_hnd else cache.shape[1]), cache.stride(0)
    pool = torch.empty(0, dtype=torch.uint8, device=cache.device).set_(cache.untyped_storage())
    page, row = slots // page_size, slots % page_size
    start = page * stride + int(cache.storage_offset())
    data = _bytes(pool, start + row * 352, 352)
    scales = _bytes(pool, start + page_size * 352 + row * 32, 28).view(torch.float8_e4m3fn).double()
    codes = torch.stack((data[..., :224] % 16, data[..., :224] // 16), -1).flatten(-2).double()
    sign, magnitude = torch.where(codes >= 8, -1.0, 1.0), codes % 8
    exponent, mantissa = (magnitude / 2).floor(), magnitude % 2
    values = sign * torch.where(exponent == 0, mantissa * 0.5, torch.exp2(exponent - 1) * (1 + mantissa * 0.5))
    rope = data[..., 224:].contiguous().view(torch.bfloat16).double()
    return torch.cat((values * scales.repeat_interleave(16, -1), rope), -1)


def _bytes(pool: Tensor, starts: Tensor, count: int) -> Tensor:
    return pool[starts[..., None] + torch.arange(count, device=pool.device)]
