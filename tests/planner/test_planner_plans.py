"""The public planners: FlashInfer's signatures, the table in force, and errors by name."""

import inspect
from dataclasses import replace

import pytest
from hypothesis import given
from planner_strategies import shapes

from cake_tune import planner
from cake_tune.errors import ContractError
from cake_tune.planner.shape import HEAD_COUNTS, Plan, distinct_splits
from cake_tune.planner.table import Override

PREFIX = "cake_sparse_mla_sm120_dsv4_nvfp4_"
PLANNERS = ("plan_head_tiles", "plan_splits", "select_kernel", "plan_prefill")


def public(name):
    return getattr(planner, PREFIX + name)


@pytest.mark.parametrize("name", PLANNERS)
def test_planners_take_keywords_only_with_the_published_names_and_defaults(name):
    parameters = inspect.signature(public(name)).parameters.values()
    assert {parameter.kind for parameter in parameters} == {inspect.Parameter.KEYWORD_ONLY}
    defaults = {parameter.name: parameter.default for parameter in parameters}
    bounds = {"max_splits": 16, "head_tiles": 1} if name == "plan_splits" else {}
    required = dict.fromkeys(("num_tokens", "num_heads", "topk", "num_sms"), inspect.Parameter.empty)
    assert defaults == {**required, "extra_topk": 0, **bounds}


@given(shapes)
def test_scratch_covers_the_most_splits_of_any_plan(shape):
    chunks = public("num_chunks")(shape.topk, shape.extra_topk)
    assert chunks == shape.chunks == max(splits for splits, _ in distinct_splits(chunks))
    rows = shape.num_tokens * shape.num_heads
    size = public("scratch_bytes")(shape.num_tokens, shape.num_heads, shape.topk, shape.extra_topk)
    # A split's partial row is 512 BF16 and a float32 LSE; the rest is one LSE per row and alignment.
    assert size == rows * chunks * (512 * 2 + 4) + rows * 4 + 48


def test_chunks_pad_the_two_caches_separately():
    assert [public("num_chunks")(*topks) for topks in ((1,), (64,), (65,), (1, 1), (64, 64), (65, 1))] == [
        1,
        1,
        2,
        2,
        2,
        3,
    ]


def test_format_info_agrees_with_the_planners():
    facts = public("format_info")()
    assert facts["heads"] == public("supported_heads")() == HEAD_COUNTS
    assert facts["query_dim"] * facts["chunk_width"] == 512 * 64
    # 448 codes of four bits, 64 BF16 values, 28 scales and 4 bytes of padding.
    assert facts["bytes_per_token"] == 448 // 2 + 64 * 2 + 448 // 16 + 4
    for heads, tiles in facts["prefill_head_tiles"].items():
        assert public("plan_prefill")(num_tokens=1000, num_heads=heads, topk=64, num_sms=188) in tiles


@pytest.mark.parametrize("name", PLANNERS)
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_tokens": -1}, "num_tokens: expected an integer >= 0, got -1"),
        ({"num_heads": 17}, r"num_heads: expected one of 8, 16, 32, 48, 64, 80, 96, 112, 128, got 17"),
        ({"topk": 0}, "topk: expected an integer >= 1, got 0"),
        ({"extra_topk": -64}, "extra_topk: expected an integer >= 0, got -64"),
        ({"num_sms": 0}, "num_sms: expected an integer >= 1, got 0"),
    ],
)
def test_arguments_out_of_range_are_value_errors_that_name_them(name, change, message):
    with pytest.raises(ValueError, match=message) as caught:
        public(name)(**{"num_tokens": 1, "num_heads": 64, "topk": 512, "num_sms": 188, **change})
    assert isinstance(caught.value, ContractError)


@pytest.mark.parametrize("arguments", [(0,), (64, -1)])
def test_chunks_and_scratch_refuse_what_has_no_candidates(arguments):
    with pytest.raises(ContractError, match="topk: expected"):
        public("num_chunks")(*arguments)
    with pytest.raises(ContractError, match="topk: expected"):
        public("scratch_bytes")(1, 64, *arguments)


def test_splits_refuse_tiles_the_heads_do_not_have_and_bounds_that_are_too_low():
    question = {"num_tokens": 1, "num_heads": 48, "topk": 2048, "num_sms": 188}
    with pytest.raises(ContractError, match="head_tiles: expected 1 for 48 heads, got 2"):
        public("plan_splits")(**question, head_tiles=2)
    with pytest.raises(ContractError, match=r"max_splits: 32 chunks need at least 2 splits .* got 1"):
        public("plan_splits")(**question, max_splits=1)


def test_planners_answer_from_the_table_in_force(shipped):
    question = {"num_tokens": 7, "num_heads": 64, "topk": 512}
    entries = (
        Override(64, 512, 0, 7, 7, Plan("decode", 2, 3, 3), 0.02),
        Override(64, 512, 0, 8, 8, Plan("prefill", 1, 1, 8), 0.02),
    )
    before = public("plan_splits")(**question, num_sms=188)
    with planner.use_table(replace(shipped[188], exceptions=entries)):
        assert public("plan_head_tiles")(**question, num_sms=188) == 2
        assert public("plan_splits")(**question, num_sms=188, head_tiles=2) == (3, 3)
        assert public("plan_splits")(**question, num_sms=188) == before
        assert public("select_kernel")(**{**question, "num_tokens": 8}, num_sms=188) == "prefill"
        assert public("plan_prefill")(**{**question, "num_tokens": 8}, num_sms=188) == 1
    assert public("select_kernel")(**{**question, "num_tokens": 8}, num_sms=188) == "decode"
