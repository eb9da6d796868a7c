import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cake_tune.errors import JournalError, UndecidedError
from cake_tune.journal.journal import Journal, read_journal
from cake_tune.journal.record import PlanRow, PointRecord
from cake_tune.journal.run import RunDirectory
from cake_tune.planner.shape import Plan, Shape
from cake_tune.report import fit_run, summary, summary_lines, write_report

GOLDEN = RunDirectory(Path(__file__).parent.parent / "data" / "report-run")
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


@pytest.mark.parametrize("records", [None, [], [PointRecord("k", Shape(1, 16, 512), "crashed", (FAILED,))]])
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
    write(run, [PointRecord("k", Shape(1, 16, 512, sink=True, page_size=1), "crashed", (FAILED,))])
    write_report(run)
    line = "| T=1 H=16 topk=512 page=1 sink | `decode/t1/s1x8` | device \\| lost second line |"
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
    lines = list(summary_lines(run, fit_run(run)))
    assert sorted(path.name for path in run.path.iterdir()) == before
    assert any(line.startswith("rules: ") and "moved from NVIDIA GB10" in line for line in lines)
    assert '  splitting.grid_cap: "1/3" → "4/4"' in lines


def test_fit_run_of_nothing_is_undecided(run):
    write(run, [])
    with pytest.raises(UndecidedError):
        fit_run(run)


def test_many_failures_are_cut_short_with_a_count(run):
    records = [PointRecord(f"k{t}", Shape(t, 16, 512), "crashed", (replace(FAILED),)) for t in range(1, 31)]
    write(run, records)
    write_report(run)
    assert "10 more in `measurements.csv`." in run.report.read_text(encoding="utf-8")
