"""Where more splits than planners answer with are faster."""

from dataclasses import replace
from pathlib import Path

import pytest

from cake_tune.journal.record import PlanRow, PointRecord
from cake_tune.journal.run import RunDirectory
from cake_tune.planner.shape import Plan, Shape, rival_plan
from cake_tune.report.beyond import Beyond

SHAPE = Shape(1, 64, 128, extra_topk=1024)
NINE, EIGHTEEN = Plan("decode", 1, 9, 2), Plan("decode", 1, 18, 1)


def point(shape=SHAPE, **us) -> PointRecord:
    plans = {"nine": NINE, "eighteen": EIGHTEEN, "rival": rival_plan(shape, "other")}
    rows = tuple(PlanRow(plans[name], "ok", time) for name, time in us.items())
    return PointRecord(key=str(shape), shape=shape, status="ok", rows=rows, regime="cold")


def found(*records: PointRecord) -> dict[Shape, float]:
    beyond = Beyond()
    for record in records:
        beyond.add(record)
    return beyond.losses


def test_what_sixteen_splits_lose_is_told():
    assert found(point(nine=7.63, eighteen=6.62)) == pytest.approx({SHAPE: 0.1526}, abs=1e-4)


@pytest.mark.parametrize("us", [{"nine": 6.0, "eighteen": 7.0}, {"nine": 6.0}, {"eighteen": 6.0}, {}])
def test_nothing_is_told_where_no_table_loses_anything(us):
    assert found(point(**us)) == {}


def test_a_rival_is_no_plan_that_splits_could_reach():
    assert found(point(nine=6.0, rival=1.0)) == {}
    assert found(point(nine=7.63, eighteen=6.62, rival=1.0)) == found(point(nine=7.63, eighteen=6.62))


def test_a_plan_that_failed_has_no_time():
    record = point(nine=6.0, eighteen=5.0)
    failed = replace(record, rows=(record.rows[0], replace(record.rows[1], status="wrong")))
    assert found(failed) == {}


def test_the_h200_runs_losses_are_those_of_its_times():
    beyond, expected = Beyond(), []
    for record in RunDirectory(Path(__file__).parents[2] / "results/nvidia-h200/dsv4-nvfp4").read_records():
        beyond.add(record)
        times = {row.plan: row.median_us for row in record.rows if row.median_us is not None}
        answered = min(us for plan, us in times.items() if plan.num_splits <= 16)
        expected.append(answered / min(times.values()) - 1)
    assert sorted(beyond.losses.values()) == pytest.approx(sorted(loss for loss in expected if loss > 0))
    assert beyond.worst[0] == pytest.approx(max(expected)) and len(beyond.losses) > 10
