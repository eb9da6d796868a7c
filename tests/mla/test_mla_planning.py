"""From overrides to plans: what is explicit holds, the rest comes from the table in force."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from mla_arguments import call, valid_arguments

from cake_tune.errors import DeviceUnfitError
from cake_tune.mla import device_of
from cake_tune.mla.launch import launch
from cake_tune.mla.planning import plan_decode, plan_prefill
from cake_tune.planner.lookup import decide
from cake_tune.planner.registry import table_for
from cake_tune.planner.shape import HEAD_COUNTS, PREFILL_TILES, decode_tiles, num_chunks, resolve_splits

CPU = torch.device("cpu")
sizes = st.tuples(st.integers(0, 200), st.sampled_from(HEAD_COUNTS), st.integers(1, 2048), st.integers(0, 512))


def asked(num_tokens, num_heads, topk, extra_topk, **rest):
    """What the table in force says."""
    device = device_of(CPU)
    table, _ = table_for(device)
    numbers = {"num_tokens": num_tokens, "num_heads": num_heads, "topk": topk, "extra_topk": extra_topk}
    return decide(table, **numbers, num_sms=device.num_sms, **rest).plan


@given(sizes=sizes)
def test_without_overrides_the_table_decides(sizes):
    """Both kernels."""
    assert plan_decode(CPU, sizes, None, 16, None) == asked(*sizes, kernel="decode")
    if sizes[1] in PREFILL_TILES and num_chunks(*sizes[2:]) <= 16:
        assert plan_prefill(CPU, sizes, None) == asked(*sizes, kernel="prefill")


@given(sizes=sizes, splits=st.integers(1, 40), data=st.data())
def test_overrides_hold(sizes, splits, data):
    """Explicit splits are resolved, explicit tiles are kept, and each leaves the other to the table."""
    chunks = num_chunks(*sizes[2:])
    splits = max(splits, -(-chunks // 16))
    tiles = data.draw(st.sampled_from(decode_tiles(sizes[1])))
    both = plan_decode(CPU, sizes, splits, 16, tiles)
    assert (both.head_tiles, both.num_splits, both.chunks_per_block) == (tiles, *resolve_splits(chunks, splits))
    alone = plan_decode(CPU, sizes, splits, 16, None)
    assert (alone.num_splits, alone.head_tiles) == (both.num_splits, asked(*sizes, kernel="decode").head_tiles)
    assert plan_decode(CPU, sizes, None, 16, tiles).head_tiles == tiles


@given(sizes=sizes, max_splits=st.integers(3, 20))
def test_max_splits_bounds_the_table(sizes, max_splits):
    """It never takes more."""
    assert plan_decode(CPU, sizes, None, max_splits, None).num_splits <= max_splits


def test_integers_of_any_type_are_integers():
    """NumPy's too, and the plan that comes back holds Python's own."""
    plan = plan_decode(CPU, (2, 32, 300, 0), np.int64(3), np.int32(8), np.int8(2))
    assert plan == plan_decode(CPU, (2, 32, 300, 0), 3, 8, 2)
    assert {type(plan.head_tiles), type(plan.num_splits), type(plan.chunks_per_block)} == {int}
    assert plan_prefill(CPU, (2, 32, 300, 0), np.int64(2)) == plan_prefill(CPU, (2, 32, 300, 0), 2)


def test_the_op_reports_the_plan():
    """What comes back is what was resolved, and scratch for it is asked for."""
    plan = call(**valid_arguments(num_splits=3))
    assert plan == {"head_tiles": 1, "num_splits": 2, "chunks_per_block": 2}
    plan = call("prefill", **valid_arguments("prefill", head_tiles=2))
    assert plan == {"head_tiles": 2, "num_ctas": 2}


def test_a_gpu_without_its_kernel_says_so(monkeypatch):
    """The launch layer missing is the device's fault, and the message says what to install."""

    class Query:
        is_cuda = True
        device = "cuda:0"

    class Call:
        q = Query()
        kernel = "decode"

    monkeypatch.setitem(__import__("sys").modules, "cake_tune.cuda", None)
    with pytest.raises(DeviceUnfitError, match=r"^cuda:0: the compiled kernel cannot be loaded .* cake-tune\[cuda\]"):
        launch(Call())
