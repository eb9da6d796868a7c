"""The adaptive schedule on simulated devices, whose truth is known: what it measures, when it stops, how it resumes."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_sweep import info_of, measured, spec_of, table_regret

from cake_tune.backends.simulated_device import simulated_device
from cake_tune.fit.table import build_table, table_of_samples
from cake_tune.planner.registry import nearest_published
from cake_tune.planner.shape import Shape
from cake_tune.search import adaptive, schedule_for
from cake_tune.search.adaptive import Adaptive
from cake_tune.search.spread import places, spread_out
from cake_tune.spec import Search

TOKENS = (1, 2, 4, 8, 16, 32, 64, 128)


def adaptive_of(device, spec):
    return Adaptive(spec, info_of(device), nearest_published(device.num_sms))


def followed(device, spec, schedule, records=(), stop=None):
    """Records of all that the schedule asks for, until it ends or ``stop`` of them are there."""
    held = list(records)
    while asked := schedule.next_points(held):
        known = {(record.shape, frozenset(row.plan for row in record.rows)) for record in held}
        for point in asked:
            if (point.shape, frozenset(point.plans)) not in known:
                if len(held) == stop:
                    return held
                held += measured(device, [point])
    return held


@pytest.mark.parametrize("name", ["rtx-5090", "random:3"])
def test_a_fifth_of_the_sweep_gives_a_table_as_good_as_all_of_it(name):
    device = simulated_device(name)
    spec = spec_of(TOKENS, (16, 64, 128), (128, 512, 1024), regret=0.003)
    schedule = adaptive_of(device, spec)
    records = followed(device, spec, schedule)
    standing = schedule.standing(records)
    assert standing["pairs"] <= 0.2 * standing["listed_pairs"]
    assert standing["expected_regret"] <= 0.003
    in_force = nearest_published(device.num_sms)
    every = build_table(measured(device, spec.points()), info_of(device), in_force)
    few = build_table(records, info_of(device), in_force)
    assert table_regret(device, spec, few) <= table_regret(device, spec, every) + 0.005


def test_the_standing_counts_listed_points_and_every_pair_once():
    device = simulated_device("random:6")
    spec = spec_of(TOKENS, (16,), (128,), regret=1e-6)
    whole = measured(device, spec.points())
    (unlisted,) = spec_of((3,), (16,), (128,), regret=1e-6).points()
    few = [replace(point, plans=point.plans[:2]) for point in spec.points()]
    standing = adaptive_of(device, spec).standing([*whole, *measured(device, [*few, unlisted])])
    assert standing["points"] == standing["listed_points"]
    assert standing["pairs"] == standing["listed_pairs"]


def test_the_table_of_a_search_goes_by_the_workload(monkeypatch):
    seen = []

    def noted(samples, info, in_force):
        seen.append(samples.workload)
        return table_of_samples(samples, info, in_force)

    monkeypatch.setattr(adaptive, "table_of_samples", noted)
    device = simulated_device("random:6")
    weights = ((1, 1.0), (64, 3.0))
    spec = replace(spec_of(TOKENS, (16, 64), (128, 1024), regret=0.01), weights=weights)
    followed(device, spec, adaptive_of(device, spec))
    assert set(seen) == {weights}


def test_a_search_stopped_anywhere_goes_on_as_it_would_have():
    device = simulated_device("random:6")
    spec = spec_of(TOKENS, (16, 64), (128, 1024), regret=1e-6)
    whole = followed(device, spec, adaptive_of(device, spec))
    work = [(record.shape, [row.plan for row in record.rows]) for record in whole]
    assert len(whole) > 16
    for stop in (3, 13, 15, len(whole) - 1):
        begun = followed(device, spec, adaptive_of(device, spec), stop=stop)
        resumed = followed(device, spec, adaptive_of(device, spec), records=begun)
        assert [(record.shape, [row.plan for row in record.rows]) for record in resumed] == work


def test_no_point_is_measured_twice_and_every_plan_is_one_of_its_points():
    device = simulated_device("random:6")
    spec = spec_of(TOKENS, (16, 64), (128, 1024), regret=1e-6)
    records = followed(device, spec, adaptive_of(device, spec))
    allowed = {point.shape: set(point.plans) for point in spec.points()}
    assert len({record.shape for record in records}) == len(records)
    for record in records:
        assert {row.plan for row in record.rows} <= allowed[record.shape]
        assert len(record.rows) >= 2
        raced = {row.plan.kernel for row in record.rows}
        assert raced == {plan.kernel for plan in allowed[record.shape]}


def test_a_looser_bound_measures_no_more():
    device = simulated_device("random:4")
    spec = spec_of(TOKENS, (16, 64), (128, 1024), regret=0.2)
    loose = followed(device, spec, adaptive_of(device, spec))
    tight = replace(spec, search=Search("adaptive", regret=1e-6))
    assert len(loose) <= len(followed(device, tight, adaptive_of(device, tight)))


def test_points_that_all_fail_lead_to_the_rest_of_the_spec():
    device = simulated_device("random:6")
    spec = spec_of(TOKENS, (16, 64), (128,), regret=0.003)
    schedule = adaptive_of(device, spec)
    first = schedule.next_points([])
    failed = [
        replace(
            record,
            status="crashed",
            best=None,
            tied=(),
            rows=tuple(replace(row, status="crashed", median_us=None, visits=(), confirm=()) for row in record.rows),
        )
        for record in measured(device, first)
    ]
    assert len(schedule.next_points(failed)) == len(spec.points()) - len(first)


def test_a_spec_says_which_schedule_it_wants():
    device = simulated_device("random:6")
    spec = spec_of((1, 2), (16,), (128,), regret=0.003)
    info, table = info_of(device), nearest_published(device.num_sms)
    assert isinstance(schedule_for(spec, info, table), Adaptive)
    assert not isinstance(schedule_for(replace(spec, search=Search()), info, table), Adaptive)


@settings(max_examples=50, deadline=None)
@given(count=st.integers(1, 40), tokens=st.lists(st.integers(1, 512), min_size=1, max_size=8, unique=True))
def test_a_spread_has_no_point_twice_and_starts_with_the_same_ones(count, tokens):
    points = spec_of(tuple(tokens), (16, 64), (128, 512), regret=0.003).points()
    chosen = spread_out(points, count)
    assert len(set(chosen)) == len(chosen) == min(count, len(points))
    assert set(chosen) <= set(points)
    if count < len(points):
        assert chosen == spread_out(points, count + 1)[:count] or count + 1 >= len(points)


def test_the_places_of_shapes_fill_the_unit_cube():
    at = places([Shape(1, 16, 128), Shape(64, 128, 512), Shape(8, 64, 512)])
    assert at.min(axis=0).tolist() == [0, 0, 0, 0]
    assert at.max(axis=0).tolist() == [1, 1, 1, 0]
