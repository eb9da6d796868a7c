"""``cake_tune.decode(..., backend="flashinfer")``: FlashInfer's kernels, and the plans of this project's table."""

import inspect
from dataclasses import replace

import pytest
import torch

import cake_tune
from cake_tune.backends.launcher import query_as_used
from cake_tune.errors import ContractError, DeviceUnfitError
from cake_tune.flashinfer.interface import DECODE, PREFILL
from cake_tune.host import cpu_device
from cake_tune.planner import registry
from cake_tune.planner.backend import swept_on
from cake_tune.planner.shape import Plan
from cake_tune.planner.table import Override, Provenance

SCALE = 512**-0.5
TOKENS, HEADS, TOPK, EXTRA = 2, 32, 320, 64


@pytest.fixture
def tensors():
    random = torch.Generator().manual_seed(2)

    def made():
        random.manual_seed(2)
        cache, extra = (
            cake_tune.nvfp4_quantize_pack_sparse_mla_cache(torch.randn(8, 64, 512, generator=random).bfloat16())
            for _ in range(2)
        )
        indices, extra_indices = (
            torch.randint(512, (TOKENS, width), generator=random, dtype=torch.int32) for width in (TOPK, EXTRA)
        )
        q = torch.randn(TOKENS, HEADS, 512, generator=random).bfloat16()
        arguments = (q, cache, indices, torch.empty_like(q), torch.empty(TOKENS, HEADS), SCALE)
        optional = {
            "topk_length": torch.tensor([TOPK, 7], dtype=torch.int32),
            "attn_sink": torch.ones(HEADS),
            "extra_kv_cache": extra,
            "extra_indices": extra_indices,
            "extra_topk_length": torch.tensor([3, EXTRA], dtype=torch.int32),
            "lse_scale": 0.5,
        }
        return arguments, optional

    return made


@pytest.fixture
def table():
    """A table of this machine whose plan for the shape is one that no published rule ever gives: three splits."""
    published, _ = registry.table_for()
    plan = Plan("decode", 2, 3, 2)
    return replace(
        published,
        device=cpu_device(),
        exceptions=(Override(HEADS, TOPK, EXTRA, TOKENS, TOKENS, plan, regret=0.1),),
    )


def scratch(splits=6):
    return {
        "mid_out": torch.empty(TOKENS, HEADS, splits, 512, dtype=torch.bfloat16),
        "mid_lse": torch.empty(TOKENS, HEADS, splits),
    }


def test_decode_runs_the_plan_of_the_table(standin, tensors, table):
    (arguments, optional), (expected, same) = tensors(), tensors()
    with registry.use_table(table):
        ran = cake_tune.decode(*arguments, **optional, **scratch(), backend="flashinfer")
        cake_tune.decode(query_as_used(expected[0], "nvfp4"), *expected[1:], **same, **scratch())
    assert ran == {"head_tiles": 2, "num_splits": 3, "chunks_per_block": 2}
    [(name, bound)] = standin.calls
    assert (name, bound["head_tiles"], bound["num_splits"]) == (DECODE, 2, 3)
    assert {key: bound[key] for key in optional} == optional
    assert torch.equal(arguments[3], expected[3])
    assert torch.equal(arguments[4], expected[4])


def test_each_backend_runs_the_plan_of_its_own_installed_table(standin, tensors, table):
    """With both installed for one device, and no table given."""
    arguments, optional = tensors()
    for backend, plan in (("flashinfer", Plan("decode", 2, 3, 2)), ("cpu", Plan("decode", 1, 2, 3))):
        exception = replace(table.exceptions[0], plan=plan)
        registry.install_table(
            replace(table, provenance=Provenance("measured", swept_on(backend)), exceptions=(exception,))
        )
    own = cake_tune.decode(*arguments, **optional, **scratch())
    theirs = cake_tune.decode(*arguments, **optional, **scratch(), backend="flashinfer")
    assert own == {"head_tiles": 1, "num_splits": 2, "chunks_per_block": 3}
    assert theirs == {"head_tiles": 2, "num_splits": 3, "chunks_per_block": 2}


def test_prefill_too_runs_the_tiles_of_its_own_installed_table(standin, tensors, table):
    arguments, optional = tensors()
    for backend, tiles in (("flashinfer", 1), ("cpu", 2)):
        plan = Plan("prefill", tiles, 1, 6)
        exception = replace(table.exceptions[0], plan=plan)
        registry.install_table(
            replace(table, provenance=Provenance("measured", swept_on(backend)), exceptions=(exception,))
        )
    assert cake_tune.prefill(*arguments, **optional)["head_tiles"] == 2
    assert cake_tune.prefill(*arguments, **optional, backend="flashinfer")["head_tiles"] == 1


def test_what_is_given_overrides_the_table(standin, tensors, table):
    arguments, optional = tensors()
    with registry.use_table(table):
        ran = cake_tune.decode(*arguments, **optional, num_splits=1, head_tiles=1, backend="flashinfer")
    assert ran == {"head_tiles": 1, "num_splits": 1, "chunks_per_block": 6}


def test_prefill_runs_the_tiles_of_the_table(standin, tensors, table):
    arguments, optional = tensors()
    with registry.use_table(table):
        ran = cake_tune.prefill(*arguments, **optional, backend="flashinfer")
    assert (ran["head_tiles"], ran["num_ctas"]) == (2, TOKENS)
    [(name, bound)] = standin.calls
    assert (name, bound["head_tiles"]) == (PREFILL, 2)


@pytest.mark.parametrize(("short", "long"), [(cake_tune.decode, DECODE), (cake_tune.prefill, PREFILL)])
def test_the_short_names_take_what_the_long_ones_take(short, long):
    own = list(inspect.signature(short).parameters.values())
    assert own[:-1] == list(inspect.signature(getattr(cake_tune, long)).parameters.values())
    assert (own[-1].name, own[-1].default) == ("backend", "cake_tune")


def test_by_default_this_projects_kernels_run(tensors):
    """And FlashInfer, which is not installed here, is not missed."""
    (arguments, optional), (expected, same) = tensors(), tensors()
    assert cake_tune.prefill(*arguments, **optional) == getattr(cake_tune, PREFILL)(*expected, **same)
    assert torch.equal(arguments[3], expected[3])
    ran = cake_tune.decode(*arguments, **optional, **scratch())
    assert ran == getattr(cake_tune, DECODE)(*expected, **same, **scratch())
    assert torch.equal(arguments[3], expected[3])


def test_without_flashinfer_the_message_says_how_to_get_it(missing, tensors):
    arguments, optional = tensors()
    with pytest.raises(DeviceUnfitError, match="flashinfer-python is not installed: pip install 'cake-tune"):
        cake_tune.decode(*arguments, **optional, **scratch(), backend="flashinfer")


@pytest.mark.parametrize("function", [cake_tune.decode, cake_tune.prefill])
def test_an_unknown_backend_is_refused(function, tensors):
    arguments, optional = tensors()
    with pytest.raises(ContractError, match="backend: expected cake_tune or flashinfer, got 'cuda'"):
        function(*arguments, **optional, backend="cuda")


def test_a_plan_that_splits_needs_scratch_there_too(standin, tensors, table):
    arguments, optional = tensors()
    with registry.use_table(table), pytest.raises(ContractError, match="flashinfer: mid_out: expected scratch"):
        cake_tune.decode(*arguments, **optional, backend="flashinfer")
