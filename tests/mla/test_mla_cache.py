"""Finding a token's bytes in any view of a pool."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cake_tune.errors import ContractError
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


def test_pages_beyond_two_to_the_31_bytes_are_addressed():
    """Offsets are 64-bit: a pool of 3 GB, of which only the pages looked at exist."""
    stride = 1 << 28
    view = torch.empty_strided((12, 1, 384), (stride, 384, 1), dtype=torch.uint8, device="meta")
    assert parse_cache("kv_cache", view).span_bytes == 11 * stride + 384 > 1 << 31


@pytest.mark.parametrize("strides", [(64 * 384, 400, 1), (64 * 384, 384, 2)])
def test_records_must_be_packed(strides):
    """A gap inside a page breaks the format."""
    view = torch.zeros(1 << 18, dtype=torch.uint8).as_strided((2, 64, 384), strides)
    with pytest.raises(ContractError, match=r"kv_cache: expected records packed inside each page, got strides"):
        parse_cache("kv_cache", view)
