"""``replay``, ``compare`` and ``study`` as a user calls them."""

import csv
import shutil
from pathlib import Path

import pytest
from commands import cake_tune

DATA = Path(__file__).parents[1] / "data"
RUNS = DATA / "study"


def test_replay_prints_policies_side_by_side_and_writes_every_point(tmp_path):
    done = cake_tune(
        "replay", RUNS / "a", "-p", "race", "-p", "argmin:3:median", "--seeds", "4", "--csv", tmp_path / "replay.csv"
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "16 points, 4 independent repetitions each, on recorded visits"
    assert [line.split()[0] for line in lines[2:4]] == ["race", "argmin:3:median"]
    with (tmp_path / "replay.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 32
    assert {row["policy"] for row in rows} == {"race", "argmin:3:median"}
    assert all(int(row["pairs"]) == 2 for row in rows)


def test_replay_says_the_same_twice_and_another_seed_something_else():
    command = ("replay", RUNS / "b", "-p", "argmin:1", "--seeds", "6")
    assert cake_tune(*command).stdout == cake_tune(*command).stdout
    assert cake_tune(*command).stdout != cake_tune(*command, "--seed", "7").stdout


def test_replay_says_where_means_were_not_kept():
    done = cake_tune("replay", DATA / "report-run", "-p", "argmin:2", "--seeds", "2")
    assert done.returncode == 0, done.stderr
    assert "did not keep the means of samples" in done.stdout
    assert "did not keep" not in cake_tune("replay", RUNS / "a", "-p", "argmin:2", "--seeds", "2").stdout


def test_replay_refuses_a_policy_it_does_not_know():
    done = cake_tune("replay", RUNS / "a", "--policy", "best")
    assert done.returncode == 2
    assert done.stderr.startswith("error: policy: expected race, confirm, argmin:N")


def test_replay_of_nothing_is_undecided(tmp_path):
    shutil.copytree(RUNS / "b", tmp_path / "b")
    (tmp_path / "b" / "journal.jsonl").write_bytes(b"")
    done = cake_tune("replay", tmp_path / "b")
    assert done.returncode == 5
    assert "none to replay" in done.stderr


def test_compare_is_quiet_about_a_run_and_itself_and_exits_3_on_a_regression(tmp_path):
    same = cake_tune("compare", RUNS / "a", RUNS / "a")
    assert same.returncode == 0, same.stderr
    assert "slower by more than 1.00 %, and standing out: 0" in same.stdout
    shutil.copytree(RUNS / "a", tmp_path / "a")
    shutil.copy(tmp_path / "a" / "in-force.json", tmp_path / "a" / "table.json")
    worse = cake_tune("compare", RUNS / "a", tmp_path / "a")
    assert worse.returncode == 3
    assert worse.stderr.startswith(f"error: {tmp_path / 'a'}: against")
    assert "the table chooses worse" in worse.stderr


def test_study_gpu_writes_its_files_and_prints_the_figures(tmp_path):
    done = cake_tune("study", "gpu", RUNS / "a", RUNS / "b", "--held-out", RUNS / "c", "--out", tmp_path / "study")
    assert done.returncode == 0, done.stderr
    assert [line.split("  ")[0] for line in done.stdout.splitlines()[:2]] == ["agreement of A and B", "A/A differences"]
    assert (tmp_path / "study" / "report.md").exists()
    assert len(list((tmp_path / "study" / "plots").iterdir())) == 4


@pytest.mark.parametrize("command", [("replay",), ("compare",), ("study",), ("study", "gpu")])
def test_help_explains_and_loads_nothing_heavy(command):
    done = cake_tune(*command, "--help", PYTHONPROFILEIMPORTTIME="1")
    assert done.returncode == 0
    assert "Usage:" in done.stdout
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert loaded & {"torch", "numpy", "pandas", "scipy", "matplotlib", "jinja2"} == set()


def test_study_refuses_runs_of_different_things_and_a_twin_run_without_twins():
    foreign = cake_tune("study", "gpu", RUNS / "a", DATA / "report-run")
    assert foreign.returncode == 2
    assert "expected the device Synthetic (simulated, num_sms 12), got Synthetic CPU" in foreign.stderr
    bare = cake_tune("study", "gpu", RUNS / "a", RUNS / "b", "--aa", RUNS / "b")
    assert bare.returncode == 2
    assert "--aa: expected a run with A/A points" in bare.stderr
    missing = cake_tune("study", "gpu", RUNS / "a", RUNS / "nowhere")
    assert missing.returncode == 2
    assert "expected a run directory" in missing.stderr


@pytest.mark.parametrize("where", ["file", "file/study"])
def test_a_report_that_could_not_be_written_is_refused_before_the_work(tmp_path, where):
    (tmp_path / "file").write_text("")
    for command in (("fit", "--short"), ("gpu", "absent", "absent")):
        done = cake_tune("study", *command, "--out", tmp_path / where)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"error: --out: expected a directory that can be written, got {tmp_path / where}\n"
