"""The public planners: FlashInfer's signatures, the table in force, and errors by name."""

import inspect
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from planner_strategies import shapes

from cake_tune import planner
from cake_tune.errors import ContractError
from cake_tune.planner.lookup import REMEMBERED
from cake_tune.planner.rules import DecodeLimit
from cake_tune.planner.shape import HEAD_COUNTS, Plan, distinct_splits, simplest
from cake_tune.planner.table import Override

ALWAYS = DecodeLimit(num_tokens=None)
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


@pytest.mark.parametrize("name", PLANNERS)
@pytest.mark.parametrize("value", [1.0, 512.5, "2", True, None])
@pytest.mark.parametrize("argument", ["num_tokens", "num_heads", "topk", "extra_topk", "num_sms"])
def test_what_is_no_integer_is_refused_by_name_also_when_its_equal_was_answered_before(name, argument, value):
    question = {"num_tokens": 1, "num_heads": 64, "topk": 1, "extra_topk": 1, "num_sms": 1}
    public(name)(**question)
    with pytest.raises(ContractError, match=f"{argument}: expected an integer, got {value!r}"):
        public(name)(**{**question, argument: value})


@pytest.mark.parametrize("argument", ["max_splits", "head_tiles"])
def test_bounds_of_splits_are_integers_too(argument):
    question = {"num_tokens": 1, "num_heads": 64, "topk": 64, "num_sms": 188}
    public("plan_splits")(**question, **{argument: 1})
    for value in (1.0, True, "1"):
        with pytest.raises(ContractError, match=f"{argument}: expected an integer, got {value!r}"):
            public("plan_splits")(**question, **{argument: value})


def test_numpy_integers_are_integers_and_answers_are_plain_ones():
    number = np.int32
    splits = public("plan_splits")(
        num_tokens=number(4), num_heads=number(64), topk=number(512), num_sms=number(188), max_splits=number(16)
    )
    assert splits == public("plan_splits")(num_tokens=4, num_heads=64, topk=512, num_sms=188)
    large = public("scratch_bytes")(number(100_000), number(128), number(2048))
    assert large == public("scratch_bytes")(100_000, 128, 2048) > 2**31
    assert {type(value) for value in (*splits, large, public("num_chunks")(number(65)))} == {int}
    with pytest.raises(ContractError, match="topk: expected an integer"):
        public("num_chunks")(np.array([64, 64]))


@pytest.mark.parametrize("arguments", [(64.0,), (True,), (64, "1")])
def test_chunks_and_scratch_refuse_what_is_no_integer(arguments):
    with pytest.raises(ContractError, match="topk: expected an integer, got"):
        public("num_chunks")(*arguments)
    with pytest.raises(ContractError, match="topk: expected an integer, got"):
        public("scratch_bytes")(1, 64, *arguments)


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


def test_answers_are_remembered_within_bounds(shipped):
    table = replace(shipped[188])
    with planner.use_table(table):
        for num_tokens in range(REMEMBERED + 10):
            public("select_kernel")(num_tokens=num_tokens, num_heads=64, topk=512, num_sms=188)
    assert 0 < len(table.answers) <= REMEMBERED


def test_remembered_answers_leave_with_their_table(shipped):
    question = {"num_tokens": 40, "num_heads": 16, "topk": 512, "num_sms": 188}
    assert public("select_kernel")(**question) == "prefill"
    with planner.use_table(replace(shipped[188], rules=replace(shipped[188].rules, decode_max_tokens=(ALWAYS,)))):
        assert public("select_kernel")(**question) == "decode"
    assert public("select_kernel")(**question) == "prefill"


def test_the_simplest_plan_has_the_fewest_splits_then_options_then_comes_first():
    plain, built = Plan("decode", 2, 2, 4), Plan("decode", 1, 2, 4, (("stages", "3"),))
    whole = Plan("prefill", 4, 1, 8)
    assert simplest([built, plain, whole]) == whole
    assert simplest([built, plain]) == plain
    assert simplest([plain, Plan("decode", 1, 2, 4)]) == Plan("decode", 1, 2, 4)
    assert simplest([whole, Plan("decode", 2, 1, 8)]) == Plan("decode", 2, 1, 8)
