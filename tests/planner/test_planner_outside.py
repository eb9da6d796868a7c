"""Shapes that were not measured: the table's method answers, honestly marked, and nothing else changes."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planner_strategies import fractions

from cake_tune.errors import ContractError, TableError
from cake_tune.planner import plans as planners
from cake_tune.planner.cost import CostModel, KernelCost
from cake_tune.planner.lookup import decide
from cake_tune.planner.modelled import cheapest
from cake_tune.planner.outside import Outside, Score
from cake_tune.planner.registry import use_table
from cake_tune.planner.regret import Regret
from cake_tune.planner.shape import HEAD_COUNTS, Plan, Shape, every_plan
from cake_tune.planner.table import (
    Override,
    Region,
    load_table,
    save_table,
    table_from_json,
    table_text,
    table_to_json,
)

KINDS = (("decode", 1), ("decode", 2), ("prefill", 1), ("prefill", 2), ("prefill", 4))
MODEL = CostModel(
    launch_us=2.0,
    gather_us=0.005,
    reread=0.3,
    merge_us=0.5,
    merge_step_us=0.2,
    merge_row_us=0.001,
    pair_us=None,
    wave_share=0.97,
    sharpness=4.0,
    merge_batch=8,
    order="row_by_row",
    kernels=tuple(
        KernelCost(
            kernel=kernel,
            head_tiles=tiles,
            heads_per_block=16 * tiles,
            blocks_per_sm=1,
            block_us=1.0 + tiles,
            chunk_us=1.0 + 0.4 * tiles,
            crowding=0.5,
        )
        for kernel, tiles in KINDS
    ),
)
MODELLED = Outside(groups="cost_model", tokens="cost_model", why="a test", cost_model=MODEL)
CARRIED = Outside(groups="rules+exceptions", tokens="rules+exceptions", why="a test")
EXCEPTION = Override(64, 512, 0, 3, 5, Plan("decode", 2, 4, 2), 0.1, (Plan("decode", 2, 4, 2),))


@pytest.fixture(scope="module")
def table(shipped):
    """188 SMs, measured at 64 heads and topk 512 from 1 to 8 tokens, with an exception for 3 to 5."""
    published = shipped[188]
    return replace(
        published,
        provenance=replace(published.provenance, kind="measured"),
        exceptions=(EXCEPTION,),
        measured=(Region(64, 512, 0, decode=(1, 4, 8), prefill=(1, 4, 8)), Region(128, 1024, 0, decode=(1, 8))),
        outside=MODELLED,
    )


def ask(table, tokens, heads, topk, **bounds):
    return decide(table, num_tokens=tokens, num_heads=heads, topk=topk, **bounds)


shapes = st.builds(Shape, st.integers(0, 300), st.sampled_from(HEAD_COUNTS), st.integers(1, 4096))


def test_a_measured_shape_is_answered_as_before(table):
    assert ask(table, 4, 64, 512) == ask(replace(table, outside=None), 4, 64, 512)._replace(table=table)
    assert ask(table, 4, 64, 512).plan == EXCEPTION.plan


def test_the_cost_model_answers_between_and_beyond_what_was_measured(table):
    between = ask(table, 3, 64, 512)
    assert (between.method, between.source, between.override) == ("cost_model", "rule", None)
    assert between.plan == cheapest(MODEL, 3, 64, 8, 188)
    assert between.why.startswith("cost model of NVIDIA RTX PRO 6000")
    beyond = ask(table, 3, 64, 2048)
    assert (beyond.method, beyond.source) == ("cost_model", "extrapolated")
    assert "extrapolated beyond what was measured" in beyond.why


def test_on_another_number_of_sms_the_rules_answer(table):
    assert ask(table, 3, 64, 512, num_sms=48) == ask(replace(table, outside=None), 3, 64, 512, num_sms=48)._replace(
        table=table
    )


def test_the_second_answer_is_the_same_object(table):
    assert ask(table, 7, 48, 700) is ask(table, 7, 48, 700)


@given(shapes)
@settings(max_examples=150, deadline=None)
def test_the_cheapest_is_the_least_of_all_plans(shape):
    chosen = cheapest(MODEL, shape.num_tokens, shape.num_heads, shape.chunks, 188)
    able = [plan for plan in every_plan(shape) if plan.num_splits <= 16]
    times = {plan: MODEL.us(max(1, shape.num_tokens), shape.num_heads, shape.chunks, plan, 188) for plan in able}
    assert times[chosen] == min(times.values())


@given(shapes)
@settings(max_examples=150, deadline=None)
def test_the_planners_agree_with_the_decision(table, shape):
    asked = {"num_tokens": shape.num_tokens, "num_heads": shape.num_heads, "topk": shape.topk}
    plan = decide(table, **asked).plan
    with use_table(table):
        asked["num_sms"] = 188
        assert planners.cake_sparse_mla_sm120_dsv4_nvfp4_select_kernel(**asked) == plan.kernel
        if plan.kernel == "prefill":
            assert planners.cake_sparse_mla_sm120_dsv4_nvfp4_plan_prefill(**asked) == plan.head_tiles
        else:
            tiles = planners.cake_sparse_mla_sm120_dsv4_nvfp4_plan_head_tiles(**asked)
            splits = planners.cake_sparse_mla_sm120_dsv4_nvfp4_plan_splits(**asked, head_tiles=tiles)
            assert (tiles, *splits) == (plan.head_tiles, plan.num_splits, plan.chunks_per_block)


def test_bounds_are_kept(table):
    assert ask(table, 1, 16, 2048).plan.num_splits > 3
    assert ask(table, 1, 16, 2048, max_splits=3).plan.num_splits <= 3
    assert ask(table, 1, 64, 600, head_tiles=2).plan.head_tiles == 2
    assert ask(table, 1, 64, 600, kernel="prefill").plan.kernel == "prefill"
    with pytest.raises(ContractError, match="max_splits: 32 chunks need at least 2 splits"):
        ask(table, 1, 16, 2048, max_splits=1)


def test_an_exception_is_carried_to_the_shapes_nearest_to_it(table):
    carrying = replace(table, outside=CARRIED)
    near = ask(carrying, 4, 64, 640)
    assert near.plan == Plan("decode", 2, 4, 3)  # 10 chunks in 4 splits
    assert (near.method, near.source, near.override) == ("rules+exceptions", "rule", EXCEPTION)
    assert "at 64 heads, topk 512, the nearest measured" in near.why
    # Nearer to what has none, or unable to run the plan: the rules.
    for heads, topk in ((128, 512), (48, 512)):
        assert ask(carrying, 4, heads, topk).plan == ask(replace(table, outside=None), 4, heads, topk).plan
        assert ask(carrying, 4, heads, topk).method is None


def test_rules_alone_leave_exceptions_to_measured_num_tokens(table):
    ruled = replace(table, outside=Outside(groups="rules", tokens="rules", why="a test"))
    assert ask(ruled, 4, 64, 512).override == EXCEPTION
    assert ask(ruled, 3, 64, 512).override is None
    assert ask(replace(table, outside=None), 3, 64, 512).override == EXCEPTION


@given(st.sampled_from([MODELLED, CARRIED]), fractions)
def test_the_table_survives_its_file(table, tmp_path_factory, outside, mean):
    scores = (Score("rules", Regret(3, mean, mean, mean)), Score("cost_model", None, Regret(2, mean, mean, mean)))
    path = tmp_path_factory.mktemp("tables") / "table.json"
    written = replace(table, outside=replace(outside, scores=scores))
    save_table(written, path)
    assert load_table(path) == written
    assert table_text(load_table(path)) == path.read_text(encoding="utf-8")


def test_a_table_of_schema_2_answers_as_it_did(table):
    old = table_to_json(replace(table, outside=None)) | {"schema_version": 2}
    read = table_from_json(json.loads(json.dumps(old)))
    assert read == replace(table, outside=None)
    assert ask(read, 3, 64, 512).override == EXCEPTION
    with pytest.raises(TableError, match=r"\$\.outside: unknown key in a table of schema version 2"):
        table_from_json(table_to_json(table) | {"schema_version": 2})


def test_methods_and_model_belong_together():
    with pytest.raises(TableError, match="cost_model: expected exactly where groups or tokens is cost_model"):
        Outside(groups="cost_model", tokens="rules", why="")
    with pytest.raises(TableError, match="cost_model: expected exactly where"):
        Outside(groups="rules", tokens="rules", why="", cost_model=MODEL)
    with pytest.raises(TableError, match="scores: expected one entry per method"):
        Outside(groups="rules", tokens="rules", why="", scores=(Score("rules"), Score("rules")))
