"""What must hold to the bit: repeats, views, bytes that nobody may read."""

import pytest
import torch
from contract_inputs import lay_out, make_inputs
from gpu_plans import PLANS, judge, run

from cake_tune.mla.cache import parse_cache

REPEATS = 30


def same(got, expected):
    return all(torch.equal(one, other) for one, other in zip(got, expected, strict=True))


@pytest.mark.parametrize("case", PLANS, ids=str)
def test_repeats_are_bitwise_equal(case, device):
    """The same plan on the same input gives the same bits, run after run, on poisoned outputs."""
    inputs = make_inputs(case, device)
    first = run(case, inputs)
    judge(inputs, *first)
    assert all(same(run(case, inputs), first) for _ in range(REPEATS))


@pytest.mark.parametrize("case", PLANS, ids=str)
def test_views_are_bitwise_equal(case, device):
    """HND, NHD, 3-D, with and without padding between pages: one result."""
    inputs = make_inputs(case, device)
    expected = run(case, inputs)
    pages = parse_cache("cache", inputs.cache)
    packed = inputs.cache.reshape(pages.num_pages, 1, pages.page_size, -1).contiguous()
    for layout in ("3-D", "HND", "NHD"):
        for padding in (0, 16, 272, 4096):
            inputs.cache = lay_out(packed, layout, padding)
            assert same(run(case, inputs), expected), (layout, padding)


@pytest.mark.parametrize("byte", [0x00, 0x7F, 0xA5])
@pytest.mark.parametrize("case", PLANS, ids=str)
def test_unread_bytes_do_not_matter(case, device, byte):
    """What is in rows that no valid slot names, in their scales, or between pages changes not a bit of the result."""
    inputs = make_inputs(case, device)
    expected = run(case, inputs)
    pages = parse_cache("cache", inputs.cache)
    unused = torch.ones(pages.num_slots, dtype=torch.bool, device=device)
    slots = inputs.indices.flatten(1)
    valid = slots >= 0
    lengths = inputs.arguments.get("topk_length")
    if lengths is not None:
        valid &= torch.arange(slots.shape[1], device=device) < lengths[: slots.shape[0], None]
    unused[slots[valid].long()] = False
    unused = unused.view(pages.num_pages, pages.page_size)
    pages.data_rows()[unused] = byte
    pages.scale_rows()[unused] = byte
    pages.scale_rows()[..., 28:] = byte
    gap = pages.page_stride - pages.page_size * 384
    if gap:
        shape, strides = (pages.num_pages - 1, gap), (pages.page_stride, 1)
        start = pages.tensor.storage_offset() + pages.page_size * 384
        pages.tensor.as_strided(shape, strides, start).fill_(byte)
    assert bool(unused.any())
    assert same(run(case, inputs), expected)
