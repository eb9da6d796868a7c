import csv
import shutil
from pathlib import Path

import pytest

from cake_tune.errors import WrongResultError
from cake_tune.fit import check_table, table_of_run
from cake_tune.journal.run import RunDirectory
from cake_tune.planner.table import load_table, save_table
from cake_tune.report import summary, write_report
from cake_tune.report.columns import COLUMNS

GOLDEN = RunDirectory(Path(__file__).parent.parent / "data" / "report-run")


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """The golden run's files, reported afresh."""
    run = RunDirectory(tmp_path_factory.mktemp("report") / "run")
    run.path.mkdir()
    for path in (GOLDEN.run_json, GOLDEN.in_force, GOLDEN.journal, GOLDEN.table):
        shutil.copy(path, run.path)
    write_report(run)
    return run


def test_the_report_is_the_committed_one(written):
    assert written.report.read_text(encoding="utf-8") == GOLDEN.report.read_text(encoding="utf-8")


def test_the_measurements_are_the_committed_ones(written):
    assert written.measurements.read_bytes() == GOLDEN.measurements.read_bytes()


def test_the_committed_table_is_what_its_journal_gives(written, tmp_path):
    check_table(written, GOLDEN.table)
    other = tmp_path / "other.json"
    text = GOLDEN.table.read_text(encoding="utf-8")
    other.write_text(text.replace('"whole_chunks": 0', '"whole_chunks": 1'), encoding="utf-8")
    with pytest.raises(
        WrongResultError, match=r'other.json:\d+: expected .*"whole_chunks": 0.*got .*"whole_chunks": 1'
    ):
        check_table(written, other)


def test_whoever_reads_the_last_report_keeps_it_whole_while_the_next_is_written(written, tmp_path):
    run = RunDirectory(tmp_path / "run")
    shutil.copytree(written.path, run.path)
    shown = [run.report, run.measurements, *run.plots.iterdir()]
    before = [path.read_bytes() for path in shown]
    readers = [path.open("rb") for path in shown]
    run.table.unlink()
    write_report(run)
    assert run.report.read_bytes() != before[0]
    for reader, content in zip(readers, before, strict=True):
        with reader:
            assert reader.read() == content
    assert [path.name for path in run.path.iterdir() if path.name.startswith(".")] == []


def test_every_plot_of_the_report_is_a_picture(written):
    text = written.report.read_text(encoding="utf-8")
    names = sorted(path.name for path in written.plots.iterdir())
    assert names == [
        *(f"latency-h{heads}.png" for heads in (16, 64, 8)),
        "regret.png",
        *(f"splits-h{heads}.png" for heads in (16, 64, 8)),
    ]
    for name in names:
        assert f"](plots/{name})" in text
        content = (written.plots / name).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) > 10_000


def test_the_csv_has_a_row_per_plan_and_its_regret_adds_up():
    with GOLDEN.measurements.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [column.name for column in COLUMNS]
    points = {}
    for row in rows:
        points.setdefault((row["num_tokens"], row["num_heads"], row["topk"], row["extra_topk"]), []).append(row)
    assert len(points) == 35
    for plans in points.values():
        timed = [row for row in plans if row["median_us"]]
        fastest = min(float(row["median_us"]) for row in timed)
        assert [row["is_best"] for row in plans].count("true") == 1
        for row in timed:
            assert float(row["regret_pct"]) == pytest.approx(100 * (float(row["median_us"]) / fastest - 1), abs=1e-2)
    failed = [row for row in rows if not row["median_us"]]
    assert sorted(row["status"] for row in failed) == ["crashed", "wrong"]
    assert all(row["error"] and not row["regret_pct"] and not row["bandwidth_GBps"] for row in failed)


def test_the_summary_says_crossovers_first_and_that_it_was_a_cpu(written):
    lines = summary(written)
    assert "measured on CPU" in lines[0]
    assert "never answers for" in lines[1]
    assert lines[2].startswith("crossovers")
    assert any(line.startswith("  in parentheses the bracket") for line in lines)
    assert "exceptions: 2, each at measured num_tokens alone (between them: cost model)" in lines
    assert "  H=64 topk=512: decode up to T=2 (2…4), prefill above" in lines
    assert "  H=8 topk=512: 4 at T=1, 1 at T=32" in lines
    assert "without a usable time: 1 crashed, 1 timeout, 1 wrong" in lines
    assert lines[-1].startswith("files: ")


def test_a_plan_kept_for_noise_is_no_tie_anywhere(written):
    (line,) = (line for line in summary(written) if line.startswith("kept for noise: "))
    assert line.startswith("kept for noise: at 1 of 35 shapes the race kept a plan that measured slower than another ")
    text = written.report.read_text(encoding="utf-8")
    assert "| 64 | 512 | 128 | 1 | `decode/t2/s1x10` | `decode/t2/s2x5` | 3.67 % | -0.04 % |" in text.splitlines()


def test_splits_win_at_one_token_and_lose_at_many_in_the_table():
    table = load_table(GOLDEN.table)
    assert table.rules.splits(1, 16, 8, 4, max_splits=16, head_tiles=1)[0] > 1
    assert table.rules.splits(32, 16, 8, 4, max_splits=16, head_tiles=1)[0] == 1


def test_a_report_before_emit_says_there_is_no_table(written, tmp_path):
    run = RunDirectory(tmp_path / "run")
    shutil.copytree(written.path, run.path)
    run.table.unlink()
    write_report(run)
    assert "None emitted yet" in run.report.read_text(encoding="utf-8")
    save_table(table_of_run(run), run.table)
    assert run.table.read_bytes() == GOLDEN.table.read_bytes()
