"""Writing the cache: rounding against exhaustive search, pack and append against each other and known bytes."""

import itertools
import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cake_tune.mla import (
    dequantize_sparse_mla_cache,
    nvfp4_quantize_append_sparse_mla_cache,
    nvfp4_quantize_pack_sparse_mla_cache,
)
from cake_tune.mla.quantize import encode_e2m1, quantize_rows

E2M1 = (0, 0.5, 1, 1.5, 2, 3, 4, 6)
SIZES = st.tuples(st.integers(1, 4), st.integers(1, 9))


def e4m3(byte):
    """Value of a non-negative E4M3 byte, from its definition."""
    exponent, mantissa = byte >> 3, byte & 7
    return (
        Fraction(mantissa, 8) * Fraction(1, 64)
        if exponent == 0
        else (1 + Fraction(mantissa, 8)) * Fraction(2) ** (exponent - 7)
    )


E4M3 = [e4m3(byte) for byte in range(0x7F)]


def nearest_even(value, codes):
    """Index of the nearest of ascending ``codes``, the even index on a tie: rounding by its definition."""
    best = min(abs(code - value) for code in codes)
    return min((n for n, code in enumerate(codes) if abs(code - value) == best), key=lambda n: n % 2)


def latents(pages, page_size, seed=0, scale=1.0):
    rng = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(pages, page_size, 512, generator=rng)).bfloat16()


def test_e2m1_rounds_to_nearest_even():
    """Every value from -8 to 8 in steps of 1/64, all ties among them, becomes the code that a search finds."""
    values = torch.arange(-512, 513) / 64
    expected = [nearest_even(abs(v), E2M1) | (8 if math.copysign(1, v) < 0 else 0) for v in values.tolist()]
    assert encode_e2m1(values).tolist() == expected


def test_scales_round_to_nearest_even():
    """Over the BF16 magnitudes around every E4M3 value and tie, the scale byte is the one that a search finds."""
    middles = [(low + high) / 2 for low, high in itertools.pairwise(E4M3)]
    around = torch.tensor([float(6 * value) for value in (*E4M3, *middles)]).bfloat16()
    amax = torch.cat([around, torch.nextafter(around, around * 2), torch.nextafter(around, around * 0)])
    rows = torch.zeros(len(amax), 512, dtype=torch.bfloat16)
    rows[:, 16] = amax
    scales = quantize_rows(rows)[1][:, 1].tolist()
    sixths = (amax.float() / 6).tolist()
    assert scales == [nearest_even(min(Fraction(value), E4M3[-1]), E4M3) for value in sixths]


def test_known_bytes():
    """A row worked out by hand: codes with the even dim in the low nibble, scale 1 for a largest value of 6."""
    row = torch.zeros(1, 1, 512)
    row[0, 0, :16] = torch.tensor([6, -6, 0.5, -0.5, 1, 1.5, 2, 3, 4, -4, 0.25, 0.75, 5, 2.5, 0, -0.0])
    row[0, 0, 448] = 1.0
    page = nvfp4_quantize_pack_sparse_mla_cache(row.bfloat16()).flatten().tolist()
    assert page[:8] == [0xF7, 0x91, 0x32, 0x54, 0xE6, 0x20, 0x46, 0x80]
    assert page[8:224] == [0] * 216
    assert page[224:228] == [0x80, 0x3F, 0, 0]
    assert page[352:384] == [0x38] + [0] * 31


def test_every_code_times_every_scale_is_exact_in_bf16():
    """So that BF16 keys and values lose nothing."""
    scales = torch.arange(0x7F, dtype=torch.uint8).view(torch.float8_e4m3fn).double()
    products = torch.tensor(E2M1, dtype=torch.float64)[:, None] * scales
    assert torch.equal(products.bfloat16().double(), products)


@pytest.mark.parametrize(("value", "scale_byte", "codes"), [(1e-4, 0, 0), (1e5, 0x7E, 0x77), (math.inf, 0x7E, 0x77)])
def test_tiny_groups_vanish_and_huge_ones_saturate(value, scale_byte, codes):
    """Below half of the smallest scale a group is zero codes; above 448 * 6 it is the largest code times 448."""
    rows = torch.full((1, 512), value).bfloat16()
    data, scales = quantize_rows(rows)
    assert scales[0, :28].tolist() == [scale_byte] * 28
    assert data[0, :224].tolist() == [codes] * 224


def test_nan_in_a_group_marks_the_group():
    """The scale becomes NaN, so that nothing reads the group as numbers; its neighbours are untouched."""
    row = latents(1, 1)
    row[0, 0, 20] = math.nan
    back = dequantize_sparse_mla_cache(nvfp4_quantize_pack_sparse_mla_cache(row))[0, 0]
    assert bool(back[16:32].isnan().all())
    assert not bool(back[:16].isnan().any() | back[32:].isnan().any())


@given(size=SIZES, seed=st.integers(0, 99), exponent=st.integers(-6, 6))
def test_round_trip_is_within_half_a_step(size, seed, exponent):
    """A dim comes back within half a code step plus the scale's own rounding; RoPE comes back bit for bit."""
    given_rows = latents(*size, seed, 2.0**exponent)
    back = dequantize_sparse_mla_cache(nvfp4_quantize_pack_sparse_mla_cache(given_rows))
    groups = given_rows[..., :448].float().view(*size, 28, 16)
    error = (back[..., :448].float().view(*size, 28, 16) - groups).abs()
    # Half of the widest step (2 of 6), and E4M3's half step when the largest value saturates; subnormal scales aside.
    bound = groups.abs().amax(-1, keepdim=True) * (1 / 6 + 1 / 16) + 6 * 2.0**-10
    assert bool((error <= bound).all())
    assert torch.equal(back[..., 448:].view(torch.int16), given_rows[..., 448:].view(torch.int16))


@given(size=SIZES, seed=st.integers(0, 99))
def test_what_was_dequantised_packs_to_the_same_bytes_of_values(size, seed):
    """Quantising is a projection: dequantised latents dequantise to themselves."""
    once = dequantize_sparse_mla_cache(nvfp4_quantize_pack_sparse_mla_cache(latents(*size, seed)))
    # A group whose largest code is 6 keeps its scale; others may find a smaller one, which is not a projection.
    groups = once[..., :448].float().view(*size, 28, 16)
    twice = dequantize_sparse_mla_cache(nvfp4_quantize_pack_sparse_mla_cache(once))[..., :448].float().view_as(groups)
    scale = groups.abs().amax(-1, keepdim=True) / 6
    kept = (scale == scale.to(torch.float8_e4m3fn).float()).expand_as(groups)
    assert torch.equal(twice[kept], groups[kept])


@given(size=SIZES, layout=st.sampled_from(["HND", "NHD"]), head_axis=st.sampled_from([None, 1, 2]))
def test_pack_layouts_hold_the_same_bytes(size, layout, head_axis):
    """HND and NHD results differ in shape alone, whatever form the latents came in."""
    rows = latents(*size)
    given_rows = rows if head_axis is None else rows.unsqueeze(head_axis)
    cache = nvfp4_quantize_pack_sparse_mla_cache(given_rows, kv_layout=layout)
    pages, page_size = size
    assert cache.shape == ((pages, 1, page_size, 384) if layout == "HND" else (pages, page_size, 1, 384))
    assert torch.equal(cache.flatten(), nvfp4_quantize_pack_sparse_mla_cache(rows).flatten())


@settings(deadline=None)
@given(size=SIZES, seed=st.integers(0, 99), padding=st.integers(0, 5), kind=st.sampled_from([torch.int32, torch.int64]))
def test_appending_every_row_equals_packing(size, seed, padding, kind):
    """In any order, into any pool, byte for byte; padding between pages stays as it was."""
    rows = latents(*size, seed)
    pages, page_size = size
    pool = torch.full((pages, page_size * 384 + 16 * padding), 0xAB, dtype=torch.uint8)
    cache = pool[:, : page_size * 384].view(pages, page_size, 384)
    order = torch.randperm(pages * page_size, generator=torch.Generator().manual_seed(seed))
    nvfp4_quantize_append_sparse_mla_cache(rows.view(-1, 512)[order].contiguous(), order.to(kind), cache)
    assert torch.equal(cache.reshape(-1), nvfp4_quantize_pack_sparse_mla_cache(rows).flatten())
    assert bool((pool[:, page_size * 384 :] == 0xAB).all())


@settings(deadline=None)
@given(slots=st.lists(st.integers(-3, 9) | st.just(2**31 - 1), max_size=12))
def test_append_is_a_loop_from_the_last_row_to_the_first(slots):
    """The model: rows written backwards, so that the lowest row of a slot wins; padding slots write nothing."""
    rows = latents(1, max(1, len(slots)))[0][: len(slots)].contiguous()
    cache = nvfp4_quantize_pack_sparse_mla_cache(latents(3, 2, seed=1))
    expected = cache.clone()
    for row, slot in reversed(list(enumerate(slots))):
        if 0 <= slot < 6:
            one = torch.tensor([slot])
            nvfp4_quantize_append_sparse_mla_cache(rows[row : row + 1], one, expected)
    nvfp4_quantize_append_sparse_mla_cache(rows, torch.tensor(slots, dtype=torch.int64), cache)
    assert torch.equal(cache, expected)


def test_dequantize_reads_every_view():
    """3-D, HND, NHD and padded views of one pool dequantise alike."""
    rows = latents(3, 5)
    packed = nvfp4_quantize_pack_sparse_mla_cache(rows)
    expected = dequantize_sparse_mla_cache(packed)
    pool = torch.full((3, 5 * 384 + 32), 0xFF, dtype=torch.uint8)
    pool[:, : 5 * 384] = packed.view(3, -1)
    view = pool[:, : 5 * 384].view(3, 5, 384)
    for cache in (
        packed,
        packed.view(3, 5, 384),
        packed.view(3, 5, 1, 384),
        view,
        view.unsqueeze(1),
        view.unsqueeze(2),
    ):
        assert torch.equal(dequantize_sparse_mla_cache(cache), expected)
