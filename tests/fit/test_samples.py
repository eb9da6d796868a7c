import math
from dataclasses import replace

import numpy as np
import pytest
from synthetic_points import record_of

from cake_tune.errors import UndecidedError
from cake_tune.fit.collect import collect
from cake_tune.journal.record import PlanRow, PointRecord
from cake_tune.planner.shape import Plan, Shape

ONE, TWO = Plan("decode", 1, 1, 8), Plan("decode", 1, 2, 4)
PREFILL = Plan("prefill", 1, 1, 8)
SHAPE = Shape(4, 16, 512)


def test_variants_of_one_key_combine_by_mean_log_time():
    records = [
        record_of(SHAPE, [(ONE, 10.0), (TWO, 20.0)]),
        record_of(replace(SHAPE, page_size=1), [(ONE, 40.0), (TWO, 20.0)]),
    ]
    samples = collect(records)
    assert len(samples) == 1
    assert np.allclose(np.exp(samples.log_time), [20.0, 20.0])
    assert samples.confirm[0].shape == (2, 24)


def test_a_plan_that_failed_in_one_variant_has_no_time():
    failed = PlanRow(TWO, "crashed", error="illegal address")
    other = replace(record_of(replace(SHAPE, sink=True), [(ONE, 11.0)]), rows=(PlanRow(ONE, "ok", 11.0), failed))
    samples = collect([record_of(SHAPE, [(ONE, 10.0), (TWO, 5.0)]), other])
    assert np.isnan(samples.log_time).tolist() == [False, True]


def test_records_of_one_shape_with_other_plans_are_one_variant():
    every = record_of(SHAPE, [(ONE, 10.0), (TWO, 20.0), (PREFILL, 30.0)])
    few = replace(record_of(SHAPE, [(ONE, 11.0), (TWO, 19.0)]), key="few")
    for records in ([every, few], [few, every]):
        samples = collect(records)
        assert samples.variants.tolist() == [1]
        assert np.exp(samples.log_time).tolist() == pytest.approx([10.0, 20.0, 30.0])
    other = replace(record_of(SHAPE, [(PREFILL, 30.0)]), key="other")
    assert np.exp(collect([few, other]).log_time).tolist() == pytest.approx([11.0, 19.0, 30.0])


def test_a_plan_that_some_variants_did_not_race_is_compared_with_what_all_did():
    sink = replace(SHAPE, sink=True)
    records = [record_of(SHAPE, [(ONE, 10.0), (TWO, 5.0)]), record_of(sink, [(ONE, 40.0)])]
    assert np.exp(collect(records).log_time).tolist() == pytest.approx([20.0, 10.0])
    apart = [record_of(SHAPE, [(ONE, 10.0)]), record_of(sink, [(TWO, 40.0), (PREFILL, 80.0)])]
    assert np.exp(collect(apart).log_time).tolist() == pytest.approx([20.0, 20.0, 40.0])


def test_a_variant_without_any_time_says_nothing():
    dead = PointRecord("dead", replace(SHAPE, sink=True), "timeout", rows=(PlanRow(ONE, "timeout"),))
    samples = collect([record_of(SHAPE, [(ONE, 10.0)]), dead])
    assert np.exp(samples.log_time).tolist() == pytest.approx([10.0])


@pytest.mark.parametrize("status", ["invalid", "oom", "crashed", "timeout", "unstable", "wrong"])
def test_rows_of_a_bad_status_are_not_times(status):
    record = replace(record_of(SHAPE, [(ONE, 10.0)]), rows=(PlanRow(ONE, "ok", 10.0), PlanRow(TWO, status, 1.0)))
    assert np.isnan(collect([record]).log_time).tolist() == [False, True]


def test_a_plan_too_slow_to_be_raced_has_the_time_of_its_probe_where_the_journal_kept_it():
    kept, lost = PlanRow(TWO, "too_slow", 35.0), PlanRow(TWO, "too_slow")
    for row, expected in ((kept, [10.0, 35.0]), (lost, [10.0])):
        record = replace(record_of(SHAPE, [(ONE, 10.0)]), rows=(PlanRow(ONE, "ok", 10.0), row))
        times = np.exp(collect([record]).log_time)
        assert times[~np.isnan(times)].tolist() == pytest.approx(expected)


def test_plans_that_no_default_lookup_can_answer_with_are_left_out():
    wide = Shape(1, 16, 2048)
    record = record_of(wide, [(Plan("decode", 1, 16, 2), 10.0), (Plan("decode", 1, 32, 1), 5.0)])
    assert [plan.num_splits for plan in collect([record]).plans] == [16]


def test_nothing_measured_is_undecided_and_says_how_much_was_seen():
    dead = PointRecord("dead", SHAPE, "crashed", rows=(PlanRow(ONE, "crashed"),))
    with pytest.raises(UndecidedError, match=r"got none \(points seen: 1\)"):
        collect([dead])
    with pytest.raises(UndecidedError, match=r"got none \(points seen: 0\)"):
        collect([])


def test_best_takes_the_first_of_equal_times_and_knows_missing_kernels():
    samples = collect([record_of(SHAPE, [(ONE, 10.0), (TWO, 10.0)])])
    rows, times = samples.best()
    assert rows.tolist() == [0]
    assert times.tolist() == pytest.approx([math.log(10.0)])
    assert samples.best("prefill")[0].tolist() == [-1]
    assert samples.timed("decode").tolist() == [True]
    assert samples.timed("prefill").tolist() == [False]
    assert samples.kernel_alone(0) == "decode"


def test_a_kernel_that_failed_was_tried_but_not_timed():
    failed = PlanRow(PREFILL, "crashed")
    samples = collect([PointRecord("k", SHAPE, "ok", (PlanRow(ONE, "ok", 10.0), failed))])
    assert [samples.timed(kernel).tolist() for kernel in ("decode", "prefill")] == [[True], [False]]
    assert samples.kernel_alone(0) is None
    assert samples.timed_row(0, PREFILL) is None
    assert samples.plans[samples.plan[samples.timed_row(0, ONE)]] == ONE


def test_the_plan_chosen_by_the_race_is_accepted_but_not_called_equal():
    record = record_of(SHAPE, [(ONE, 10.0), (TWO, 10.5), (PREFILL, 10.05)], best=TWO)
    samples = collect([record])
    assert samples.equal.tolist() == [True, False, True]
    assert samples.chosen.tolist() == [False, True, False]
    assert [samples.accepted(row) for row in samples.rows(0)] == [True, True, True]
    nothing_chosen = collect([replace(record, best=None)])
    assert [nothing_chosen.accepted(row) for row in nothing_chosen.rows(0)] == [True, False, True]


def test_what_variants_disagree_on_is_not_chosen():
    records = [record_of(replace(SHAPE, sink=sink), [(ONE, 10.0), (TWO, 10.5)], best=best) for sink, best in
               ((False, TWO), (True, ONE))]  # fmt: skip
    samples = collect(records)
    assert samples.variants.tolist() == [2]
    assert not samples.chosen.any()


def test_groups_and_take_keep_rows_with_their_points():
    records = [record_of(Shape(t, h, 512), [(ONE, t), (TWO, 2 * t)]) for h in (16, 32) for t in (1, 2, 4)]
    samples = collect(records)
    assert samples.groups() == [((16, 512, 0), range(3)), ((32, 512, 0), range(3, 6))]
    part = samples.take(np.array([1, 5]))
    assert part.num_tokens.tolist() == [2, 4]
    assert np.exp(part.log_time).tolist() == pytest.approx([2, 4, 4, 8])


def test_confirmed_times_are_paired_with_the_best_so_that_drift_cancels():
    drift = [1.0, 1.3, 1.0, 1.3, 1.0]
    rows = (
        PlanRow(ONE, "ok", 10.0, confirm=tuple(10 * d for d in drift)),
        PlanRow(TWO, "ok", 13.4, confirm=(None, *(10.5 * d for d in drift[1:]))),
    )
    log_time = collect([PointRecord("k", SHAPE, "ok", rows)]).log_time
    assert np.exp(log_time).tolist() == pytest.approx([10.0, 10.5])
