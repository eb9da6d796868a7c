"""A/A points: the plan in force against itself, beside the run, judged by its band, and never told apart by design."""

from dataclasses import replace

import pytest
from sweep_specs import QUICK, Listener, make_spec, many_shapes, run_at

from cake_tune.errors import UsageError
from cake_tune.journal.journal import read_journal
from cake_tune.measure.choose import differ
from cake_tune.measure.race import RaceResult
from cake_tune.measure.track import Track
from cake_tune.planner.lookup import decide
from cake_tune.planner.registry import table_for
from cake_tune.planner.shape import Plan, Shape
from cake_tune.sweep import run_sweep, run_twins
from cake_tune.sweep.tasks import PointTask
from cake_tune.sweep.twins import bare, labelled, twin_record


@pytest.fixture
def run(tmp_path):
    return run_at(tmp_path)


def twins_of(run):
    return list(read_journal(run.twins.journal))


def test_some_points_are_measured_with_the_plan_in_force_under_two_labels(run):
    spec = make_spec(many_shapes(40))
    summary = run_twins(spec, run, 12)
    assert (summary.total, summary.done, summary.decided, summary.exit_code) == (12, 12, 12, 0)
    records = twins_of(run)
    assert len({record.shape for record in records}) == 12
    device = run.twins.read_info().device
    table, _ = table_for(device)
    for record in records:
        shape = record.shape
        asked = {"num_tokens": shape.num_tokens, "num_heads": shape.num_heads, "topk": shape.topk}
        plan = decide(table, num_sms=device.num_sms, **asked).plan
        assert [row.plan for row in record.rows] == [plan, plan]
        assert record.twins and not record.counts
        assert record.status in ("ok", "tied")
        assert all(len(row.confirm) == QUICK.confirm_rounds for row in record.rows)
        assert all(len(row.visits) == record.rounds > 0 for row in record.rows)
        assert record.rows[0].visits != record.rows[1].visits
    assert not run.journal.exists()
    assert list(run.twins.read_records()) == []


def test_more_of_them_add_to_those_that_are_there_and_nothing_is_measured_twice(run):
    spec = make_spec(many_shapes(40))
    run_twins(spec, run, 5)
    first, listener = twins_of(run), Listener()
    summary = run_twins(spec, run, 9, progress=listener)
    assert (summary.reused, summary.done) == (5, 9)
    assert twins_of(run)[:5] == first
    assert listener.messages == []


def test_the_run_and_its_twins_do_not_touch_each_other(run):
    spec = make_spec(many_shapes(8))
    run_sweep(spec, run)
    run.write_info(replace(run.read_info(), tie_band=0.0123))
    before = run.journal.read_bytes()
    run_twins(spec, run, 8)
    assert {record.tie_band for record in twins_of(run)} == {0.0123}
    assert run.journal.read_bytes() == before
    twins = run.twins.journal.read_bytes()
    assert run_sweep(spec, run).reused == 8
    assert run.twins.journal.read_bytes() == twins


def test_the_band_of_the_run_stands_above_that_of_earlier_twins(run):
    spec = make_spec(many_shapes(8))
    run_twins(spec, run, 2)
    run_sweep(spec, run)
    run.write_info(replace(run.read_info(), tie_band=0.0123))
    run_twins(spec, run, 5)
    assert [record.tie_band == 0.0123 for record in twins_of(run)] == [False] * 2 + [True] * 3


def test_a_band_of_another_origin_is_not_taken_over(run):
    run_sweep(make_spec(), run)
    run.write_info(replace(run.read_info(), tie_band=0.0123))
    run_twins(make_spec(protocol=replace(QUICK, aa_rounds=6)), run, 2)
    assert {record.tie_band for record in twins_of(run)}.isdisjoint({0.0123})


def test_more_than_the_points_of_the_spec_cannot_be_asked_for(run):
    with pytest.raises(UsageError, match="expected from 1 to 3 points of test, got 4"):
        run_twins(make_spec(), run, 4)
    assert not run.path.exists()


def test_a_plan_that_fails_leaves_a_failed_twin(run):
    spec = make_spec(many_shapes(3), backend="faults:simulated:wrong@*")
    summary = run_twins(spec, run, 3)
    assert (summary.counts, summary.exit_code) == ({"wrong": 3}, 4)
    assert all(record.twins and record.status == "wrong" for record in twins_of(run))
    crashed = make_spec(many_shapes(2), backend="faults:simulated:crash@*")
    assert run_twins(crashed, run, 2).counts == {"crashed": 2}


def test_labels_are_taken_off_again():
    plan = Plan("decode", 1, 2, 4, (("qk", "nvfp4"),))
    pair = labelled(plan)
    assert len({plan, *pair}) == 3
    assert {bare(label) for label in pair} == {plan}


def tracks(one, other) -> tuple[dict, Plan, Plan]:
    first, second = labelled(Plan("decode", 1, 1, 1))
    return {first: Track(confirm=list(one)), second: Track(confirm=list(other))}, first, second


@pytest.mark.parametrize(
    ("one", "other", "told_apart"),
    [
        ([10.0, 10.1, 9.9, 10.0], [10.0, 10.1, 9.9, 10.0], False),
        ([10.0, 10.1, 9.9, 10.0], [10.05, 10.15, 9.95, 10.05], False),
        ([10.0, 10.1, 9.9, 10.0], [10.2, 10.3, 10.1, 10.2], True),
        ([10.2, 10.3, 10.1, 10.2], [10.0, 10.1, 9.9, 10.0], True),
        # The centre is within the band, one wild round does not tell them apart.
        ([10.0, 10.0, 10.0, 10.0, 10.0], [10.0, 10.0, 10.0, 10.0, 13.0], False),
    ],
)
def test_when_two_labels_differ(one, other, told_apart):
    held, first, second = tracks(one, other)
    assert differ(held, first, second, 0.01) == told_apart
    assert differ(held, second, first, 0.01) == told_apart


def test_a_difference_is_a_status_and_leaves_nothing_tied():
    plan = Plan("decode", 1, 1, 1)
    task = PointTask("a", Shape(4, 16, 64), (plan,), plan, 0.005, twins=True)
    held, *pair = tracks([10.0, 10.1, 9.9, 10.0], [10.2, 10.3, 10.1, 10.2])
    record = twin_record(task, RaceResult(held, pair[0], (pair[0],), 3), 0.001, "cold")
    assert (record.status, record.best, record.tied, record.twins) == ("ok", plan, (), True)
    assert [(row.plan, row.relative_error, row.median_us) for row in record.rows] == [
        (plan, 0.001, us) for us in (10.0, 10.2)
    ]
    held[pair[1]].left = "unstable"
    record = twin_record(task, RaceResult(held, None, (), 3), 0.001, "cold")
    assert (record.status, record.best, record.tied) == ("unstable", None, ())
