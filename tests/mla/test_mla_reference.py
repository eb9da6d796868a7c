"""The judge is judged by hand: cases small enough to work out, and torch's own attention."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cake_tune.mla import dequantize_sparse_mla_cache, nvfp4_quantize_pack_sparse_mla_cache, sparse_mla_reference

LOG2_E = math.log2(math.e)


def one_hot_cache():
    """Four tokens of one page; token n is the unit vector of dim n times 6, which the format holds exactly."""
    rows = torch.zeros(1, 4, 512)
    rows[0, torch.arange(4), torch.arange(4)] = 6.0
    return nvfp4_quantize_pack_sparse_mla_cache(rows.bfloat16())


def test_two_candidates_by_hand():
    """Logits 6 and 0: softmax and LSE as a pocket calculator gives them; the masked and the cut slot do not count."""
    q = torch.zeros(1, 8, 512)
    q[..., 0] = 1.0
    indices = torch.tensor([[0, -1, 1, 3]], dtype=torch.int32)
    length = torch.tensor([3], dtype=torch.int32)
    output, lse = sparse_mla_reference(q.bfloat16(), one_hot_cache(), indices, 1.0, topk_length=length)
    weight = math.exp(6) / (math.exp(6) + 1)
    expected = torch.zeros(512)
    expected[0], expected[1] = 6 * weight, 6 * (1 - weight)
    torch.testing.assert_close(output, expected.expand(1, 8, 512))
    torch.testing.assert_close(lse, torch.full((1, 8), math.log2(math.exp(6) + 1)))


def test_sink_by_hand():
    """Two equal logits and a sink at ln 2 take a quarter, a quarter and a half; lse_scale turns base 2 to base e."""
    q = torch.zeros(1, 8, 512, dtype=torch.bfloat16)
    indices = torch.tensor([[0, 1]], dtype=torch.int32)
    sink = torch.full((8,), math.log(2))
    output, lse = sparse_mla_reference(q, one_hot_cache(), indices, 1.0, attn_sink=sink, lse_scale=math.log(2))
    torch.testing.assert_close(output[0, 0, :3], torch.tensor([1.5, 1.5, 0.0]))
    torch.testing.assert_close(lse, torch.full((1, 8), math.log(4)))


@pytest.mark.parametrize("scale", [1.0, 0.0, -1.0])
def test_empty_rows(scale):
    """Zeros and -inf without a sink, the scaled sink with one, -inf again with a sink of -inf."""
    q, indices = torch.ones(1, 8, 512).bfloat16(), torch.full((1, 3), -1, dtype=torch.int32)
    output, lse = sparse_mla_reference(q, one_hot_cache(), indices, 1.0, lse_scale=scale)
    assert not bool(output.any()) and bool((lse == -math.inf).all())
    sink = torch.tensor([2.0] * 7 + [-math.inf])
    output, lse = sparse_mla_reference(q, one_hot_cache(), indices, 1.0, attn_sink=sink, lse_scale=scale)
    assert not bool(output.any())
    assert lse[0].tolist() == pytest.approx([2 * LOG2_E * scale] * 7 + [-math.inf])


@settings(deadline=None, max_examples=25)
@given(tokens=st.integers(1, 3), topk=st.integers(1, 40), page_size=st.integers(1, 20), seed=st.integers(0, 99))
def test_against_torchs_attention(tokens, topk, page_size, seed):
    """Without sink and masks it is torch's scaled_dot_product_attention over the dequantised rows."""
    rng = torch.Generator().manual_seed(seed)
    rows = torch.randn(5, page_size, 512, generator=rng).bfloat16()
    cache = nvfp4_quantize_pack_sparse_mla_cache(rows, kv_layout="NHD")
    q = torch.randn(tokens, 16, 512, generator=rng).bfloat16()
    indices = torch.randint(5 * page_size, (tokens, topk), generator=rng, dtype=torch.int32)
    output, _ = sparse_mla_reference(q, cache, indices, 0.05)
    keys = dequantize_sparse_mla_cache(cache).view(-1, 512)[indices.long()].double()
    expected = torch.nn.functional.scaled_dot_product_attention(q.double(), keys, keys, scale=0.05)
    torch.testing.assert_close(output.double(), expected, rtol=1e-5, atol=1e-6)


def test_batches_are_joined():
    """More candidates than one batch holds: the tokens of a later batch are as right as the first."""
    rng = torch.Generator().manual_seed(3)
    cache = nvfp4_quantize_pack_sparse_mla_cache(torch.randn(4, 64, 512, generator=rng).bfloat16())
    q = torch.randn(60, 8, 512, generator=rng).bfloat16()
    indices = torch.randint(256, (60, 600), generator=rng, dtype=torch.int32)
    sink, lengths = torch.zeros(8), torch.arange(1, 61, dtype=torch.int32)
    whole = sparse_mla_reference(q, cache, indices, 0.1, attn_sink=sink, topk_length=lengths)
    last = sparse_mla_reference(q[59:], cache, indices[59:], 0.1, attn_sink=sink, topk_length=lengths[59:])
    torch.testing.assert_close(whole[0][59:], last[0])
    torch.testing.assert_close(whole[1][59:], last[1])
