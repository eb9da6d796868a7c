"""Splits launched as clusters of two: the same answer, on either side of every line that decides about it."""

import pytest
import torch
from contract_inputs import make_inputs
from contract_matrix import Case
from gpu_plans import judge, run

from cake_tune.cuda import build_options
from cake_tune.cuda.manifest import load_manifest
from cake_tune.mla import device_of

ROUGH = {"topk": 1000, "extra_topk": 100, "mask": "random", "lengths": "random", "sink": "mixed", "page_size": 48}


@pytest.mark.parametrize("heads", [8, 16, 64, 96])
@pytest.mark.parametrize("splits", [2, 6, 16, 18])
@pytest.mark.parametrize("share", [0.1, 0.8, 1.5], ids=["few blocks", "most of the GPU", "more than the GPU"])
def test_pairs_meet_the_contract(device, heads, splits, share):
    """Grids below, within and above the range in which more than two splits merge in pairs, bit for bit repeatable."""
    manifest, info = load_manifest(), device_of(torch.device(device))
    tiles = 2 if heads % 32 == 0 else 1
    per_block = manifest.default_variant(info.arch, "decode", tiles).heads_per_block
    blocks = -(-heads // per_block)
    tokens = max(1, int(info.num_sms * share / (splits * blocks)))
    case = Case("decode", num_tokens=tokens, num_heads=heads, splits=splits, tiles=tiles, **ROUGH)
    inputs = make_inputs(case, device)
    first = run(case, inputs)
    judge(inputs, *first)
    assert all(torch.equal(one, other) for one, other in zip(run(case, inputs), first, strict=True))


VARIANTS = [one for one in load_manifest().variants.values() if "decode" in one.kernels]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda one: one.name)
def test_pairs_of_every_variant(device, variant):
    """Two splits, of which the second has nothing to do for the tokens with short lists."""
    if device_of(torch.device(device)).arch not in variant.archs:
        pytest.skip("not for this GPU")
    heads = {1: 48, 2: 96}[variant.head_tiles]
    case = Case("decode", num_tokens=11, num_heads=heads, splits=2, tiles=variant.head_tiles, **ROUGH)
    inputs = make_inputs(case, device)
    with build_options(variant=variant.name):
        judge(inputs, *run(case, inputs))
