"""Calls of FlashInfer: every part of the plan pinned, the plan that it resolved checked, its refusals in our words."""

import sys

import pytest
import torch

from cake_tune import cake_sparse_mla_sm120_dsv4_nvfp4_decode as decode
from cake_tune import cake_sparse_mla_sm120_dsv4_nvfp4_prefill as prefill
from cake_tune import nvfp4_quantize_pack_sparse_mla_cache as pack
from cake_tune.backends.launcher import query_as_used
from cake_tune.errors import ContractError, DeviceUnfitError
from cake_tune.flashinfer import kernels
from cake_tune.flashinfer.interface import DECODE, PACK, PREFILL, WRAPPER
from cake_tune.planner.shape import Plan, Shape, every_plan

SCALE = 512**-0.5
SHAPE = Shape(3, 32, 192)


def call(num_tokens=3, num_heads=32, topk=192):
    random = torch.Generator().manual_seed(1)
    cache = pack(torch.randn(8, 64, 512, generator=random).bfloat16())
    indices = torch.randint(512, (num_tokens, topk), generator=random, dtype=torch.int32)
    q = torch.randn(num_tokens, num_heads, 512, generator=random).bfloat16()
    return q, cache, indices, torch.full_like(q, torch.nan), torch.full((num_tokens, num_heads), torch.nan), SCALE


def scratch(plan, num_tokens=3, num_heads=32):
    if plan.num_splits == 1:
        return ()
    return (
        torch.empty(num_tokens, num_heads, plan.num_splits, 512, dtype=torch.bfloat16),
        torch.empty(num_tokens, num_heads, plan.num_splits),
    )


@pytest.mark.parametrize("plan", list(every_plan(SHAPE)), ids=str)
def test_a_plan_runs_pinned_and_writes_what_the_op_writes(standin, plan):
    arguments, expected = call(), call()
    optional = {"topk_length": torch.tensor([192, 5, 0], dtype=torch.int32), "attn_sink": torch.ones(32)}
    kernels.run_plan(plan, arguments, optional, *scratch(plan))
    expected = (query_as_used(expected[0], "nvfp4"), *expected[1:])
    if plan.kernel == "decode":
        mid_out, mid_lse = scratch(plan) or (None, None)
        pinned = {"num_splits": plan.num_splits, "head_tiles": plan.head_tiles}
        decode(*expected, **optional, **pinned, mid_out=mid_out, mid_lse=mid_lse)
    else:
        pinned = {"head_tiles": plan.head_tiles}
        prefill(*expected, **optional, **pinned)
    assert torch.equal(arguments[3], expected[3])
    assert torch.equal(arguments[4], expected[4])
    [(name, bound)] = standin.calls
    assert name == (DECODE if plan.kernel == "decode" else PREFILL)
    assert {key: bound[key] for key in pinned} == pinned


def test_the_resolved_plan_is_returned_with_what_flashinfer_adds(standin):
    assert kernels.run_plan(Plan("decode", 2, 3, 1), call(), {}, *scratch(Plan("decode", 2, 3, 1))) == {
        "head_tiles": 2,
        "num_splits": 3,
        "chunks_per_block": 1,
    }
    assert kernels.run_plan(Plan("prefill", 2, 1, 3), call(), {}) == {
        "head_tiles": 2,
        "num_ctas": 3,
        "num_stages": 2,
        "q_evict_first": False,
        "grid_head_blocks_first": True,
    }


@pytest.mark.parametrize(
    ("plan", "resolved"),
    [
        (Plan("decode", 1, 3, 1), {"num_splits": 2, "chunks_per_block": 2}),
        (Plan("decode", 1, 1, 3), {"head_tiles": 2}),
        (Plan("prefill", 1, 1, 3), {"num_ctas": 3}),
    ],
    ids=str,
)
def test_a_plan_that_resolves_to_another_is_refused(standin, plan, resolved):
    standin.resolved = resolved
    with pytest.raises(ContractError, match=f"flashinfer: expected {plan} to run as .*, it resolved to "):
        kernels.run_plan(plan, call(), {}, *scratch(plan))


def test_no_tokens_launch_nothing(standin):
    assert kernels.run_plan(Plan("prefill", 1, 1, 3), call(num_tokens=0), {}) == {"head_tiles": 1, "num_ctas": 0}
    assert standin.calls == []


def test_what_flashinfer_refuses_is_a_contract_error(standin):
    with pytest.raises(ContractError, match="flashinfer: mid_out: expected scratch"):
        kernels.run_plan(Plan("decode", 1, 3, 1), call(), {})


def test_the_hand_written_kernels_run_the_same_call_by_their_own_plan(standin):
    arguments, expected = call(num_heads=16, topk=128), call(num_heads=16, topk=128)
    for _ in range(2):
        kernels.run_sparse(arguments, {"attn_sink": torch.ones(16)})
    decode(query_as_used(expected[0], "nvfp4"), *expected[1:], attn_sink=torch.ones(16), num_splits=1, head_tiles=1)
    assert torch.equal(arguments[3], expected[3])
    assert torch.equal(arguments[4], expected[4])
    names = [name for name, _ in standin.calls]
    assert names == [f"{WRAPPER}.__init__", f"{WRAPPER}.run", f"{WRAPPER}.run"]
    made = standin.calls[0][1]
    assert (made["kv_cache_format"], made["backend"]) == ("nvfp4", "sparse")


@pytest.mark.parametrize(("num_heads", "topk"), [(48, 128), (16, 192)])
def test_a_shape_that_the_hand_written_kernels_do_not_serve_is_refused(standin, num_heads, topk):
    with pytest.raises(ContractError, match="flashinfer: no NVFP4 attention route serves this metadata"):
        kernels.run_sparse(call(num_heads=num_heads, topk=topk), {})


def test_flashinfer_writes_a_cache(standin):
    latents = torch.randn(2, 16, 512).bfloat16()
    packed = kernels.pack_cache(latents)
    assert packed.shape == (2, 1, 16, 384)
    assert torch.equal(packed, pack(latents))
    assert [name for name, _ in standin.calls] == [PACK]


def test_a_package_that_does_not_load_is_told(installed, monkeypatch):
    monkeypatch.delitem(sys.modules, "flashinfer", raising=False)
    (installed("0.7.4") / "__init__.py").write_text("raise ImportError('no module named tvm_ffi')\n")
    with pytest.raises(DeviceUnfitError) as raised:
        kernels.load_mla()
    assert str(raised.value) == (
        "flashinfer-python 0.7.4 cannot be imported (ImportError: no module named tvm_ffi): "
        "pip install 'cake-tune[flashinfer]'"
    )
    assert raised.value.exit_code == 6
