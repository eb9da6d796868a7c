"""Sizes whose addresses pass 2^31 and 2^32, in scratch, output and pool; the largest needs about 20 GB."""

import math

import pytest
import torch

from cake_tune.mla import (
    cake_sparse_mla_sm120_dsv4_nvfp4_decode,
    check_accuracy,
    nvfp4_quantize_append_sparse_mla_cache,
    nvfp4_quantize_pack_sparse_mla_cache,
    sparse_mla_reference,
)

SCALE = 512**-0.5
TOPK = 2048


def latents(rows, seed):
    rng = torch.Generator("cuda").manual_seed(seed)
    return torch.randn(rows, 512, generator=rng, device="cuda").bfloat16()


def test_scratch_beyond_two_to_the_22_rows(device):
    """T * H * splits of 2^23 rows, 8.6 GB of partials: every row is written, and the ones looked at are right."""
    tokens, heads, splits = 2048, 128, 32
    assert tokens * heads * splits > 2**22
    cache = nvfp4_quantize_pack_sparse_mla_cache(latents(8192, 1).view(128, 64, 512))
    q = latents(tokens * heads, 2).view(tokens, heads, 512)
    indices = torch.randint(0, 8192, (tokens, TOPK), dtype=torch.int32, device=device)
    output, out_lse = torch.full_like(q, math.nan), torch.full((tokens, heads), math.nan, device=device)
    mid_out = torch.full((tokens, heads, splits, 512), math.nan, dtype=torch.bfloat16, device=device)
    mid_lse = torch.full((tokens, heads, splits), math.nan, device=device)
    plan = cake_sparse_mla_sm120_dsv4_nvfp4_decode(
        q,
        cache,
        indices,
        output,
        out_lse,
        SCALE,
        mid_out=mid_out,
        mid_lse=mid_lse,
        num_splits=splits,
        max_splits=splits,
    )
    assert plan["num_splits"] == splits
    assert bool(output.isfinite().all() & out_lse.isfinite().all())
    looked_at = torch.tensor([0, 1, 511, 1023, 1024, 1537, 2046, 2047], device=device)
    expected = sparse_mla_reference(q[looked_at], cache, indices[looked_at], SCALE)
    check_accuracy(output[looked_at], out_lse[looked_at], *expected)


@pytest.mark.parametrize("page_size", [48, 64])
def test_pool_beyond_four_gigabytes(device, page_size):
    """Slots whose rows lie past 2^32 bytes are read where they are, at any page size."""
    num_pages = 2**32 // (page_size * 384) * 5 // 4
    slots = num_pages * page_size
    cache = torch.full((num_pages, 1, page_size, 384), 0xFF, dtype=torch.uint8, device=device)
    ends = torch.cat((torch.arange(1000), slots // 2 + torch.arange(1000), slots - 1 - torch.arange(1000))).cuda()
    nvfp4_quantize_append_sparse_mla_cache(latents(3000, 3), ends, cache)
    q = latents(4 * 16, 4).view(4, 16, 512)
    indices = ends[torch.randint(0, 3000, (4, TOPK), device=device)].int()
    output, out_lse = torch.full_like(q, math.nan), torch.full((4, 16), math.nan, device=device)
    mid_out = torch.empty(4, 16, 16, 512, dtype=torch.bfloat16, device=device)
    mid_lse = torch.empty(4, 16, 16, device=device)
    cake_sparse_mla_sm120_dsv4_nvfp4_decode(q, cache, indices, output, out_lse, SCALE, mid_out=mid_out, mid_lse=mid_lse)
    check_accuracy(output, out_lse, *sparse_mla_reference(q, cache, indices, SCALE))


def test_output_beyond_four_gigabytes(device):
    """T * H * 512 of 2^32 bytes and more: the last tokens are written where they belong."""
    tokens, heads, topk = 40_000, 128, 64
    cache = nvfp4_quantize_pack_sparse_mla_cache(latents(1024, 5).view(16, 64, 512))
    q = latents(tokens * heads, 6).view(tokens, heads, 512)
    indices = torch.randint(0, 1024, (tokens, topk), dtype=torch.int32, device=device)
    output, out_lse = torch.full_like(q, math.nan), torch.full((tokens, heads), math.nan, device=device)
    assert output.nbytes > 2**32
    cake_sparse_mla_sm120_dsv4_nvfp4_decode(q, cache, indices, output, out_lse, SCALE, num_splits=1)
    assert bool(out_lse.isfinite().all())
    looked_at = torch.tensor([0, 1, 32_767, 32_768, 39_998, 39_999], device=device)
    expected = sparse_mla_reference(q[looked_at], cache, indices[looked_at], SCALE)
    check_accuracy(output[looked_at], out_lse[looked_at], *expected)
