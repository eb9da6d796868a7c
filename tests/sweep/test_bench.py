"""The gate after timing: every plan that was raced passes it, those that left the race early too."""

from collections import Counter
from dataclasses import replace

import pytest
from sweep_specs import QUICK

from cake_tune.backends.simulated import create
from cake_tune.backends.simulated_device import SMALL
from cake_tune.backends.simulated_time import true_us
from cake_tune.planner.shape import Shape, every_plan
from cake_tune.sweep.bench import Bench
from cake_tune.sweep.tasks import PointTask

SHAPE = Shape(1, 16, 1024)
BY_TIME = sorted(every_plan(SHAPE), key=lambda plan: true_us(SMALL, SHAPE, plan))


@pytest.mark.parametrize("place", [0, -1], ids=["the fastest", "the slowest"])
def test_a_plan_that_is_wrong_after_timing_is_never_ranked(place):
    struck, launches = BY_TIME[place], Counter()

    def spoil_the_second_time(plan, output):
        launches[plan] += 1
        if plan == struck and launches[plan] == 2:
            output[0] = 7.0

    bench = Bench(create("", spoil_the_second_time), QUICK, 0)
    task = PointTask("a", SHAPE, tuple(every_plan(SHAPE)), None, QUICK.band_max)
    record = bench.measure_point(task, lambda plan: None)
    rows = {row.plan: row for row in record.rows}
    assert (rows[struck].status, rows[struck].median_us) == ("wrong", None)
    assert struck not in (record.best, *record.tied)
    others = [row for plan, row in rows.items() if plan != struck]
    assert all(row.median_us is not None and row.relative_error == 0 for row in others)
    assert {row.status for row in others} <= {"ok", "tied", "pruned"}
    assert len({plan for plan in launches if launches[plan] >= 2}) == len(rows)


def test_hopeless_plans_are_not_raced_and_keep_the_time_of_their_probe():
    strict = replace(QUICK, too_slow_factor=1.5)
    slowest = BY_TIME[-1]
    records = {}
    for protocol in (QUICK, strict):
        task = PointTask("a", SHAPE, tuple(every_plan(SHAPE)), slowest, protocol.band_max)
        records[protocol] = Bench(create(""), protocol, 0).measure_point(task, lambda plan: None)
    rows = {row.plan: row for row in records[strict].rows}
    limit = 1.5 * true_us(SMALL, SHAPE, BY_TIME[0])
    too_slow = [row for row in rows.values() if row.status == "too_slow"]
    assert len(too_slow) >= 2
    for row in too_slow:
        assert row.median_us == pytest.approx(true_us(SMALL, SHAPE, row.plan), rel=0.03)
        assert row.median_us > 0.95 * limit
        assert (row.visits, row.confirm) == ((), ())
        assert "over the limit" in row.error
    # Not even the plan in force: nothing more is needed to tell that it is to be replaced.
    assert rows[slowest].status == "too_slow"
    assert records[strict].best == records[QUICK].best

    def visits(record):
        return sum(len(row.visits) + len(row.confirm) for row in record.rows)

    assert visits(records[strict]) < visits(records[QUICK])


def test_mean_and_deviation_of_every_visit_reach_the_rows():
    task = PointTask("a", SHAPE, tuple(every_plan(SHAPE)), None, QUICK.band_max)
    record = Bench(create(""), QUICK, 0).measure_point(task, lambda plan: None)
    for row in record.rows:
        assert len(row.visits) == len(row.visit_means) == len(row.visit_mads) > 0
        assert len(row.confirm) == len(row.confirm_means) == len(row.confirm_mads)
        for middle, mean, spread in zip(row.visits, row.visit_means, row.visit_mads, strict=True):
            assert mean == pytest.approx(middle, rel=0.05)
            assert 0 <= spread < 0.1 * middle
    assert any(mean != middle for row in record.rows for mean, middle in zip(row.visit_means, row.visits, strict=True))
