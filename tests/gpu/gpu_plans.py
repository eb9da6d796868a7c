"""A few calls that between them run every kernel, tile count, cache count and the merge."""

import torch
from contract_inputs import ContractInputs
from contract_matrix import Case, run_case
from torch import Tensor

from cake_tune.mla import check_accuracy, sparse_mla_reference
from cake_tune.mla.cache import parse_cache

_ROUGH = {"mask": "random", "lengths": "random", "sink": "mixed", "page_size": 48, "padding": 16, "lse_scale": 0.5}

PLANS = [
    Case("decode", num_tokens=5, num_heads=8, topk=512, splits="one", tiles=1, **_ROUGH),
    Case("decode", num_tokens=33, num_heads=16, topk=1152, splits=7, tiles=1, **_ROUGH),
    Case("decode", num_tokens=7, num_heads=64, topk=512, extra_topk=100, splits="most", tiles=2, **_ROUGH),
    Case("decode", num_tokens=65, num_heads=128, topk=320, splits="one", tiles=2, **_ROUGH),
    Case("decode", num_tokens=3, num_heads=48, topk=2048, extra_topk=65, splits="most", tiles=1, **_ROUGH),
    Case("prefill", num_tokens=150, num_heads=16, topk=192, extra_topk=64, tiles=1, **_ROUGH),
    Case("prefill", num_tokens=40, num_heads=32, topk=512, tiles=2, **_ROUGH),
    Case("prefill", num_tokens=40, num_heads=128, topk=960, extra_topk=64, tiles=4, **_ROUGH),
]
"""Each with masks, lengths, a sink, odd pages and padding."""


def run(case: Case, inputs: ContractInputs) -> tuple[Tensor, Tensor]:
    """Run on poisoned outputs and scratch; copies of output and LSE."""
    inputs.poison()
    run_case(case, inputs)
    return inputs.output.clone(), inputs.out_lse.clone()


def judge(inputs: ContractInputs, output: Tensor, out_lse: Tensor) -> None:
    """Compare with the reference on the inputs as they are now."""
    reference = sparse_mla_reference(inputs.q, inputs.cache, inputs.indices, inputs.sm_scale, **inputs.arguments)
    check_accuracy(output, out_lse, *reference)


def refill(inputs: ContractInputs, seed: int) -> None:
    """Change the numbers in the tensors of ``inputs``, in place: a replayed graph must read all of them anew."""
    rng = torch.Generator("cuda").manual_seed(seed)
    inputs.q.copy_(torch.randn(inputs.q.shape, generator=rng, device="cuda"))
    _reverse_tokens(inputs.indices, inputs.arguments.get("topk_length"))
    _flip_signs(inputs.cache)
    extra_indices = inputs.arguments.get("extra_indices")
    if extra_indices is not None:
        _reverse_tokens(extra_indices, inputs.arguments.get("extra_topk_length"))
        _flip_signs(inputs.arguments["extra_kv_cache"])
    if "attn_sink" in inputs.arguments:
        sink = inputs.arguments["attn_sink"][: inputs.q.shape[1]]
        sink.copy_(sink.roll(1))


def _reverse_tokens(indices: Tensor, lengths: Tensor | None) -> None:
    indices.copy_(indices.flip(0))
    if lengths is not None:
        tokens = lengths[: indices.shape[0]]
        tokens.copy_(tokens.flip(0))


def _flip_signs(cache: Tensor) -> None:
    """Of every NoPE value."""
    parse_cache("cache", cache).data_rows()[..., :224].bitwise_xor_(0x88)
