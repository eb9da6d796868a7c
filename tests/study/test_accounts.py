"""A/A points, overhead, and points measured on two GPUs: what single records say of the machine."""

from dataclasses import replace

import pytest
from study_records import PLANS, SHAPE, record, row

from cake_tune.journal.record import PlanRow
from cake_tune.study.gpus import audits_of
from cake_tune.study.overhead import overhead_of
from cake_tune.study.twins import twins_of

ONE, TWO, FOUR, PREFILL = PLANS


def twin(status, second=(10.0, 10.0, 10.0, 10.0)):
    rows = [row(ONE, [10.0], [10.0] * 4), row(ONE, [10.0], second)]
    return record(rows, status=status, twins=True, key=f"0-{status}")


def test_a_difference_is_what_the_run_reported():
    found = twins_of([twin("tied"), twin("ok", (10.2, 10.2, 10.2, 10.3)), twin("unstable"), record([row(ONE, [1.0])])])
    assert (len(found.points), found.differing, found.failed) == (2, 1, 1)
    assert found.ratios == pytest.approx([1.0, 1.02], abs=1e-3)
    assert [name for name, _ in found.distribution][:2] == ["least", "5th percentile"]


def test_without_twins_there_is_no_distribution():
    assert twins_of([]).distribution == []


def test_overhead_is_wall_time_without_the_gpu():
    audit = {"slot_seconds": 4.0, "gpu_seconds": 3.0, "sample_seconds": 3.2, "check_seconds": 0.3}
    records = [record([row(ONE, [1.0])], audit=audit, seconds=3.9)] * 2
    found = overhead_of(records)
    assert (found.records, found.wall, found.between) == (2, 8.0, True)
    assert found.share == pytest.approx(0.25)
    assert found.outside_sampling == pytest.approx(0.125)
    assert found.parts == pytest.approx(
        {"between points": 0.025, "inputs and starts": 0.1, "checks": 0.075, "in samples": 0.05}
    )
    assert sum(found.parts.values()) == pytest.approx(found.share)


def test_a_failed_point_costs_wall_time_and_needs_no_account_of_the_gpu():
    good = record([row(ONE, [1.0])], audit={"gpu_seconds": 3.0}, seconds=4.0)
    failed = replace(record([PlanRow(ONE, "crashed")]), best=None, seconds=2.0)
    found = overhead_of([good, failed])
    assert (found.wall, found.between) == (6.0, False)
    assert found.share == pytest.approx(0.5)


def test_what_is_not_on_record_is_not_made_up():
    found = overhead_of([record([row(ONE, [1.0])], seconds=4.0)])
    assert found.share is None
    assert found.outside_sampling is None
    assert found.parts is None
    assert overhead_of([]).share is None
    assert overhead_of([]).parts is None


def test_two_gpus_are_compared_by_plans_that_stayed_in_the_race():
    first = record([row(ONE, [10.0]), row(TWO, [11.0]), row(FOUR, [20.0], status="pruned")], key="0-a", gpu="GPU-1")
    second = record(
        [row(ONE, [11.0]), row(TWO, [10.0]), row(FOUR, [90.0])], key="0-b", gpu="GPU-2", audits="0-a", best=TWO
    )
    (found,) = audits_of([second, first])
    assert (found.shape, found.gpu, found.audit_gpu) == (SHAPE, "GPU-1", "GPU-2")
    assert found.ratios == pytest.approx((1.1, 10 / 11))
    assert found.ratio == pytest.approx(1.0)
    assert found.loss == pytest.approx(0.1)


def test_an_audit_of_a_point_that_is_gone_is_passed_over():
    assert audits_of([record([row(ONE, [1.0])], audits="0-gone")]) == []
