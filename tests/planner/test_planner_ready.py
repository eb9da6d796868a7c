"""What a table has ready for its exceptions is what a search through all of them gives, and what the long way says."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from planner_strategies import tables

from cake_tune.planner.decision import Decision
from cake_tune.planner.lookup import decide
from cake_tune.planner.outside import Outside
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
from cake_tune.planner.ready import Ready
from cake_tune.planner.registry import use_table
from cake_tune.planner.shape import PREFILL_TILES, Plan, decode_tiles
from cake_tune.planner.table import Override, Region

RULES = Outside(groups="rules", tokens="rules", why="a test")


@st.composite
def excepting(draw):
    """A table with exceptions, some of whose num_tokens were measured; rules may answer for all the others."""
    table = draw(tables.filter(lambda table: table.exceptions))
    tokens = st.sets(st.integers(0, 60), min_size=1, max_size=12).map(lambda drawn: tuple(sorted(drawn)))
    groups = sorted({(one.num_heads, one.topk, one.extra_topk) for one in table.exceptions})
    measured = tuple(Region(*group, decode=draw(tokens), prefill=draw(tokens)) for group in groups[:2])
    return replace(table, measured=measured, outside=draw(st.sampled_from([None, RULES])))


def searched(table, num_tokens, group):
    """The answer of the exception that holds the shape, by a search through all that the table lists."""
    holding = [
        entry
        for entry in table.exceptions
        if (entry.num_heads, entry.topk, entry.extra_topk) == group
        and entry.min_tokens <= num_tokens <= entry.max_tokens
    ]
    here = [region for region in table.measured if (region.num_heads, region.topk, region.extra_topk) == group]
    timed = {kernel for kernel in ("decode", "prefill") for region in here if num_tokens in getattr(region, kernel)}
    if not holding or (table.outside is not None and not timed):
        return None
    source = "measured" if holding[0].plan.kernel in timed else "rule"
    return Decision(holding[0].plan, source, table, table.device.num_sms, holding[0])


@given(excepting())
def test_what_is_ready_is_what_a_search_through_all_gives(table):
    for group in {(one.num_heads, one.topk, one.extra_topk) for one in table.exceptions}:
        for num_tokens in range(-1, 63):
            assert table.ready.find(num_tokens, *group) == searched(table, num_tokens, group)
    assert table.ready.find(1, 8, 5000, 0) is None


def unready(table):
    """The same table, with nothing ready: every question goes the long way."""
    slow = replace(table)
    slow.__dict__["ready"] = Ready(replace(table, exceptions=()))
    return slow


@given(excepting(), st.data())
def test_the_long_way_says_the_same_to_every_question(table, data):
    entry = data.draw(st.sampled_from(table.exceptions))
    tokens = data.draw(st.integers(max(0, entry.min_tokens - 1), entry.max_tokens + 1))
    question = {
        "num_tokens": tokens,
        "num_heads": entry.num_heads,
        "topk": entry.topk,
        "extra_topk": entry.extra_topk,
        "num_sms": table.device.num_sms,
    }
    max_splits = data.draw(st.integers(1, 40))
    assume(max_splits * 16 >= -(-entry.topk // 64) - (-entry.extra_topk // 64))
    tiles = data.draw(st.sampled_from(decode_tiles(entry.num_heads)))
    said = []
    for asked in (table, unready(table)):
        with use_table(asked):
            said.append(
                (
                    decide(asked, **question, max_splits=max_splits),
                    select_kernel(**question),
                    plan_head_tiles(**question),
                    plan_splits(**question, max_splits=max_splits, head_tiles=tiles),
                    plan_prefill(**question) if entry.num_heads in PREFILL_TILES else None,
                )
            )
    assert said[0] == said[1]


def test_the_answers_of_exceptions_are_made_once_and_fill_no_memory(shipped):
    plan = Plan("decode", 2, 4, 2)
    table = replace(shipped[188], exceptions=(Override(64, 512, 0, 3, 5, plan, 0.1),))
    question = {"num_heads": 64, "topk": 512}
    first, second = (decide(table, num_tokens=tokens, **question) for tokens in (3, 5))
    assert first is second
    assert first.plan is plan
    with use_table(table):
        assert select_kernel(num_tokens=4, num_sms=188, **question) == "decode"
    assert table.answers == {}
    with pytest.raises(ValueError, match=r"num_tokens: expected an integer, got 4\.0"):
        decide(table, num_tokens=4.0, **question)
