"""Refinement halves the gaps in a crossover's bracket until its ends are neighbours or closer than 12.5 %."""

import math
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cake_tune.fit.collect import collect
from cake_tune.fit.crossover import Crossover, crossovers
from cake_tune.journal.journal import read_journal
from cake_tune.journal.record import PlanRow, PointRecord
from cake_tune.journal.run import RunDirectory
from cake_tune.planner.registry import shipped_tables
from cake_tune.planner.shape import Plan, Shape
from cake_tune.planner.table import load_table
from cake_tune.search import schedule_for
from cake_tune.search.refine import CLOSE, Refined, next_num_tokens
from cake_tune.spec import parse_spec
from cake_tune.sweep import run_sweep
from cake_tune.sweep.schedule import Exhaustive

SPEC = """\
version: 1
backend: simulated
search: {refine: true}
shapes: {num_tokens: [1, 4, 16, 64, 256], num_heads: [16, 48, 64, 128], topk: [128, 512, 1024]}
plans: {splits: [1, 2, 4, 8]}
measure: {discard: 0, samples: 5, short_samples: 5, confirm_rounds: 6, aa_rounds: 6, warmup_seconds: 0}
"""


def bracketed(low: int, high: int | None, num_tokens) -> Crossover:
    return Crossover(16, 512, 0, low, low, high, (), tuple(num_tokens), (0.0,) * len(num_tokens))


@pytest.fixture
def run(tmp_path):
    return RunDirectory(tmp_path / "run")


def spec_of(text: str = SPEC, **changes):
    return replace(parse_spec(text, "refined.yaml"), **changes)


def sweep(run, spec):
    return run_sweep(spec, run, schedule_for=schedule_for)


def found(run) -> list[Crossover]:
    return crossovers(collect(run.read_records()), load_table(run.in_force))


def counted(run) -> dict[tuple, int]:
    groups: dict[tuple, int] = {}
    for record in run.read_records():
        shape = record.shape
        key = (shape.num_heads, shape.topk, shape.extra_topk)
        groups[key] = groups.get(key, 0) + 1
    return groups


@pytest.mark.parametrize(
    ("low", "high", "measured", "tried", "expected"),
    [
        (16, 64, [1, 16, 64, 256], (), 32),
        (16, 64, [1, 16, 32, 64, 256], (), 22),
        (32, 64, [1, 16, 32, 64, 256], (), 45),
        (4, 64, [1, 4, 16, 60, 64], (), 8),
        (4, 5, [1, 4, 5, 64], (), None),
        (4, 6, [4, 6], (), 5),
        (1, 3, [1, 3], (), 2),
        (64, 72, [64, 72], (), 67),
        (64, 71, [64, 71], (), None),
        (0, 4, [1, 4], (), None),
        (16, None, [1, 16, 64], (), None),
        (16, 64, [16, 64], (32,), 22),
        (4, 6, [4, 6], (5,), None),
    ],
)
def test_where_to_measure_next(low, high, measured, tried, expected):
    assert next_num_tokens(bracketed(low, high, measured), tried) == expected


@given(st.sets(st.integers(1, 5000), min_size=2, max_size=12).map(sorted), st.data())
def test_every_step_lands_in_a_gap_of_the_bracket_and_the_steps_come_to_an_end(measured, data):
    low, high = sorted(data.draw(st.lists(st.sampled_from(measured), min_size=2, max_size=2, unique=True)))
    steps = 0
    while (tokens := next_num_tokens(bracketed(low, high, measured))) is not None:
        assert low < tokens < high
        assert tokens not in measured
        measured = sorted([*measured, tokens])
        steps += 1
        assert steps < 2000
    inside = [tokens for tokens in measured if low <= tokens <= high]
    assert all(b - a <= 1 or b < CLOSE * a for a, b in pairwise(inside))


def test_every_bracket_on_the_simulated_device_ends_narrow(run):
    spec = spec_of()
    summary = sweep(run, spec)
    assert summary.exit_code == 0
    closed = [each for each in found(run) if each.low and each.high is not None]
    assert len(closed) >= 3
    for crossover in found(run):
        marks = [t for t in crossover.num_tokens if crossover.low <= t <= (crossover.high or 0)]
        assert all(b - a <= 1 or b < CLOSE * a for a, b in pairwise(marks) if crossover.low)
    assert sum(each.settled for each in closed) >= len(closed) - 1
    # Next to the grid, a handful of points for each crossover and none elsewhere.
    refined = {(each.num_heads, each.topk, each.extra_topk) for each in closed}
    for group, points in counted(run).items():
        assert points == 5 if group not in refined else 5 < points <= 16


def test_what_is_refined_does_not_depend_on_where_the_sweep_was_stopped(run):
    """A sweep stopped after every single point, whichever of a step it did first, asks for the same points in all."""
    spec, rng = spec_of(), Random(1)
    sweep(run, spec)
    records, table = {record.shape: record for record in run.read_records()}, load_table(run.in_force)
    for _ in range(3):
        held = []
        while points := Refined(spec, table, Exhaustive(spec)).next_points(held):
            assert not {point.shape for point in points} & {record.shape for record in held}
            held.append(records[rng.choice(points).shape])
        assert len(held) == len(records)


def test_what_is_refined_does_not_depend_on_when_it_is_asked(run):
    """Asked after every point, with others still at work: the same points in all, and no group waits for another."""
    spec, rng = spec_of(), Random(2)
    sweep(run, spec)
    records, table = {record.shape: record for record in run.read_records()}, load_table(run.in_force)
    listed = {point.shape for point in spec.points()}
    for devices in (2, 5):
        schedule, held, at_work, mixed = Refined(spec, table, Exhaustive(spec)), [], [], 0
        while True:
            known = {record.shape for record in held}
            wanted = [point.shape for point in schedule.next_points(held) if point.shape not in {*known, *at_work}]
            # The refinement begins when the whole grid has its records.
            assert listed <= known or set(wanted) <= listed
            at_work += wanted[: devices - len(at_work)]
            if not at_work:
                break
            mixed += bool(listed <= known and len(at_work) > 1)
            held.append(records[at_work.pop(rng.randrange(len(at_work)))])
        assert {record.shape for record in held} == set(records)
        assert len(held) == len(records)
        assert mixed


def test_a_record_that_changed_is_looked_at_anew(run):
    """A point that is measured again may move a bracket: what was asked for before counts no more."""
    spec = spec_of()
    sweep(run, spec)
    table = load_table(run.in_force)
    records = [record for record in run.read_records() if record.shape in {point.shape for point in spec.points()}]
    schedule = Refined(spec, table, Exhaustive(spec))
    first = schedule.next_points(records)
    lost = first[0].shape
    without = [
        replace(
            record,
            best=None,
            tied=(),
            status="invalid",
            rows=tuple(replace(row, status="invalid", median_us=None) for row in record.rows),
        )
        if (record.shape.num_heads, record.shape.topk) == (lost.num_heads, lost.topk)
        else record
        for record in records
    ]
    after = schedule.next_points(without)
    assert after == [
        point for point in first if (point.shape.num_heads, point.shape.topk) != (lost.num_heads, lost.topk)
    ]
    assert schedule.next_points(records) == first


def test_a_sweep_that_is_stopped_and_resumed_keeps_every_row(run):
    hurried = spec_of(time_budget_seconds=1e-9)
    rounds = 0
    while sweep(run, hurried).out_of_time:
        rounds += 1
        assert rounds < 500
    assert rounds == len(list(read_journal(run.journal))) - 1 > len(hurried.points())
    assert not list(run.path.glob("journal-*"))


def test_a_finished_sweep_has_nothing_left_and_changes_nothing(run):
    sweep(run, spec_of())
    before = run.journal.read_bytes()
    assert sweep(run, spec_of()).reused == len(before.splitlines())
    assert run.journal.read_bytes() == before


def test_without_refinement_only_the_grid_is_measured_and_with_it_the_grid_is_reused(run):
    grid = spec_of(SPEC.replace("search: {refine: true}\n", ""))
    assert isinstance(schedule_for(grid, None, None), Exhaustive)
    sweep(run, grid)
    lines = run.journal.read_bytes()
    assert sweep(run, spec_of()).done > len(grid.points())
    assert run.journal.read_bytes().startswith(lines)
    # Back again: what lies between the grid's points is set aside, not mixed in.
    assert sweep(run, grid).done == len(grid.points())


def test_every_variant_of_a_group_is_refined_alike(run):
    text = SPEC.replace(
        "num_heads: [16, 48, 64, 128], topk: [128, 512, 1024]", "num_heads: 64, topk: 512, sink: [false, true]"
    )
    sweep(run, spec_of(text))
    tokens = [{r.shape.num_tokens for r in run.read_records() if r.shape.sink == sink} for sink in (False, True)]
    assert tokens[0] == tokens[1] > {1, 4, 16, 64, 256}


def test_constraints_hold_for_refined_points_too(run):
    text = SPEC + "constraint: num_tokens % 2 == 0 or num_tokens == 1\n"
    sweep(run, spec_of(text))
    tokens = {record.shape.num_tokens for record in run.read_records()}
    assert tokens > {1, 4, 16, 64, 256}
    assert all(each % 2 == 0 for each in tokens - {1})


def test_points_that_fail_are_not_asked_for_again(run):
    """Between the grid's points every prefill is wrong: there is nothing to learn there, and the search ends."""
    spec = spec_of(SPEC.replace("[16, 48, 64, 128], topk: [128, 512, 1024]", "64, topk: 512"))
    sweep(run, spec)
    records = list(read_journal(run.journal))
    grid = {point.shape for point in spec.points()}
    broken = [
        record
        if record.shape in grid
        else replace(
            record,
            status="wrong",
            best=None,
            rows=tuple(replace(row, status="wrong", median_us=None) for row in record.rows),
        )
        for record in records
    ]
    schedule = Refined(spec, load_table(run.in_force), Exhaustive(spec))
    seen = set()
    held = [record for record in broken if record.shape in grid]
    while points := schedule.next_points(held):
        (point,) = points
        assert point.shape not in seen
        seen.add(point.shape)
        held.append(replace(broken[-1], shape=point.shape))
    assert 1 <= len(seen) < 100


def test_a_journal_without_any_time_is_not_refined(run):
    spec = spec_of(SPEC, backend="faults:simulated:wrong@*")
    assert sweep(run, spec).done == len(spec.points())


def test_a_workload_decides_which_of_two_crossings_is_refined():
    """Prefill wins at 4 and from 64 on; where nearly all of the work is at 4, the cut lies below it."""
    device = {1: 0.1, 4: -0.05, 16: 0.1, 64: -0.1, 256: -0.1}
    decode, prefill = Plan("decode", 1, 1, 8), Plan("prefill", 1, 1, 8)
    spec = spec_of(SPEC.replace("[16, 48, 64, 128], topk: [128, 512, 1024]", "64, topk: 512"))
    records = []
    for tokens, advantage in device.items():
        times = ((decode, 10.0 * tokens), (prefill, 10.0 * tokens * math.exp(advantage)))
        rows = tuple(PlanRow(plan, "ok", us, visits=(us,) * 6) for plan, us in times)
        records.append(PointRecord(str(tokens), Shape(tokens, 64, 512), "ok", rows, tie_band=0.001))
    asked = []
    for weights in ((), ((4, 100.0), (16, 1.0))):
        schedule = Refined(replace(spec, weights=weights), shipped_tables()[0], Exhaustive(spec))
        asked.append([point.shape.num_tokens for point in schedule.next_points(records)])
    assert asked == [[32], [2]]
