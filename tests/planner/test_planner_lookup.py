"""Looking a plan up: exceptions where they hold, the rules elsewhere, and an honest source."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from planner_strategies import shapes, tables

from cake_tune.errors import ContractError
from cake_tune.planner.lookup import REMEMBERED, decide
from cake_tune.planner.plans import (
    cake_sparse_mla_sm120_dsv4_nvfp4_plan_head_tiles as plan_head_tiles,
)
from cake_tune.planner.plans import (
    cake_sparse_mla_sm120_dsv4_nvfp4_plan_prefill as plan_prefill,
)
from cake_tune.planner.plans import (
    cake_sparse_mla_sm120_dsv4_nvfp4_plan_splits as plan_splits,
)
from cake_tune.planner.plans import (
    cake_sparse_mla_sm120_dsv4_nvfp4_select_kernel as select_kernel,
)
from cake_tune.planner.registry import use_table
from cake_tune.planner.shape import Device, Plan, Shape, check_plan, decode_tiles, prefill_tiles
from cake_tune.planner.table import Certificate, Override, Provenance, Region

DECODE = Plan("decode", 1, 3, 3, (("stages", "3"),))
PREFILL = Plan("prefill", 4, 1, 8)
ENOUGH = 64


@pytest.fixture(scope="module")
def measured(shipped):
    """A table of 132 SMs, measured for 64 heads at topk 512 (1 to 64 tokens) and for 16 at topk 128 (1 to 8).

    At 64 heads prefill was not measured beyond 16 tokens.
    """
    return replace(
        shipped[188],
        device=Device("NVIDIA H200", "sm_90a", 132),
        provenance=Provenance("measured", "a sweep"),
        exceptions=(Override(64, 512, 0, 2, 3, DECODE, 0.031), Override(64, 512, 0, 4, 6, PREFILL, 0.012)),
        measured=(
            Region(16, 128, 0, decode=(1, 8), prefill=(1, 2, 8)),
            Region(64, 512, 0, decode=(1, 2, 4, 8, 16, 32, 64), prefill=(1, 2, 4, 8, 16)),
        ),
    )


def asked(shape):
    return {name: getattr(shape, name) for name in ("num_tokens", "num_heads", "topk", "extra_topk")}


def timed(table, shape, kernel):
    """The num_tokens at which ``table`` says that its plan of ``kernel`` was timed."""
    group = (shape.num_heads, shape.topk, shape.extra_topk)
    found = (entry for entry in table.measured if (entry.num_heads, entry.topk, entry.extra_topk) == group)
    return next((getattr(entry, kernel) for entry in found), ())


def some_shape(table, shape, data):
    """``shape``, or one that an exception or a measured region of ``table`` holds: drawn ones hardly ever meet them."""
    if table.measured and data.draw(st.booleans()):
        held = data.draw(st.sampled_from(table.measured))
        tokens = st.sampled_from((*held.decode, *held.prefill)) | st.integers(0, 60)
        return Shape(data.draw(tokens), held.num_heads, held.topk, held.extra_topk)
    if table.exceptions and data.draw(st.booleans()):
        held = data.draw(st.sampled_from(table.exceptions))
        return Shape(
            data.draw(st.integers(held.min_tokens, held.max_tokens)), held.num_heads, held.topk, held.extra_topk
        )
    return shape


@given(tables, shapes, st.data())
def test_every_decision_can_run_and_an_exception_that_holds_the_shape_is_taken(table, shape, data):
    shape = some_shape(table, shape, data)
    decision = decide(table, **asked(shape), max_splits=ENOUGH)
    check_plan(decision.plan, shape.num_heads, shape.chunks)
    holding = [
        entry
        for entry in table.exceptions
        if (entry.num_heads, entry.topk, entry.extra_topk) == (shape.num_heads, shape.topk, shape.extra_topk)
        and entry.min_tokens <= shape.num_tokens <= entry.max_tokens
    ]
    assert ([decision.override] if decision.override else []) == holding
    if holding:
        assert decision.plan == holding[0].plan
    if shape.num_tokens not in timed(table, shape, decision.plan.kernel):
        assert decision.source != "measured"
    elif holding:
        assert decision.source == "measured"
    else:
        usual = decide(table, **asked(shape), kernel=decision.plan.kernel, max_splits=max(16, -(-shape.chunks // 16)))
        assert decision.source == ("measured" if usual.plan == decision.plan else "rule")


@given(tables, shapes, st.integers(1, ENOUGH), st.booleans(), st.data())
def test_decide_is_the_public_planners_put_together(table, shape, max_splits, own, data):
    shape = some_shape(table, shape, data)
    assume(max_splits * 16 >= shape.chunks)
    # A table of no GPU answers the public planners for its own num_sms only.
    own = own or not table.device.is_gpu
    question = {**asked(shape), "num_sms": table.device.num_sms if own else table.device.num_sms + 1}
    with use_table(table):
        kernel = select_kernel(**question)
        tiles = plan_head_tiles(**question)
        splits = plan_splits(**question, max_splits=max_splits, head_tiles=tiles)
        decode = decide(table, **question, max_splits=max_splits, kernel="decode").plan
        best = decide(table, **question, max_splits=max_splits).plan
        assert (decode.head_tiles, decode.num_splits, decode.chunks_per_block) == (tiles, *splits)
        assert best.kernel == kernel
        if prefill_tiles(shape.num_heads, shape.chunks):
            prefill = decide(table, **question, max_splits=max_splits, kernel="prefill").plan
            assert prefill.head_tiles == plan_prefill(**question)
            assert best in (decode, prefill)
        else:
            assert best == decode


@given(tables, shapes, st.data())
def test_asked_tiles_and_bounds_are_kept(table, shape, data):
    shape = some_shape(table, shape, data)
    tiles = data.draw(st.sampled_from(decode_tiles(shape.num_heads)))
    max_splits = data.draw(st.integers(-(-shape.chunks // 16), ENOUGH))
    plan = decide(table, **asked(shape), max_splits=max_splits, head_tiles=tiles).plan
    assert (plan.kernel, plan.head_tiles) == ("decode", tiles)
    assert plan.num_splits <= max_splits
    if prefill_tiles(shape.num_heads, shape.chunks):
        tiles = data.draw(st.sampled_from(prefill_tiles(shape.num_heads, shape.chunks)))
        plan = decide(table, **asked(shape), kernel="prefill", head_tiles=tiles, max_splits=ENOUGH).plan
        assert plan == replace(plan, kernel="prefill", head_tiles=tiles, num_splits=1, chunks_per_block=shape.chunks)


@given(tables, shapes, st.integers(1, 300), st.data())
def test_another_num_sms_is_always_extrapolated_and_never_an_exception(table, shape, num_sms, data):
    assume(num_sms != table.device.num_sms)
    shape = some_shape(table, shape, data)
    decision = decide(table, **asked(shape), num_sms=num_sms, max_splits=ENOUGH)
    assert (decision.source, decision.override) == ("extrapolated", None)
    assert f"extrapolated to {num_sms} SMs" in decision.why


@pytest.mark.parametrize(
    ("question", "source"),
    [
        ((1, 64, 512), "measured"),
        ((16, 64, 512), "measured"),
        ((8, 16, 128), "measured"),
        ((7, 64, 512), "rule"),
        ((9, 64, 512), "rule"),
        ((9, 16, 128), "rule"),
        ((1, 32, 256), "rule"),
        ((16, 48, 512), "rule"),
        ((17, 64, 512), "extrapolated"),
        ((64, 64, 512), "extrapolated"),
        ((65, 64, 512), "extrapolated"),
        ((0, 64, 512), "extrapolated"),
        ((1, 128, 512), "extrapolated"),
        ((1, 8, 128), "extrapolated"),
        ((1, 64, 513), "extrapolated"),
        ((1, 64, 127), "extrapolated"),
    ],
)
def test_source_says_measured_on_what_was_measured_and_rule_inside_its_hull(measured, question, source):
    num_tokens, num_heads, topk = question
    decision = decide(measured, num_tokens=num_tokens, num_heads=num_heads, topk=topk)
    assert decision.source == source
    assert measured.label in decision.why


def test_an_extra_cache_that_was_never_measured_is_extrapolated(measured):
    assert decide(measured, num_tokens=1, num_heads=64, topk=512, extra_topk=64).source == "extrapolated"


def test_a_bound_keeps_measured_only_while_it_leaves_the_timed_plan(measured):
    question = {"num_tokens": 1, "num_heads": 64, "topk": 512}
    plan = decide(measured, **question).plan
    assert (plan.head_tiles, plan.num_splits) == (1, 4)
    for same in ({"max_splits": 4}, {"max_splits": 32}, {"head_tiles": 1}, {"kernel": "decode"}):
        assert decide(measured, **question, **same)[:2] == (plan, "measured")
    for other in ({"max_splits": 3}, {"head_tiles": 2}):
        decision = decide(measured, **question, **other)
        assert decision.plan != plan
        assert decision.source == "rule"


def test_each_kernel_is_measured_where_its_own_plan_was_timed(measured):
    question = {"num_tokens": 64, "num_heads": 64, "topk": 512}
    assert decide(measured, **question).plan.kernel == "prefill"
    assert decide(measured, **question).source == "extrapolated"
    assert decide(measured, **question, kernel="decode").source == "measured"
    assert decide(measured, **{**question, "num_tokens": 33}, kernel="decode").source == "rule"


def test_a_published_table_rules_on_its_own_device_and_extrapolates_elsewhere(shipped):
    question = {"num_tokens": 3, "num_heads": 48, "topk": 77}
    assert decide(shipped[170], **question).source == "rule"
    assert decide(shipped[170], **question, num_sms=170).source == "rule"
    assert decide(shipped[170], **question, num_sms=132).source == "extrapolated"


def test_a_measured_table_without_regions_only_extrapolates(measured):
    assert decide(replace(measured, measured=()), num_tokens=1, num_heads=64, topk=512).source == "extrapolated"


def test_an_exception_says_what_the_rules_would_lose_and_whether_it_was_measured_here(measured):
    at, between = (decide(measured, num_tokens=tokens, num_heads=64, topk=512) for tokens in (2, 3))
    assert (at.plan, at.source) == (DECODE, "measured")
    assert at.why == "exception of NVIDIA H200 (132 SMs, measured) for 2 to 3 tokens: the rules would lose 3.1%"
    assert (between.plan, between.source) == (DECODE, "rule")
    assert "for 2 to 3 tokens, measured at other num_tokens among these: the rules would lose 3.1%" in between.why


def test_a_decode_exception_answers_decode_questions_within_their_bounds(measured):
    question = {"num_tokens": 2, "num_heads": 64, "topk": 512}
    assert decide(measured, **question).plan == DECODE
    assert decide(measured, **question, kernel="decode").plan == DECODE
    assert decide(measured, **question, kernel="decode").source == "measured"
    assert decide(measured, **question, head_tiles=1, max_splits=3).plan == DECODE
    rules = measured.rules
    bounded = decide(measured, **question, max_splits=2)
    assert (bounded.plan.num_splits, bounded.plan.chunks_per_block) == rules.splits(
        2, 64, 8, 132, max_splits=2, head_tiles=1
    )
    assert (bounded.plan.head_tiles, bounded.source, bounded.override) == (1, "rule", None)
    other_tiles = decide(measured, **question, head_tiles=2).plan
    assert (other_tiles.num_splits, other_tiles.chunks_per_block) == rules.splits(
        2, 64, 8, 132, max_splits=16, head_tiles=2
    )
    assert rules.prefill_tiles(2, 64, 512, 0) != DECODE.head_tiles
    assert decide(measured, **question, kernel="prefill").plan.head_tiles == rules.prefill_tiles(2, 64, 512, 0)


def test_an_exception_beyond_the_default_bound_answers_only_when_asked_for(measured):
    finest = Plan("decode", 1, 32, 1)
    table = replace(
        measured, exceptions=(Override(64, 2048, 0, 1, 1, finest, 0.05),), measured=(Region(64, 2048, 0, decode=(1,)),)
    )
    question = {"num_tokens": 1, "num_heads": 64, "topk": 2048}
    assert (decide(table, **question).plan.num_splits, decide(table, **question).override) == (16, None)
    assert decide(table, **question, max_splits=32)[:2] == (finest, "measured")


def test_a_prefill_exception_leaves_decode_questions_to_the_rules(measured):
    question = {"num_tokens": 5, "num_heads": 64, "topk": 512}
    assert decide(measured, **question).plan == PREFILL
    assert decide(measured, **question, max_splits=1).plan == PREFILL
    decode = decide(measured, **question, kernel="decode")
    tiles = measured.rules.head_tiles(5, 64, 8, 132)
    assert decode.plan == Plan("decode", tiles, *measured.rules.splits(5, 64, 8, 132, max_splits=16, head_tiles=tiles))
    assert decode.source == "rule"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_tokens": -1}, "num_tokens: expected an integer >= 0, got -1"),
        ({"num_heads": 24}, "num_heads: expected one of"),
        ({"topk": 0}, "topk: expected an integer >= 1, got 0"),
        ({"extra_topk": -1}, "extra_topk: expected an integer >= 0, got -1"),
        ({"num_sms": 0}, "num_sms: expected an integer >= 1, got 0"),
        ({"head_tiles": 4}, "head_tiles: expected 1 or 2 for 64 heads, got 4"),
        ({"head_tiles": 0}, "head_tiles: expected 1 or 2 for 64 heads, got 0"),
        ({"num_heads": 48, "head_tiles": 2}, "head_tiles: expected 1 for 48 heads, got 2"),
        ({"kernel": "prefill", "head_tiles": 3}, "head_tiles: prefill of 64 heads and 8 chunks has 1, 2, 4, got 3"),
        ({"kernel": "prefill", "num_heads": 8}, "num_heads: expected one of 16"),
        ({"kernel": "prefill", "topk": 1025}, "prefill of 64 heads and 17 chunks has none"),
        ({"topk": 2048, "max_splits": 1}, "max_splits: 32 chunks need at least 2 splits"),
        ({"topk": 2048, "max_splits": 0, "kernel": "decode"}, "max_splits: .* got 0"),
    ],
)
def test_what_cannot_run_is_refused_by_name(shipped, change, message):
    with pytest.raises(ContractError, match=message):
        decide(shipped[188], **{"num_tokens": 1, "num_heads": 64, "topk": 512, **change})


@pytest.mark.parametrize(
    "name", ["num_tokens", "num_heads", "topk", "extra_topk", "num_sms", "max_splits", "head_tiles"]
)
@pytest.mark.parametrize("value", [1.0, "1", True, [1], b"1"])
def test_what_is_no_integer_is_refused_by_name_also_when_its_equal_was_answered_before(shipped, name, value):
    question = {"num_tokens": 1, "num_heads": 64, "topk": 512, "extra_topk": 1, "num_sms": 1, "head_tiles": 1}
    decide(shipped[188], **{**question, "max_splits": 16, name: 64 if name == "num_heads" else 1})
    with pytest.raises(ContractError, match=f"{name}: expected an integer, got "):
        decide(shipped[188], **{**question, name: value})


def test_an_unknown_kernel_is_refused(shipped):
    with pytest.raises(ContractError, match="kernel: expected decode, prefill or None, got 'merge'"):
        decide(shipped[188], num_tokens=1, num_heads=64, topk=512, kernel="merge")


def test_the_same_question_is_answered_from_a_bounded_memory(shipped):
    table = replace(shipped[188])
    first = decide(table, num_tokens=1, num_heads=64, topk=512)
    assert decide(table, num_tokens=1, num_heads=64, topk=512) is first
    for num_tokens in range(REMEMBERED + 10):
        decide(table, num_tokens=num_tokens, num_heads=64, topk=512)
    assert len(table.answers) <= REMEMBERED
    assert decide(table, num_tokens=1, num_heads=64, topk=512) == first


@pytest.mark.parametrize(("kernel", "untimed"), [("decode", "prefill"), ("prefill", "decode")])
def test_a_table_of_one_kernel_says_that_it_cannot_vouch_for_the_other(measured, kernel, untimed):
    alone = replace(
        measured,
        exceptions=(),
        measured=(Region(64, 512, 0, **{kernel: (1, 2, 4)}),),
        certificate=Certificate(3, 0.0, 0.0, 0.0),
    )
    said = f"; the table timed no {untimed}: its certificate is for {kernel} alone"
    assert measured.untimed is None
    assert alone.untimed == untimed
    for asked_for, source in ((kernel, "measured"), (untimed, "extrapolated"), (None, None)):
        decision = decide(alone, num_tokens=2, num_heads=64, topk=512, kernel=asked_for)
        assert decision.why.endswith(said)
        assert source in (None, decision.source)
    assert decide(replace(alone, certificate=None), num_tokens=2, num_heads=64, topk=512).why.endswith(
        f"; the table timed no {untimed}"
    )


def test_published_rules_timed_nothing_and_say_nothing_of_it(shipped):
    assert shipped[188].untimed is None
    assert "timed" not in decide(shipped[188], num_tokens=2, num_heads=64, topk=512).why
