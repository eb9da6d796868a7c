"""The gate after timing: every plan that was raced passes it, those that left the race early too."""

from collections import Counter

import pytest
from sweep_specs import QUICK

from cake_tune.backends.simulated import SimulatedBackend, true_us
from cake_tune.planner.shape import Shape, every_plan
from cake_tune.sweep.bench import Bench
from cake_tune.sweep.tasks import PointTask

SHAPE = Shape(1, 16, 1024)
BY_TIME = sorted(every_plan(SHAPE), key=lambda plan: true_us(SHAPE, plan))


@pytest.mark.parametrize("place", [0, -1], ids=["the fastest", "the slowest"])
def test_a_plan_that_is_wrong_after_timing_is_never_ranked(place):
    struck, launches = BY_TIME[place], Counter()

    def spoil_the_second_time(plan, output):
        launches[plan] += 1
        if plan == struck and launches[plan] == 2:
            output[0] = 7.0

    bench = Bench(SimulatedBackend(spoil_the_second_time), QUICK, 0)
    task = PointTask("a", SHAPE, tuple(every_plan(SHAPE)), None, QUICK.band_max)
    record = bench.measure_point(task, lambda plan: None)
    rows = {row.plan: row for row in record.rows}
    assert (rows[struck].status, rows[struck].median_us) == ("wrong", None)
    assert struck not in (record.best, *record.tied)
    others = [row for plan, row in rows.items() if plan != struck]
    assert all(row.median_us is not None and row.relative_error == 0 for row in others)
    assert {row.status for row in others} <= {"ok", "tied", "pruned"}
    assert len({plan for plan in launches if launches[plan] >= 2}) == len(rows)
