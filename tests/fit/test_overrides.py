from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_points import POWERS, following, record_of, records_of, table_of

from cake_tune.fit.collect import collect
from cake_tune.fit.overrides import find_overrides, verdict
from cake_tune.planner.lookup import decide
from cake_tune.planner.registry import shipped_tables
from cake_tune.planner.rules import DecodeLimit, Share
from cake_tune.planner.shape import Plan, Shape, every_plan

PUBLISHED = {table.device.num_sms: table.rules for table in shipped_tables()}
TABLE = table_of(PUBLISHED[188], 188)
ODD = Plan("decode", 1, 3, 3)


def planted(wins, gain=0.3, tokens=POWERS, plan=ODD):
    """Points of 16 heads and top-k 512 that follow the rules, but at the num_tokens ``wins`` one other plan wins."""
    follow = following(PUBLISHED[188], 188)

    def time_of(shape, each):
        return follow(shape, each) * (1 - gain if each == plan and shape.num_tokens in wins else 1)

    return list(records_of(time_of, heads=(16,), topks=(512,), tokens=tokens))


def overrides(records, in_force=TABLE):
    return find_overrides(collect(records), TABLE, in_force)


def test_rules_that_lose_nothing_need_no_exception():
    assert overrides(records_of(following(PUBLISHED[188], 188))) == ()


def test_a_planted_exception_is_found_and_reaches_halfway_to_its_neighbours():
    (found,) = overrides(planted({8}))
    assert (found.num_heads, found.topk, found.plan) == (16, 512, ODD)
    # The midpoints of 4 and 8, and of 8 and 16, on a log axis.
    assert (found.min_tokens, found.max_tokens) == (6, 11)
    assert found.ties == ()
    assert found.regret > 0.2


def test_neighbours_with_one_plan_merge():
    (found,) = overrides(planted({4, 8, 16}))
    assert (found.min_tokens, found.max_tokens) == (3, 22)


def test_a_point_between_joins_where_the_plan_ties_and_parts_where_it_loses():
    assert len(overrides(planted({4, 16}))) == 2
    between = [replace(record, tie_band=0.5) if record.shape.num_tokens == 8 else record for record in planted({4, 16})]
    (merged,) = overrides(between)
    assert (merged.min_tokens, merged.max_tokens) == (3, 22)


def test_exceptions_end_at_the_measured_ends():
    first, last = overrides(planted({1, 128}))
    assert (first.min_tokens, first.max_tokens) == (1, 1)
    assert (last.min_tokens, last.max_tokens) == (91, 128)


def test_losing_less_than_the_tie_band_is_no_exception():
    assert overrides(planted({8}, gain=0.06)) != ()
    relaxed = [replace(record, tie_band=0.5) for record in planted({8}, gain=0.06)]
    assert overrides(relaxed) == ()


def test_of_tied_plans_the_simplest_is_taken_unless_one_is_in_force():
    shape = planted({8})[0].shape
    tied = {Plan("decode", 1, 1, 8): 10.0, Plan("decode", 1, 2, 4): 10.01}
    times = [(plan, tied.get(plan, 20.0)) for plan in every_plan(shape)]
    (simple,) = overrides([record_of(shape, times)])
    assert simple.plan == Plan("decode", 1, 1, 8)
    assert simple.ties == tuple(sorted(tied))

    before = replace(simple, plan=Plan("decode", 1, 2, 4), ties=())
    (kept,) = overrides([record_of(shape, times)], replace(TABLE, exceptions=(before,)))
    assert kept.plan == Plan("decode", 1, 2, 4)


def test_the_plan_in_force_is_what_its_table_says_on_the_measured_device_not_on_its_own():
    gb10 = next(table for table in shipped_tables() if table.device.num_sms == 48)
    own, here = (decide(gb10, num_tokens=2, num_heads=16, topk=512, num_sms=sms).plan for sms in (48, 24))
    assert (own.num_splits, here.num_splits) == (4, 2)
    fast = {Plan("decode", 1, 1, 8), own, here}
    shape = Shape(2, 16, 512)
    record = record_of(shape, [(plan, 10.0 if plan in fast else 20.0) for plan in every_plan(shape)])
    (found,) = find_overrides(collect([record]), table_of(splitting_always(8), 24), gb10)
    assert set(found.ties) == fast
    assert found.plan == here


def test_of_one_kernel_alone_the_plan_in_force_is_that_kernels():
    shape = Shape(64, 16, 512)
    assert PUBLISHED[188].kernel(64, 16, 512, 0) == "prefill"
    held = decide(TABLE, num_tokens=64, num_heads=16, topk=512, kernel="decode").plan
    assert held.num_splits == 2
    plans = [plan for plan in every_plan(shape) if plan.kernel == "decode"]
    record = record_of(shape, [(plan, 10.0 if plan.num_splits <= 2 else 20.0) for plan in plans])
    ruled = table_of(replace(splitting_always(8), decode_max_tokens=(DecodeLimit(num_tokens=None),)), 188)
    (found,) = find_overrides(collect([record]), ruled, TABLE)
    assert found.plan == held


def splitting_always(multiple):
    """Rules that split every shape as often, whatever it costs."""
    whole = Share(99999, 1)
    splitting = replace(
        PUBLISHED[188].splitting, grid_cap=whole, stream_cap=whole, min_cpb=1, whole_chunks=0, multiples=(multiple,)
    )
    return replace(PUBLISHED[188], splitting=splitting)


def test_a_kernel_that_was_not_raced_is_not_overruled():
    records = planted({64})
    decode_only = [
        replace(record, rows=tuple(row for row in record.rows if row.plan.kernel == "decode")) for record in records
    ]
    kernel = PUBLISHED[188].kernel(64, 16, 512, 0)
    assert kernel == "prefill"
    assert overrides(decode_only) == ()


def test_a_rule_whose_plan_failed_gets_an_exception():
    record = planted(set())[3]
    ruled = Plan("decode", 1, 4, 2)
    rows = tuple(replace(row, status="crashed", median_us=None) if row.plan == ruled else row for row in record.rows)
    (found,) = overrides([replace(record, rows=rows)])
    assert found.plan != ruled


def test_the_plan_that_the_race_kept_needs_no_exception_though_it_measures_slower():
    records = planted({8})
    ruled = decide(TABLE, num_tokens=8, num_heads=16, topk=512).plan
    assert overrides(records) != ()
    assert overrides([replace(record, best=ruled) for record in records if record.shape.num_tokens == 8]) == ()


def test_a_kept_plan_that_measures_slower_is_no_tie():
    record = planted(set())[3]
    ruled = decide(TABLE, num_tokens=record.shape.num_tokens, num_heads=16, topk=512).plan
    kept, best = Plan("decode", 1, 1, 8), Plan("decode", 1, 3, 3)
    tied = {best: 10.0, Plan("decode", 1, 8, 1): 10.01, kept: 10.5}
    assert ruled not in tied
    (found,) = overrides(
        [record_of(record.shape, [(row.plan, tied.get(row.plan, 20.0)) for row in record.rows], best=kept)]
    )
    assert (found.plan, found.ties) == (kept, ())


@given(st.sets(st.sampled_from(POWERS)))
@settings(max_examples=25, deadline=None)
def test_with_its_exceptions_a_table_loses_nowhere_more_than_the_tie_band(wins):
    samples = collect(planted(wins))
    table = replace(TABLE, exceptions=find_overrides(samples, TABLE, TABLE))
    for point in range(len(samples)):
        key = samples.key(point)
        found = table.override_index.find(key.num_tokens, key.num_heads, key.topk, key.extra_topk)
        assert (found is not None) == (key.num_tokens in wins)
        if found is not None:
            assert verdict(samples, point, found.plan).accepted


def test_verdicts_of_plans_without_a_time_are_the_slowest_and_say_so():
    samples = collect(planted(set())[:1])
    absent = verdict(samples, 0, Plan("prefill", 1, 1, 8))
    assert absent.judged
    unmeasured = verdict(samples, 0, Plan("decode", 2, 1, 8))
    assert unmeasured.regret == pytest.approx(max(verdict(samples, 0, plan).regret for plan in samples.plans))
    assert not unmeasured.accepted
    assert not unmeasured.timed
