"""Serving engines call in inference mode or without gradients: every mix of where tensors were made and are used."""

import contextlib

import pytest
import torch
from mla_arguments import OPS, call, op_arguments, valid_arguments

from cake_tune.mla import (
    dequantize_sparse_mla_cache,
    nvfp4_quantize_append_sparse_mla_cache,
    nvfp4_quantize_pack_sparse_mla_cache,
)

MODES = {"plain": contextlib.nullcontext, "no_grad": torch.no_grad, "inference": torch.inference_mode}


def call_custom_op(kernel, **arguments):
    """The registered op, without the function in front of it."""
    getattr(torch.ops.cake_tune, f"sparse_mla_{kernel}")(*op_arguments(**arguments))


def call_compiled(kernel, **arguments):
    """The function in a compiled program."""
    torch._dynamo.reset()
    torch.compile(lambda arguments: OPS[kernel](**arguments), backend="aot_eager", fullgraph=True)(arguments)


WAYS = {"function": call, "custom op": call_custom_op, "compiled": call_compiled}


@pytest.mark.parametrize("kernel", OPS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("used", MODES)
@pytest.mark.parametrize("made", MODES)
def test_tensors_made_in_one_mode_are_used_in_another(kernel, way, used, made):
    """One answer, bit for bit, and plain outputs stay plain."""
    if way == "compiled" and made == "inference" != used:
        pytest.skip("torch itself writes the outputs of a compiled program, and refuses these")
    expected = valid_arguments(kernel)
    call(kernel, **expected)
    with MODES[made]():
        arguments = valid_arguments(kernel)
    with MODES[used]():
        WAYS[way](kernel, **arguments)
    for name in ("output", "out_lse"):
        assert torch.equal(arguments[name], expected[name])
        assert arguments[name].is_inference() == (made == "inference")
        assert not arguments[name].requires_grad


@pytest.mark.parametrize("kernel", OPS)
@pytest.mark.parametrize("used", MODES)
def test_kinds_of_tensors_mix(kernel, used):
    """A query that records gradients, with the cache and the outputs made in inference mode; then the other way."""
    expected = valid_arguments(kernel)
    call(kernel, **expected)
    for special in ({"q"}, {"kv_cache", "output", "mid_out"}):
        with torch.inference_mode():
            arguments = valid_arguments(kernel)
        plain = valid_arguments(kernel)
        plain["q"].requires_grad_()
        arguments |= {name: plain[name] for name in special & plain.keys()}
        for way in (call, call_custom_op):
            with torch.inference_mode():
                arguments["output"].zero_()
            with MODES[used]():
                way(kernel, **arguments)
            assert torch.equal(arguments["output"], expected["output"])


@pytest.mark.parametrize("used", MODES)
@pytest.mark.parametrize("made", MODES)
def test_caches_are_written_in_any_mode(used, made):
    """Pack, append and dequantize: a cache made in inference mode is appended to outside it too."""
    latents = torch.randn(3, 4, 512).bfloat16()
    expected = nvfp4_quantize_pack_sparse_mla_cache(latents)
    with MODES[made]():
        cache = nvfp4_quantize_pack_sparse_mla_cache(torch.zeros_like(latents))
    with MODES[used]():
        nvfp4_quantize_append_sparse_mla_cache(latents.view(12, 512), torch.arange(12), cache)
        assert torch.equal(dequantize_sparse_mla_cache(cache), dequantize_sparse_mla_cache(expected))
    assert torch.equal(cache, expected)
