import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cake_tune.errors import JournalError, UndecidedError
from cake_tune.fit import table_of_run
from cake_tune.journal.journal import Journal, read_journal
from cake_tune.journal.record import PlanRow, PointRecord
from cake_tune.journal.run import RunDirectory
from cake_tune.planner.shape import Plan, Shape
from cake_tune.planner.table import save_table
from cake_tune.report import fit_run, summary, summary_lines, write_report
from cake_tune.report.fixed import resolved
from cake_tune.study.fixed import best_request
from cake_tune.study.points import measured_points
from cake_tune.study.scored import score_answer

GOLDEN = RunDirectory(Path(__file__).parent.parent / "data" / "report-run")
KEY = f"{GOLDEN.read_info().origin}-k"
FAILED = PlanRow(Plan("decode", 1, 1, 8), "crashed", error="device | lost\nsecond line")


@pytest.fixture
def run(tmp_path):
    """A run directory with the golden run.json and nothing measured."""
    made = RunDirectory(tmp_path / "run")
    made.path.mkdir()
    shutil.copy(GOLDEN.run_json, made.path)
    shutil.copy(GOLDEN.in_force, made.path)
    return made


def write(run, records):
    with Journal(run.journal) as journal:
        for record in records:
            journal.append(record)


def test_a_directory_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(JournalError, match=r"run.json"):
        write_report(RunDirectory(tmp_path))


@pytest.mark.parametrize("records", [None, [], [PointRecord(KEY, Shape(1, 16, 512), "crashed", (FAILED,))]])
def test_nothing_usable_is_said_and_drawn_as_nothing(run, records):
    if records is not None:
        write(run, records)
    write_report(run)
    text = run.report.read_text(encoding="utf-8")
    assert f"**Nothing usable was measured yet**: {len(records or [])} points" in text
    assert list(run.plots.iterdir()) == []
    assert len(run.measurements.read_text(encoding="utf-8").splitlines()) >= 1 + len(records or [])
    assert any("nothing usable" in line for line in summary(run))


def test_errors_stay_inside_their_cell(run):
    write(run, [PointRecord(KEY, Shape(1, 16, 512, sink=True, page_size=1), "crashed", (FAILED,))])
    write_report(run)
    line = "| T=1 H=16 topk=512 page_size=1 sink | `decode/t1/s1x8` | device \\| lost second line |"
    assert line in run.report.read_text(encoding="utf-8").splitlines()


def test_half_a_journal_gives_half_a_report(run):
    records = list(read_journal(GOLDEN.journal))[:9]
    write(run, records)
    write_report(run)
    text = run.report.read_text(encoding="utf-8")
    assert "| points | 9:" in text
    assert (run.plots / "latency-h16.png").exists()
    assert not (run.plots / "latency-h64.png").exists()


def test_plots_of_an_earlier_report_do_not_linger(run):
    run.plots.mkdir()
    (run.plots / "latency-h128.png").write_bytes(b"old")
    write(run, list(read_journal(GOLDEN.journal))[:2])
    write_report(run)
    assert not (run.plots / "latency-h128.png").exists()


def test_one_kernel_alone_has_no_crossover_to_tell(run):
    write(run, [record for record in read_journal(GOLDEN.journal) if record.shape.num_heads == 8])
    write_report(run)
    assert "None: no shape has times of both kernels." in run.report.read_text(encoding="utf-8")
    assert "crossovers: none, since no shape has times of both kernels" in summary(run)


def test_fit_run_decides_without_writing(run):
    write(run, read_journal(GOLDEN.journal))
    before = sorted(path.name for path in run.path.iterdir())
    lines = list(summary_lines(fit_run(run)))
    assert sorted(path.name for path in run.path.iterdir()) == before
    assert not any(line.startswith("files: ") for line in lines)
    assert any(line.startswith("regret, fitted table: ") for line in lines)
    assert any(line.startswith("rules: ") and "moved from NVIDIA GB10" in line for line in lines)
    assert '  splitting.grid_cap: "1/3" → "4/4"' in lines


def test_damaged_lines_are_told_in_the_report(run):
    write(run, list(read_journal(GOLDEN.journal))[:3])
    damaged = run.journal.read_bytes().replace(b'"num_tokens":2', b'"num_tokens":3', 1)
    run.journal.write_bytes(damaged)
    write_report(run)
    text = run.report.read_text(encoding="utf-8")
    assert "**Lines of the journal are damaged" in text
    assert f"- {run.journal}:2" in text


def test_one_point_is_not_called_points(run):
    write(run, [PointRecord(KEY, Shape(1, 16, 512), "crashed", (FAILED,))])
    assert "  nothing usable was measured yet (1 point on record)" in summary(run)


def test_variants_pooled_into_one_shape_are_counted(run):
    record = next(each for each in read_journal(GOLDEN.journal) if each.shape.num_tokens == 4)
    shapes = [replace(record.shape, sink=sink, lengths=lengths) for sink in (False, True) for lengths in (False, True)]
    write(run, [replace(record, key=f"{record.key}{i}", shape=shape) for i, shape in enumerate(shapes)])
    write_report(run)
    said = "4 (1 shape: lengths, sinks and page sizes are taken together)"
    assert f"points with times: {said}" in summary(run)
    assert f"| points with times | {said} |" in run.report.read_text(encoding="utf-8").splitlines()


def only(record, *plans):
    """``record`` with these plans alone, the first chosen and the last in force before."""
    rows = [row for row in record.rows if row.plan in plans]
    return replace(record, rows=tuple(rows), best=plans[0], tied=(plans[0],), incumbent=plans[-1])


def of_eight_heads():
    return [record for record in read_journal(GOLDEN.journal) if record.shape.num_heads == 8]


def test_where_no_plan_in_force_has_a_time_its_regret_is_unknown(run):
    one, other = Plan("decode", 1, 1, 8), Plan("decode", 1, 2, 4)
    records = [only(record, one, other) for record in of_eight_heads()]
    failed = [
        replace(
            record,
            rows=tuple(replace(r, status="wrong", median_us=None) if r.plan == other else r for r in record.rows),
        )
        for record in records
    ]
    write(run, failed)
    write_report(run)
    assert "regret, plans in force before: unknown, its plans have no time at any of 7 shapes" in summary(run)
    assert "| plans in force before | unknown | unknown | unknown | 7 | 7 |" in run.report.read_text(encoding="utf-8")


def test_where_nothing_is_lost_no_empty_plot_is_drawn_and_the_report_says_why(run):
    write(run, [only(record, Plan("decode", 1, 1, 8)) for record in of_eight_heads()])
    write_report(run)
    assert not (run.plots / "regret.png").exists()
    assert "No plan with a time loses anything, so there is no plot of it." in run.report.read_text(encoding="utf-8")


STALE = "table.json is not what the journal gives now: run emit"


def test_a_table_that_the_journal_does_not_give_is_said_to_be_stale(run):
    records = list(read_journal(GOLDEN.journal))
    write(run, records[:20])
    save_table(table_of_run(run), run.table)
    write_report(run)
    assert STALE not in run.report.read_text(encoding="utf-8")
    assert STALE not in summary(run)
    write(run, records[20:])
    write_report(run)
    assert f"**{STALE}.**" in run.report.read_text(encoding="utf-8")
    assert STALE in summary(run)


def test_without_a_usable_time_any_table_is_stale(run):
    shutil.copy(GOLDEN.table, run.path)
    write(run, [PointRecord(KEY, Shape(1, 16, 512), "crashed", (FAILED,))])
    write_report(run)
    assert f"**{STALE}.**" in run.report.read_text(encoding="utf-8")


def test_fit_run_of_nothing_is_undecided(run):
    write(run, [])
    with pytest.raises(UndecidedError):
        fit_run(run)


def test_failures_are_listed_in_the_order_of_shapes_not_of_the_journal(run):
    write(run, [PointRecord(f"{KEY}{t}", Shape(t, 16, 512), "crashed", (FAILED,)) for t in (4, 1, 2)])
    write_report(run)
    listed = [line for line in run.report.read_text(encoding="utf-8").splitlines() if line.startswith("| T=")]
    assert [line.split()[1] for line in listed] == ["T=1", "T=2", "T=4"]


def test_many_failures_are_cut_short_with_a_count(run):
    records = [PointRecord(f"{KEY}{t}", Shape(t, 16, 512), "crashed", (replace(FAILED),)) for t in range(1, 31)]
    write(run, records)
    write_report(run)
    assert "10 more in `measurements.csv`." in run.report.read_text(encoding="utf-8")


SPEC = """
version: 1
backend: cpu
shapes: {num_tokens: [1, 2, 4, 64], num_heads: [8], topk: [512]}
"""


def test_the_gpus_and_the_share_of_the_spec_are_told(run):
    run.write_info(replace(run.read_info(), spec_text=SPEC))
    write(run, [replace(each, gpu=f"GPU-{number % 2}") for number, each in enumerate(of_eight_heads())])
    write_report(run)
    lines = run.report.read_text(encoding="utf-8").splitlines()
    for line in ("| points of GPU GPU-0 | 4 |", "| points of GPU GPU-1 | 3 |", "| points of the spec | 3 of 4 |"):
        assert line in lines


def test_the_best_fixed_plan_is_that_of_studies(run):
    """Resolved at every shape, like explicit arguments, whatever the number of points that raced it by its own name."""
    write(run, read_journal(GOLDEN.journal))
    points = measured_points(read_journal(GOLDEN.journal)).values()
    held = [each for point in points if (each := point.reachable()) is not None]
    request = best_request(held)
    scored = score_answer("", lambda point: resolved(request, point.shape, point.kernel_alone), held).summary
    (policy,) = (each for each in fit_run(run).policies if each.name == f"best fixed plan ({request})")
    assert policy.summary.mean == pytest.approx(scored.mean)
    assert policy.summary.worst == pytest.approx(scored.worst)
