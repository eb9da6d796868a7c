"""A sweep measures its points once, goes on where it stopped, and loses nothing when the spec changes."""

import math
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from sweep_specs import QUICK, SHAPES, Listener, lines_of, make_spec, many_shapes, records_of, run_at

from cake_tune.backends.simulated_device import SMALL
from cake_tune.backends.simulated_time import true_us
from cake_tune.errors import JournalError, UsageError
from cake_tune.journal.journal import Journal
from cake_tune.planner.backend import swept_on
from cake_tune.planner.lookup import decide
from cake_tune.planner.registry import forget_tables, install_table, shipped_tables, table_for, use_table
from cake_tune.planner.shape import Device, Plan, Shape
from cake_tune.planner.table import Provenance, load_table
from cake_tune.spec import Spec, parse_spec
from cake_tune.sweep import SweepSummary, run_sweep
from cake_tune.sweep.crew import Crew


@pytest.fixture
def run(tmp_path):
    return run_at(tmp_path)


def test_every_point_ends_in_a_record_with_every_plan(run):
    spec = make_spec()
    summary = run_sweep(spec, run)
    assert (summary.total, summary.done, summary.decided, summary.reused) == (3, 3, 3, 0)
    assert summary.exit_code == 0
    for point in spec.points():
        record = records_of(run)[point.shape]
        assert tuple(row.plan for row in record.rows) == point.plans
        assert record.best in record.tied
        assert record.started and record.seconds > 0
        assert record.status == ("tied" if len(record.tied) > 1 else "ok")


def test_what_is_chosen_is_best_or_close_to_it(run):
    shapes = [Shape(tokens, heads, 512) for tokens in (1, 4, 16, 64) for heads in (16, 64)]
    run_sweep(make_spec(shapes), run)
    for shape, record in records_of(run).items():
        fastest = min(true_us(SMALL, shape, row.plan) for row in record.rows)
        assert true_us(SMALL, shape, record.best) <= fastest * (1 + 2 * QUICK.band_max), shape


def test_reported_times_are_the_true_ones_within_the_noise(run):
    run_sweep(make_spec(), run)
    for shape, record in records_of(run).items():
        for row in record.rows:
            if row.median_us is not None:
                assert abs(row.median_us / true_us(SMALL, shape, row.plan) - 1) < 0.03
        best = next(row for row in record.rows if row.plan == record.best)
        assert len(best.confirm) == QUICK.confirm_rounds


def test_the_table_in_force_is_one_of_the_kernels_that_are_measured(run, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    published, _ = table_for()
    for name, topks in (("flashinfer", (64,)), ("cuda", (96,))):
        made = replace(published, device=SMALL.device, calibrated_topks=topks)
        install_table(replace(made, provenance=Provenance("measured", swept_on(name))))
    try:
        run_sweep(make_spec(), run)
        assert load_table(run.in_force).calibrated_topks == (96,)
    finally:
        monkeypatch.undo()
        forget_tables()


def test_the_plan_in_force_is_the_tables_and_is_confirmed(run):
    run_sweep(make_spec(), run)
    device = run.read_info().device
    table, _ = table_for(device)
    for shape, record in records_of(run).items():
        asked = {"num_tokens": shape.num_tokens, "num_heads": shape.num_heads, "topk": shape.topk}
        assert record.incumbent == decide(table, num_sms=device.num_sms, **asked).plan
        row = next(row for row in record.rows if row.plan == record.incumbent)
        assert row.confirm and row.status != "pruned"


def point_of(spec, run, keep) -> tuple[Spec, Plan]:
    """A spec of one point with those plans that ``keep`` holds for, given the one that the table would run."""
    (point,) = spec.points()
    run_sweep(spec, run)
    in_force = records_of(run)[point.shape].incumbent
    kept = tuple(plan for plan in point.plans if keep(plan, in_force))
    return replace(spec, expanded=(replace(point, plans=kept),)), in_force


def test_a_point_without_the_plan_in_force_has_none(run):
    shape = Shape(1, 64, 256)
    spec, _ = point_of(make_spec([shape]), run, lambda plan, in_force: plan != in_force)
    assert {plan.kernel for plan in spec.points()[0].plans} == {"decode", "prefill"}
    run_sweep(spec, run)
    assert records_of(run)[shape].incumbent is None


def test_a_point_of_one_kernel_has_that_kernels_plan_in_force(run):
    spec, in_force = point_of(make_spec(SHAPES[:1]), run, lambda plan, in_force: plan.kernel != in_force.kernel)
    run_sweep(spec, run)
    incumbent = records_of(run)[SHAPES[0]].incumbent
    assert incumbent is not None
    assert incumbent.kernel != in_force.kernel


def test_a_second_run_measures_nothing_again_and_starts_no_worker(run):
    run_sweep(make_spec(), run)
    before, listener = run.journal.read_bytes(), Listener()
    summary = run_sweep(make_spec(), run, progress=listener)
    assert (summary.reused, summary.done, summary.exit_code) == (3, 3, 0)
    assert run.journal.read_bytes() == before
    assert listener.started_shapes == [] and listener.messages == []


def test_a_sweep_with_nothing_left_to_do_changes_no_file(run):
    run_sweep(make_spec(), run)
    before = {file: file.read_bytes() for file in run.path.iterdir()}
    run_sweep(make_spec(), run)
    assert {file: file.read_bytes() for file in run.path.iterdir()} == before


def test_a_workload_that_changes_after_a_complete_run_is_noted(run):
    for weights in ((), ((1, 2.0), (64, 1.0)), ((1, 3.0),), ()):
        summary = run_sweep(make_spec(weights=weights), run)
        assert run.read_info().weights == dict(weights)
    assert (summary.reused, summary.done) == (3, 3)


def test_all_rows_of_a_journal_are_judged_against_the_table_of_the_first_run(run):
    run_sweep(make_spec(SHAPES[:1]), run)
    first = load_table(run.in_force)
    other = next(table for table in shipped_tables() if table != first)
    with use_table(other):
        run_sweep(make_spec(), run)
    assert load_table(run.in_force) == first
    assert run.read_info().in_force == first.label
    with use_table(other):
        run_sweep(make_spec(), run, fresh=True)
    assert load_table(run.in_force) == other


def test_new_points_are_added_to_those_that_are_there(run):
    run_sweep(make_spec(), run)
    before, listener = lines_of(run), Listener()
    run_sweep(make_spec([*SHAPES, Shape(8, 16, 256)]), run, progress=listener)
    assert listener.started_shapes == [Shape(8, 16, 256)]
    assert lines_of(run)[:3] == before


@pytest.mark.parametrize(
    "change",
    [{"protocol": replace(QUICK, samples=4)}, {"seed": 5}, {"expanded": make_spec(SHAPES[:1]).expanded}],
    ids=["protocol", "seed", "fewer points"],
)
def test_rows_that_no_longer_belong_are_set_aside_and_never_deleted(run, change):
    run_sweep(make_spec(), run)
    before, listener = run.journal.read_bytes(), Listener()
    spec = replace(make_spec(), **change)
    run_sweep(spec, run, progress=listener)
    (aside,) = run.path.glob("journal-*.jsonl")
    assert aside.read_bytes() == before
    assert aside.name in listener.messages[0]
    assert set(records_of(run)) == {point.shape for point in spec.points()}
    assert len(lines_of(run)) == len(spec.points())


def test_a_fresh_sweep_measures_all_again_beside_the_old_rows(run):
    run_sweep(make_spec(), run)
    before = run.journal.read_bytes()
    summary = run_sweep(make_spec(), run, fresh=True)
    assert (summary.reused, summary.done) == (0, 3)
    (aside,) = run.path.glob("journal-*.jsonl")
    assert aside.read_bytes() == before


def test_a_damaged_row_is_measured_again_and_reported(run):
    run_sweep(make_spec(), run)
    lines = lines_of(run)
    run.journal.write_bytes(lines[0] + lines[1].replace(b'"rounds"', b'"rouNds"') + lines[2])
    listener = Listener()
    summary = run_sweep(make_spec(), run, progress=listener)
    assert "damaged line" in listener.messages[0]
    assert listener.started_shapes == [SHAPES[1]]
    assert (summary.done, len(records_of(run))) == (3, 3)


def test_damage_is_set_aside_with_all_that_it_stands_in(run):
    """Once the sweep was typed again, nothing warns of it any more."""
    run_sweep(make_spec(), run)
    lines = lines_of(run)
    damaged = lines[0] + b"junk\n" + lines[1] + lines[2]
    run.journal.write_bytes(damaged)
    listener = Listener()
    summary = run_sweep(make_spec(), run, progress=listener)
    assert (summary.reused, listener.started_shapes) == (3, [])
    (aside,) = run.path.glob("journal-*.jsonl")
    assert aside.read_bytes() == damaged and aside.name in listener.messages[1]
    assert lines_of(run) == lines
    listener = Listener()
    run_sweep(make_spec(), run, progress=listener)
    assert listener.messages == []


def test_damage_that_cannot_be_set_aside_stops_nothing(run, monkeypatch):
    def full(journal, keep):
        raise OSError(28, "No space left on device")

    run_sweep(make_spec(), run)
    lines = lines_of(run)
    run.journal.write_bytes(b"junk\n" + b"".join(lines[:2]))
    monkeypatch.setattr(Journal, "archive", full)
    listener = Listener()
    summary = run_sweep(make_spec(), run, progress=listener)
    assert (summary.done, listener.started_shapes) == (3, SHAPES[2:])
    assert listener.messages[1].endswith("No space left on device") and lines_of(run)[:1] == [b"junk\n"]


def test_the_time_budget_stops_between_points_and_the_next_run_goes_on(run):
    spec = make_spec(time_budget_seconds=1e-9)
    for done in (1, 2):
        summary = run_sweep(spec, run)
        assert (summary.done, summary.reused, summary.out_of_time, summary.exit_code) == (done, done - 1, True, 0)
    summary = run_sweep(spec, run)
    assert (summary.done, summary.out_of_time) == (3, False)


def test_a_budget_that_is_not_spent_changes_nothing(run):
    summary = run_sweep(make_spec(time_budget_seconds=3600.0), run)
    assert (summary.done, summary.out_of_time) == (3, False)


@pytest.mark.parametrize(
    ("counts", "code"),
    [
        ({}, 5),
        ({"crashed": 3}, 5),
        ({"wrong": 3}, 4),
        ({"wrong": 3, "crashed": 1}, 5),
        ({"wrong": 3, "ok": 1}, 7),
        ({"ok": 1}, 0),
        ({"tied": 2, "ok": 1}, 0),
        ({"ok": 5, "oom": 1}, 7),
        ({"tied": 1, "unstable": 1}, 7),
    ],
)
def test_nothing_measured_is_never_a_success(counts, code):
    assert SweepSummary(total=9, counts=counts).exit_code == code


def test_progress_counts_up_and_estimates_the_rest(run):
    listener = Listener()
    run_sweep(make_spec(), run, progress=listener)
    assert listener.places == [(0, 3), (1, 3), (1, 3), (2, 3), (2, 3), (3, 3)]
    assert listener.estimates[0] is None
    assert listener.estimates[-1] == 0
    assert all(estimate > 0 for estimate in listener.estimates[1:-1])
    assert [record.shape for record in listener.records] == SHAPES


@pytest.mark.parametrize("resumed", [False, True])
def test_the_estimate_leaves_out_the_start_of_the_worker(run, monkeypatch, resumed):
    """It takes as long for few points as for many, also where the tie band is known."""
    if resumed:
        run_sweep(make_spec(SHAPES[:1]), run)
    starts, start = [], Crew.start

    def started(crew: Crew) -> None:
        start(crew)
        starts.append(crew)

    def later() -> float:
        return time.monotonic() + 1e6 * len(starts)

    monkeypatch.setattr(Crew, "start", started)
    monkeypatch.setattr("cake_tune.sweep.work.time", SimpleNamespace(monotonic=later))
    listener = Listener()
    summary = run_sweep(make_spec(), run, progress=listener)
    estimates = [estimate for estimate in listener.estimates if estimate is not None]
    assert (len(starts), summary.reused, len(estimates)) == (1, resumed, 3 if resumed else 5)
    assert summary.seconds > 1e6 > max(estimates)


def test_the_estimate_does_not_go_beyond_the_time_budget(run):
    listener = Listener()
    run_sweep(make_spec(many_shapes(1000), time_budget_seconds=1.5), run, progress=listener)
    estimates = [estimate for estimate in listener.estimates if estimate is not None]
    assert estimates and max(estimates) <= 1.5


def test_build_options_that_the_backend_does_not_take_are_refused_before_anything_is_written(run):
    (point,) = make_spec(SHAPES[:1]).points()
    plans = tuple(replace(plan, options=(("qk", "nvfp4"),)) for plan in point.plans)
    spec = replace(make_spec(), expanded=(replace(point, plans=plans),))
    with pytest.raises(UsageError, match=r"plans\.options: .*simulated \(none\), got qk"):
        run_sweep(spec, run)
    assert not run.path.exists()


def test_provenance_and_tie_band_are_kept_and_the_band_is_measured_once(run):
    spec = make_spec(text="name: test\n")
    run_sweep(spec, run)
    info = run.read_info()
    assert (info.backend, info.sweep, info.spec_text, info.spec_path) == ("simulated", "test", spec.text, "test.yaml")
    assert info.device.arch == "simulated" and info.protocol["samples"] == QUICK.samples
    assert QUICK.band_min <= info.tie_band <= QUICK.band_max
    marked = replace(info, tie_band=0.0123)
    run.write_info(marked)
    run_sweep(make_spec([*SHAPES, Shape(2, 16, 256)]), run)
    assert run.read_info().tie_band == 0.0123
    assert records_of(run)[Shape(2, 16, 256)].tie_band == 0.0123


LISTED = """\
version: 1
backend: simulated
shapes: {{num_tokens: {tokens}, num_heads: 16, topk: 128}}
measure: {{discard: 0, samples: 2, short_samples: 2, max_rounds: 3, early_rounds: 2, kn_rounds: 3, confirm_rounds: 2,
  aa_rounds: 4, warmup_seconds: 0}}
"""


def listing(tokens, comment: str = ""):
    return parse_spec(comment + LISTED.format(tokens=tokens), "test.yaml")


def test_a_comment_changed_in_the_spec_measures_nothing_again(run):
    run_sweep(listing([1, 4, 64]), run)
    before = {path.name: path.read_bytes() for path in run.path.iterdir()}
    summary = run_sweep(listing([1, 4, 64], "# a comment\n"), run)
    assert (summary.reused, summary.done) == (3, 3)
    assert {path.name: path.read_bytes() for path in run.path.iterdir()} == before


def test_a_spec_that_lists_less_is_the_runs_own_from_then_on(run):
    """Though nothing is left to measure: what a table says of a partial sweep is counted by it."""
    run_sweep(listing([1, 4, 64]), run)
    band, less = run.read_info().tie_band, listing([1, 4])
    assert run_sweep(less, run).reused == 2
    assert (run.read_info().spec_text, run.read_info().tie_band) == (less.text, band)
    # Points that were listed and never measured leave no row to be set aside.
    more = replace(listing([1, 4, 8, 16, 64]), time_budget_seconds=1e-9)
    assert run_sweep(more, run).out_of_time
    measured = sorted(shape.num_tokens for shape in records_of(run))
    assert len(measured) == 3
    cut = listing(measured)
    assert run_sweep(cut, run).reused == 3
    assert run.read_info().spec_text == cut.text


def test_the_band_of_another_protocol_is_not_taken_over(run):
    run_sweep(make_spec(), run)
    run.write_info(replace(run.read_info(), tie_band=0.0123))
    run_sweep(make_spec(protocol=replace(QUICK, aa_rounds=6)), run)
    assert run.read_info().tie_band != 0.0123


@pytest.mark.parametrize("damage", ["missing", "torn"])
def test_a_run_whose_table_in_force_is_lost_gets_another_and_says_so(run, damage):
    run_sweep(make_spec(), run)
    table, journal = load_table(run.in_force), run.journal.read_bytes()
    run.in_force.unlink() if damage == "missing" else run.in_force.write_text("{")
    listener = Listener()
    assert run_sweep(make_spec(), run, progress=listener).done == 3
    (told,) = listener.messages
    assert "in-force.json" in told and told.endswith("the table in force now takes its place")
    assert load_table(run.in_force) == table
    assert run.journal.read_bytes() == journal


@pytest.mark.parametrize("text", [None, "{", "another device"])
def test_a_run_whose_provenance_is_lost_gets_it_back(run, text):
    run_sweep(make_spec(), run)
    origin = run.read_info().origin
    if text == "another device":
        run.write_info(replace(run.read_info(), device=Device("NVIDIA H200", "sm_90a", 132)))
        with pytest.raises(JournalError, match="expected records of the device"):
            list(run.read_records())
    elif text is None:
        run.run_json.unlink()
    else:
        run.run_json.write_text(text)
    assert run_sweep(make_spec(), run).reused == 3
    assert run.read_info().origin == origin
    assert len(list(run.read_records())) == 3


def test_raw_visits_are_kept_round_by_round(run):
    run_sweep(make_spec(), run)
    for record in records_of(run).values():
        assert max(len(row.visits) for row in record.rows) == record.rounds
        assert all(time is None or math.isfinite(time) for row in record.rows for time in row.visits)


def test_an_unknown_backend_is_refused_before_anything_is_written(run):
    with pytest.raises(UsageError, match="backend"):
        run_sweep(make_spec(backend="abacus"), run)
    assert not run.path.exists()


@pytest.mark.parametrize("step", ["link", "replace"])
def test_setting_rows_aside_loses_nothing_when_it_is_cut_short(run, monkeypatch, step):
    run_sweep(make_spec(), run)
    before = run.journal.read_bytes()

    def die(*arguments):
        raise KeyboardInterrupt

    with Journal(run.journal) as journal, monkeypatch.context() as patch:
        patch.setattr(*(("os.link", die) if step == "link" else (Path, "replace", die)))
        with pytest.raises(KeyboardInterrupt):
            journal.archive()
    assert run.journal.read_bytes() == before
