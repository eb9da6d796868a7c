import math
from pathlib import Path

import pytest
from hypothesis import given
from study_records import PLANS, record, row, sweeps

from cake_tune.fit.collect import collect
from cake_tune.journal.record import PlanRow
from cake_tune.journal.run import RunDirectory
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.shape import Plan
from cake_tune.study.points import measured_point, measured_points, reported_times
from cake_tune.study.recorded import trial_of

DATA = Path(__file__).parent.parent / "data"
ONE, TWO, FOUR, PREFILL = PLANS


@pytest.mark.parametrize("name", ["report-run", "quickstart-run", "study/a"])
def test_times_are_those_that_the_fit_reads(name):
    """A figure of a study and the table it judges rest on the same numbers."""
    for each in RunDirectory(DATA / name).read_records():
        times = reported_times(each)
        if not times:
            continue
        samples = collect([each])
        for number in samples.rows(0):
            plan = samples.plans[samples.plan[number]]
            if plan in times:
                assert math.log(times[plan]) == pytest.approx(samples.log_time[number], abs=1e-9)
            else:
                assert math.isnan(samples.log_time[number])


def test_confirmed_times_are_taken_in_pairs():
    """The medians say 2 % apart; round by round it is 5 %, since the device drifted."""
    one = row(ONE, [10.0], [10.0, 11.0, 12.0, 13.0, 14.0])
    two = row(TWO, [10.0], [10.5, 11.55, 12.6, 13.65, 14.7], median_us=12.24)
    times = reported_times(record([one, two]))
    assert times[TWO] / times[ONE] == pytest.approx(1.05)


def test_where_a_time_comes_from_is_told():
    rows = [row(ONE, [10.0], [10.0] * 3), row(TWO, [11.0]), row(FOUR, [12.0], status="pruned"), PlanRow(PREFILL, "oom")]
    point = measured_point(record(rows))
    assert [point.kind(plan) for plan in PLANS] == ["confirmed", "raced", "left", "none"]
    assert point.fastest == ONE
    assert point.kernel_alone is None
    assert measured_point(record(rows[:3])).kernel_alone == "decode"


def test_a_plan_without_a_time_counts_as_the_slowest():
    point = measured_point(record([row(ONE, [10.0]), row(TWO, [15.0])]))
    assert point.regret(PREFILL) == point.regret(TWO) == pytest.approx(0.5)


@given(sweeps())
def test_no_plan_loses_less_than_nothing(records):
    for point in measured_points(records).values():
        assert all(point.regret(plan) >= 0 for plan in PLANS)
        assert point.regret(point.fastest) == 0


def test_of_two_records_of_a_shape_the_later_counts_wherever_it_stands():
    early = record([row(ONE, [10.0])], started="2025-01-01", key="0-b")
    late = record([row(ONE, [12.0])], started="2025-01-02", key="0-a")
    for records in ([early, late], [late, early]):
        (point,) = measured_points(records).values()
        assert point.best_us == 12.0


def test_a_point_without_a_time_is_none():
    assert measured_points([record([PlanRow(ONE, "crashed")])]) == {}


def test_plans_that_no_look_up_answers_with_are_left_out_where_tables_are_judged():
    many = Plan("decode", 1, 18, 1)
    point = measured_point(record([row(many, [5.0]), row(ONE, [10.0])]))
    assert point.fastest == many
    assert point.reachable().best_us == 10.0
    assert measured_point(record([row(many, [5.0])])).reachable() is None


def test_a_rival_is_no_plan_of_a_point():
    rival = Plan("decode", 1, 1, 8, (("rival", "sparse"),))
    found = record([row(rival, [5.0], [5.0] * 3), row(ONE, [10.0], [10.0] * 3), row(TWO, [11.0])], best=rival)
    point = measured_point(found)
    assert set(reported_times(found)) == set(point.times) == set(point.kinds) == {ONE, TWO}
    assert point.choice == ONE
    assert point.reachable().best_us == 10.0
    assert measured_point(record([row(rival, [5.0])])) is None
    assert rival not in trial_of(found, Protocol()).plans
