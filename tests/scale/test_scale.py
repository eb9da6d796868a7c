"""Large journals and large tables, in small: what keeps them quick and bounded. The times: ``benchmarks/scale.py``."""

import csv
import gc
import random
import shutil
import tracemalloc

import numpy as np
import pytest
from scale_journal import TOKENS, record_of, shapes, write
from scale_table import table_of

from cake_tune.fit import table_of_run
from cake_tune.fit.collect import collect
from cake_tune.fit.crossover import crossovers
from cake_tune.journal.run import RunDirectory
from cake_tune.planner.lookup import REMEMBERED, decide
from cake_tune.planner.table import save_table
from cake_tune.report import fit_run, summary_lines, write_report
from cake_tune.report.findings import Findings
from cake_tune.report.plots.latency import draw_latencies
from cake_tune.report.plots.splits import draw_splits

EXCEPTIONS = 10_000


@pytest.fixture(scope="module")
def large():
    return table_of(EXCEPTIONS)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    directory = tmp_path_factory.mktemp("scale") / "run"
    return RunDirectory(directory), *write(directory, 1500)


def test_a_million_look_ups_leave_nothing_behind(large):
    table, asked = large
    some = random.Random(0).sample(asked, REMEMBERED // 2)
    beyond = [{**shape, "topk": shape["topk"] + 1} for shape in asked[: REMEMBERED + 1000]]
    for shape in (*some, *beyond):
        decide(table, **shape)
    table.answers.clear()
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for turn in range(1_000_000 // len(some)):
            for shape in some:
                decide(table, **shape)
            if turn % 100 == 0:  # and now and then more than it remembers, none of which an exception holds
                for shape in beyond:
                    decide(table, **shape)
                assert 0 < len(table.answers) <= REMEMBERED
        table.answers.clear()
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 2000
    finally:
        tracemalloc.stop()


def test_each_of_ten_thousand_exceptions_answers_inside_it_and_nowhere_else(large):
    table, _ = large
    assert len(table.exceptions) == EXCEPTIONS
    for one in table.exceptions[::97]:
        for tokens in (one.min_tokens, one.max_tokens):
            found = decide(table, num_tokens=tokens, num_heads=one.num_heads, topk=one.topk)
            assert found.override is one
            assert found.plan == one.plan
        other = decide(table, num_tokens=one.min_tokens, num_heads=one.num_heads, topk=one.topk + 1)
        assert other.override is None


def test_a_generated_journal_fits_and_reports(run):
    directory, points, rows = run
    table = table_of_run(directory)
    save_table(table, directory.table)
    findings = write_report(directory)
    assert not findings.stale
    assert findings.points == points
    assert findings.row_statuses.total() == rows
    with directory.measurements.open(encoding="utf-8", newline="") as file:
        assert sum(1 for _ in csv.DictReader(file)) == rows
    assert table.certificate.mean < 0.01


def test_a_large_journal_is_fitted_and_reported_by_two_processes_to_the_same_bytes(run, tmp_path, monkeypatch):
    directory, *_ = run
    written = {}
    for name, large in (("alone", 2**60), ("two", 1)):
        monkeypatch.setattr("cake_tune.journal.second.LARGE", large)
        again = RunDirectory(tmp_path / name)
        again.path.mkdir()
        for path in (directory.journal, directory.run_json, directory.in_force):
            shutil.copy(path, again.path)
        fitted = fit_run(again)
        assert fitted.table is not None
        save_table(fitted.table, again.table)
        assert not write_report(again).stale
        files = (path for path in again.path.rglob("*") if path.is_file())
        held = {str(path.relative_to(again.path)): path.read_bytes() for path in files}
        written[name] = list(summary_lines(fitted)), held
    assert written["two"] == written["alone"]
    assert {"table.json", "measurements.csv", "report.md", "plots/regret.png"} <= written["two"][1].keys()


def test_the_same_rows_are_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        write(tmp_path / name, 300)
    assert (tmp_path / "a" / "journal.jsonl").read_bytes() == (tmp_path / "b" / "journal.jsonl").read_bytes()


def test_plots_of_many_groups_show_some_and_say_so(tmp_path):
    records = [
        record_of(shape, number)
        for number, shape in zip(range(16 * 9 * len(TOKENS)), shapes(), strict=False)
        if shape.num_heads == 64 and shape.num_tokens in (1, 64, 1024)
    ]
    samples = collect(records)
    directory = RunDirectory(tmp_path)
    write(directory.path, 1)
    info = directory.read_info()
    findings = Findings(info, table_of(1)[0], samples=samples, crossovers=crossovers(samples))
    (latency,) = draw_latencies(findings, samples, tmp_path)
    assert latency.caption.endswith("9 of 16 (topk, extra_topk), evenly")
    (splits,) = draw_splits(findings, samples, tmp_path)
    assert "evenly" not in splits.caption


def test_thinned_samples_are_whole_points_of_the_others():
    records = [record_of(shape, number) for number, shape in zip(range(200), shapes(), strict=False)]
    samples = collect(records)
    thin = samples.thinned(50)
    assert len(thin) == 50
    keys = {samples.key(point): point for point in range(len(samples))}
    for point in range(len(thin)):
        whole = keys[thin.key(point)]
        rows, of = thin.rows(point), samples.rows(whole)
        assert np.array_equal(
            thin.log_time[rows.start : rows.stop], samples.log_time[of.start : of.stop], equal_nan=True
        )
    assert samples.thinned(200) is samples


def test_the_row_of_a_plan_is_found_for_many_points_at_once():
    records = [record_of(shape, number) for number, shape in zip(range(60), shapes(), strict=False)]
    samples = collect(records)
    points = np.repeat(np.arange(len(samples)), len(samples.plans))
    plans = np.tile(np.arange(len(samples.plans)), len(samples))
    found = samples.row_of(points, plans)
    for point, plan, row in zip(points.tolist(), plans.tolist(), found.tolist(), strict=True):
        expected = [each for each in samples.rows(point) if samples.plan[each] == plan]
        assert [row] == (expected or [-1])
