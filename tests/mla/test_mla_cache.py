"""Finding a token's bytes in any view of a pool."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mla_arguments import OPS, call, valid_arguments

from cake_tune.errors import ContractError
from cake_tune.mla import (
    dequantize_sparse_mla_cache,
    nvfp4_quantize_append_sparse_mla_cache,
    nvfp4_quantize_pack_sparse_mla_cache,
)
from cake_tune.mla.cache import byte_view, parse_cache


def pool_view(pages, page_size, padding, layout):
    """A view of numbered bytes, and the flat pool behind it."""
    flat = (torch.arange(pages * (page_size * 384 + padding)) % 251).to(torch.uint8)
    shape, strides = [pages, page_size, 384], [page_size * 384 + padding, 384, 1]
    axis = {"3-D": None, "HND": 1, "NHD": 2}[layout]
    if axis is not None:
        shape.insert(axis, 1)
        strides.insert(axis, 12345)
    return flat.as_strided(shape, strides), flat


@given(
    pages=st.integers(1, 4),
    page_size=st.integers(1, 70),
    padding=st.integers(0, 9).map(lambda n: 16 * n),
    layout=st.sampled_from(["3-D", "HND", "NHD"]),
)
def test_rows_and_scales_are_where_the_format_says(pages, page_size, padding, layout):
    """Row r of page p: data from p * stride + r * 352, scales from p * stride + page_size * 352 + r * 32."""
    view, flat = pool_view(pages, page_size, padding, layout)
    cache = parse_cache("kv_cache", view)
    stride = cache.page_stride
    assert (cache.num_pages, cache.page_size, cache.num_slots) == (pages, page_size, pages * page_size)
    assert stride == (page_size * 384 + padding if pages > 1 else page_size * 384)
    page, row = pages - 1, page_size - 1
    data, scale = page * stride + row * 352, page * stride + page_size * 352 + row * 32
    assert torch.equal(cache.data_rows()[page, row], flat[data : data + 352])
    assert torch.equal(cache.scale_rows()[page, row], flat[scale : scale + 32])
    rope = cache.windows(224, 64, torch.bfloat16)[data // 16]
    assert torch.equal(rope, flat[data + 224 : data + 352].view(torch.bfloat16))
    scales = cache.windows(page_size * 352, 32, torch.uint8)[(page * stride + row * 32) // 16]
    assert torch.equal(scales, flat[scale : scale + 32])
    assert len(byte_view(cache)) == cache.span_bytes == page * stride + page_size * 384


def test_four_axes_with_two_ones_are_hnd():
    """[pages, 1, 1, 384] is one token per page either way."""
    assert parse_cache("kv_cache", torch.zeros(5, 1, 1, 384, dtype=torch.uint8)).page_size == 1


def test_a_single_page_needs_no_stride():
    """The stride of an axis of one is arbitrary in torch, so it is not looked at."""
    view = torch.zeros(64 * 384, dtype=torch.uint8).as_strided((1, 64, 384), (8, 384, 1))
    assert parse_cache("kv_cache", view).page_stride == 64 * 384


def test_an_empty_pool_has_no_bytes():
    """No pages, no slots: only masked indices can go with it."""
    cache = parse_cache("kv_cache", torch.empty(0, 64, 384, dtype=torch.uint8))
    assert (cache.num_slots, cache.span_bytes) == (0, 0)
    assert cache.windows(0, 224, torch.uint8).shape == (0, 224)


@pytest.mark.parametrize("kernel", OPS)
def test_pages_beyond_two_to_the_31_bytes_are_read(kernel):
    """Offsets are 64-bit: candidates in the last page of a pool of 3 GB, of which only that page is ever touched."""
    page_size, num_pages = 64, 12
    stride = 1 << 28
    pool = torch.empty((num_pages - 1) * stride + page_size * 384, dtype=torch.uint8)
    cache = pool.as_strided((num_pages, page_size, 384), (stride, 384, 1))
    latents = torch.randn(page_size, 512, generator=torch.Generator().manual_seed(5)).bfloat16()
    last = (num_pages - 1) * page_size + torch.arange(page_size)
    nvfp4_quantize_append_sparse_mla_cache(latents, last, cache)
    small = nvfp4_quantize_pack_sparse_mla_cache(latents.view(1, page_size, 512))
    answers = []
    for kv_cache, slots in ((cache, last), (small, torch.arange(page_size))):
        arguments = valid_arguments(kernel, kv_cache=kv_cache, indices=slots.int().repeat(2, 1), topk_length=None)
        call(kernel, **arguments)
        answers.append((arguments["output"], arguments["out_lse"]))
    assert (num_pages - 1) * stride > 1 << 31
    for far, near in zip(*answers, strict=True):
        assert torch.equal(far, near)


@pytest.mark.parametrize("kernel", OPS)
def test_a_storage_may_start_at_an_odd_address(kernel):
    """Memory of another library, cut to where it is aligned: torch counts the cut from the storage's odd start."""
    arguments = valid_arguments(kernel)
    packed = arguments["kv_cache"]
    memory = np.zeros(packed.nbytes + 32, dtype=np.uint8)[1:]
    storage = torch.from_numpy(memory)
    offset = -storage.data_ptr() % 16
    cache = storage[offset : offset + packed.nbytes].view(packed.shape)
    assert cache.storage_offset() % 2 and cache.data_ptr() % 16 == 0
    cache.copy_(packed)
    call(kernel, **arguments)
    expected = arguments["output"].clone()
    call(kernel, **(arguments | {"kv_cache": cache, "output": arguments["output"].zero_()}))
    assert torch.equal(arguments["output"], expected)


def test_dequantize_reads_a_single_row_at_an_odd_offset():
    """The one row that is a contiguous slice of its page."""
    packed = nvfp4_quantize_pack_sparse_mla_cache(torch.randn(1, 1, 512).bfloat16())
    storage = torch.from_numpy(np.zeros(384 + 32, dtype=np.uint8)[1:])
    offset = -storage.data_ptr() % 16
    cache = storage[offset : offset + 384].view(1, 1, 384)
    cache.copy_(packed.view(1, 1, 384))
    assert torch.equal(dequantize_sparse_mla_cache(cache), dequantize_sparse_mla_cache(packed))


@pytest.mark.parametrize("strides", [(64 * 384, 400, 1), (64 * 384, 384, 2)])
def test_records_must_be_packed(strides):
    """A gap inside a page breaks the format."""
    view = torch.zeros(1 << 18, dtype=torch.uint8).as_strided((2, 64, 384), strides)
    with pytest.raises(ContractError, match=r"kv_cache: expected records packed inside each page, got strides"):
        parse_cache("kv_cache", view)
