"""``emit`` as a user types it: a table, a planner module, and the proof of either."""

import json
import shutil
from pathlib import Path

import pytest
from commands import cake_tune

DATA = Path(__file__).parents[1] / "data"
TABLE = DATA / "quickstart-run" / "table.json"


@pytest.fixture
def run(tmp_path):
    """A measured run, without what is written from it."""
    copy = tmp_path / "run"
    shutil.copytree(DATA / "quickstart-run", copy)
    for name in ("table.json", "planner.py"):
        (copy / name).unlink()
    return copy


def test_a_run_gives_its_table_and_its_planner_module(run):
    table = cake_tune("emit", run)
    assert table.stdout == f"{run}/table.json: AMD EPYC (2 workers, measured), 2 exceptions\n"
    module = cake_tune("emit", run, "--format", "python")
    assert module.stdout == f"{run}/planner.py: planner module of AMD EPYC (2 workers, measured), 2 exceptions\n"
    for name in ("table.json", "planner.py"):
        assert (run / name).read_text() == (DATA / "quickstart-run" / name).read_text()


def test_a_partial_sweep_is_said_to_be_one(run):
    """On stderr, where a person sees it, and in the table and the module, which go elsewhere."""
    journal = run / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[:5]))
    told = f"{run}: the sweep is partial: 5 of the {len(lines)} points of sweeps/cpu-quickstart.yaml have records; "
    for command in (("emit", run), ("emit", run, "--format", "python"), ("fit", run)):
        done = cake_tune(*command)
        assert done.returncode == 0
        assert done.stderr.startswith(told)
    note = f"times of 5 of the {len(lines)} points that the spec lists"
    assert json.loads((run / "table.json").read_text())["provenance"]["note"].endswith(f"; {note}")
    assert note in " ".join((run / "planner.py").read_text().split())
    assert cake_tune("emit", run, "--check").returncode == 0


def test_a_complete_sweep_is_not_called_partial(run):
    for command in (("emit", run), ("fit", run)):
        assert cake_tune(*command).stderr == ""
    assert "points that the spec lists" not in (run / "table.json").read_text()


def test_a_table_file_alone_gives_its_module_on_stdout_or_in_a_file(tmp_path):
    shown = cake_tune("emit", "--table", TABLE, "--format", "python")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout == TABLE.with_name("planner.py").read_text()
    written = tmp_path / "sm120.py"
    assert cake_tune("emit", "--table", TABLE, "--format", "python", "-o", written).returncode == 0
    assert written.read_text() == shown.stdout


def test_check_proves_a_committed_module_or_names_the_line_that_differs(run):
    options = ("--format", "python", "--check")
    assert "table.json: cannot be read" in cake_tune("emit", run, *options).stderr
    for name in ("table.json", "planner.py"):
        shutil.copy(DATA / "quickstart-run" / name, run)
    assert cake_tune("emit", run, *options).stdout == f"{run}/planner.py: is what {run}/table.json gives\n"
    module = run / "planner.py"
    module.write_text(module.read_text().replace("MEASURED_SMS = 2", "MEASURED_SMS = 188"))
    for source in ((run,), ("--table", run / "table.json", "-o", module)):
        done = cake_tune("emit", *source, *options)
        assert done.returncode == 4
        assert "expected 'MEASURED_SMS = 2', got 'MEASURED_SMS = 188'" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "RUN, --table: expected one of them"),
        (("run", "--table", TABLE), "RUN, --table: expected one of them"),
        (("--table", TABLE), "--table: expected with --format python"),
        (("--table", "absent.json", "--format", "python"), "absent.json: cannot be read"),
        (("--table", TABLE, "--format", "python", "--check"), "--check: expected with --output"),
        (("run", "--format", "python", "--install"), "--install: expected without --check and --format python"),
        (("--table", TABLE, "--format", "python", "-o", "absent/x.py"), "absent"),
    ],
)
def test_what_cannot_be_emitted_is_exit_2_with_one_message(arguments, message, tmp_path):
    done = cake_tune("emit", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr and "Traceback" not in done.stderr
