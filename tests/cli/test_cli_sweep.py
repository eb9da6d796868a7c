"""``cake-tune sweep`` as a user meets it: stopped, resumed, out of time, with failures; on the simulated device."""

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from commands import cake_tune

from cake_tune.cli.sweep import sweep
from cake_tune.journal.journal import read_journal

QUICK = """\
measure: {discard: 0, samples: 2, short_samples: 2, max_rounds: 3, early_rounds: 2, kn_rounds: 3, confirm_rounds: 2,
  aa_rounds: 4, warmup_seconds: 0}
"""
ODD = "a run; of 'mine'"


def write_spec(folder: Path, name: str = "small.yaml", backend: str = "simulated", tokens: str = "[1, 2, 4]", **more):
    folder.mkdir(exist_ok=True)
    path = folder / name
    keys = "".join(f"{key}: {value}\n" for key, value in more.items())
    shapes = f"shapes: {{num_tokens: {tokens}, num_heads: 16, topk: 128}}\n"
    path.write_text(f'version: 1\nname: small\nbackend: "{backend}"\n{keys}{shapes}{QUICK}')
    return path.relative_to(folder.parent)


def interrupted(*arguments: str | Path, cwd: Path, after: int = 3) -> tuple[int, list[str], str]:
    """Exit code, lines of stdout and text of stderr of a sweep that gets Ctrl-C after some finished points."""
    json_events = "--json" in arguments
    command = [sys.executable, "-m", "cake_tune.cli", "sweep", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=cwd)
    told = process.stdout if json_events else process.stderr
    early = []
    for line in told:
        early.append(line)
        if ('"finished"' in line if json_events else line.startswith("[")) and len(early) > after:
            break
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    lines = ("".join(early) + out if json_events else out).splitlines()
    return process.returncode, lines, err if json_events else "".join(early) + err


def journal_of(results: Path) -> Path:
    (journal,) = results.glob("*/small/journal.jsonl")
    return journal


@pytest.mark.parametrize("options", [(), ("--emit", "--retry-failed", "--json")], ids=["plain", "every option"])
def test_the_command_that_is_printed_resumes_with_the_same_options(tmp_path, options):
    spec = write_spec(tmp_path / ODD, tokens="{from: 1, to: 300}")
    results = Path(ODD) / "the results"
    code, lines, err = interrupted(spec, "--results", results, "--fresh", *options, cwd=tmp_path)
    assert code == 130
    assert "Traceback" not in err
    message, _, command = err.splitlines()[-1].partition("; resume with: ")
    measured = sum(1 for _ in read_journal(journal_of(tmp_path / results)))
    assert message == f"interrupted: {measured} of 300 points are measured"
    assert 1 <= measured < 300
    words = shlex.split(command)
    assert words[3:] == ["sweep", str(spec), "--results", str(results), *options]
    if "--json" in options:
        event = json.loads(lines[-1])
        assert (event["event"], event["done"], event["total"]) == ("interrupted", measured, 300)
        assert shlex.split(event["resume"]) == words
    before = journal_of(tmp_path / results).read_bytes()
    done = subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert journal_of(tmp_path / results).read_bytes().startswith(before)
    assert sum(1 for _ in read_journal(journal_of(tmp_path / results))) == 300
    assert journal_of(tmp_path / results).with_name("table.json").exists() == ("--emit" in options)


def test_the_command_that_is_printed_does_not_name_the_usual_results(tmp_path):
    spec = write_spec(tmp_path / "specs", tokens="{from: 1, to: 300}")
    code, _, err = interrupted(spec, cwd=tmp_path)
    assert code == 130
    assert err.endswith(f"sweep {spec}\n")


@pytest.mark.parametrize("as_json", [False, True])
def test_ctrl_c_while_the_table_is_made_says_what_is_kept_and_how_to_go_on(tmp_path, monkeypatch, capsys, as_json):
    def stopped(run):
        raise KeyboardInterrupt

    monkeypatch.setattr("cake_tune.cli.emit.emit", stopped)
    spec = tmp_path / write_spec(tmp_path / "specs")
    with pytest.raises(KeyboardInterrupt):
        sweep(spec, tmp_path / "results", emit=True, as_json=as_json)
    run, told = journal_of(tmp_path / "results").parent, capsys.readouterr()
    said, _, commands = told.err.splitlines()[-1].rpartition(" with: ")
    assert said == f"interrupted: the rows are kept in {run / 'journal.jsonl'}; write table and report"
    if as_json:
        event = json.loads(told.out.splitlines()[-1])
        assert (event["event"], event["done"], event["resume"]) == ("interrupted", 3, commands)
    for command in commands.split(" && "):
        done = cake_tune(*shlex.split(command)[-2:])
        assert done.returncode == 0, done.stderr
    assert (run / "table.json").exists() and (run / "report.md").exists()


def test_out_of_time_prints_the_command_that_goes_on_and_that_is_not_fresh(tmp_path):
    spec = write_spec(tmp_path / "specs", time_budget="0.001")
    done = cake_tune("sweep", spec, "--fresh", cwd=tmp_path)
    assert done.returncode == 0
    sentence, _, command = done.stderr.splitlines()[-1].partition(" with: ")
    assert sentence == "the time budget is spent; measure what is left"
    assert shlex.split(command)[3:] == ["sweep", str(spec)]
    done = cake_tune("sweep", spec, "--fresh", "--json", cwd=tmp_path)
    event = json.loads(done.stdout.splitlines()[-1])
    assert event["event"] == "ended" and event["out_of_time"]
    assert shlex.split(event["resume"])[3:] == ["sweep", str(spec), "--json"]


def test_a_sweep_with_failures_emits_what_it_has_and_ends_with_7(tmp_path):
    # At 8 heads and one chunk decode is the only plan, so that the point of 64 candidates fails.
    spec = write_spec(tmp_path / "specs", "some.yaml", "faults:simulated:wrong@decode/t1/s1x1")
    text = (tmp_path / spec).read_text()
    (tmp_path / spec).write_text(text.replace("num_heads: 16, topk: 128", "num_heads: 8, topk: [64, 128]"))
    done = cake_tune("sweep", spec, "--emit", cwd=tmp_path)
    assert done.returncode == 7, done.stderr
    assert "3 of 6 points have no winner" in done.stderr
    run = journal_of(tmp_path / "results").parent
    assert (run / "table.json").exists() and (run / "report.md").exists()
    assert "table.json" in done.stdout


@pytest.mark.parametrize("redirection", ["| head -n 1", ">/dev/full", "2>&- >&-", "2>/dev/full"])
@pytest.mark.parametrize("option", ["", "--json"])
def test_a_sweep_whose_progress_nobody_can_read_goes_on(tmp_path, redirection, option):
    spec = write_spec(tmp_path / "specs", tokens="{from: 1, to: 40}")
    command = f"{shlex.quote(sys.executable)} -m cake_tune.cli sweep {spec} {option} {redirection}"
    done = subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert sum(1 for _ in read_journal(journal_of(tmp_path / "results"))) == 40


def test_points_that_differ_only_in_flags_are_told_apart(tmp_path):
    spec = write_spec(tmp_path / "specs", tokens="1")
    text = (tmp_path / spec).read_text().replace("topk: 128", "topk: 128, page_size: [2, 64], lengths: [false, true]")
    (tmp_path / spec).write_text(text)
    done = cake_tune("sweep", spec, cwd=tmp_path)
    points = {line.partition("] ")[2].partition(": ")[0] for line in done.stderr.splitlines()}
    shape = "T=1 H=16 topk=128"
    assert points == {shape, f"{shape} lengths", f"{shape} page_size=2", f"{shape} page_size=2 lengths"}


def test_only_wrong_results_are_exit_4(tmp_path):
    spec = write_spec(tmp_path / "specs", backend="faults:simulated:wrong@*")
    done = cake_tune("sweep", spec, cwd=tmp_path)
    assert done.returncode == 4
    assert "no point has a plan with right results" in done.stderr


def test_lines_that_a_journal_lost_are_told_and_prove_nothing(tmp_path):
    spec = write_spec(tmp_path / "specs")
    assert cake_tune("sweep", spec, "--emit", cwd=tmp_path).returncode == 0
    journal = journal_of(tmp_path / "results")
    run = journal.parent
    assert cake_tune("emit", run, "--check").returncode == 0
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(lines[0] + lines[1].replace(b"rounds", b"rouNds") + lines[2])
    for command in ("fit", "emit", "report"):
        done = cake_tune(command, run)
        assert done.returncode == 0, done.stderr
        assert f"warning: {journal}:2: damaged line" in done.stderr
    done = cake_tune("emit", run, "--check")
    assert done.returncode == 2
    assert "a damaged journal proves nothing" in done.stderr


def test_the_journal_of_another_run_gives_no_table(tmp_path):
    spec = write_spec(tmp_path / "specs")
    assert cake_tune("sweep", spec, cwd=tmp_path).returncode == 0
    run = journal_of(tmp_path / "results").parent
    info = json.loads((run / "run.json").read_text())
    info["device"] |= {"name": "NVIDIA H200", "arch": "sm_90a", "num_sms": 132}
    (run / "run.json").write_text(json.dumps(info))
    for command in (("fit", run), ("emit", run), ("emit", run, "--check"), ("report", run)):
        done = cake_tune(*command)
        assert done.returncode == 2, command
        assert "expected records of the device, kernel, backend and protocol that run.json names" in done.stderr or (
            "--check" in command and "table.json" in done.stderr
        )
    assert not (run / "table.json").exists()


@pytest.mark.parametrize("results", ["/proc/none", "a file"])
def test_results_that_cannot_be_written_are_one_message_and_exit_2(tmp_path, results):
    (tmp_path / "a file").write_text("")
    done = cake_tune("sweep", write_spec(tmp_path / "specs"), "--results", results, cwd=tmp_path)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ") and results in line


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_run_that_may_not_be_written_is_one_message_and_exit_2(tmp_path):
    spec = write_spec(tmp_path / "specs")
    assert cake_tune("sweep", spec, cwd=tmp_path).returncode == 0
    run = journal_of(tmp_path / "results").parent
    run.chmod(0o555)
    try:
        done = cake_tune("sweep", spec, cwd=tmp_path)
    finally:
        run.chmod(0o755)
    assert done.returncode == 2
    assert "Permission denied" in done.stderr and "Traceback" not in done.stderr


def test_several_devices_and_what_they_were_asked_with_comes_back_in_the_command_that_resumes(tmp_path):
    spec = write_spec(tmp_path / "specs", tokens="{from: 1, to: 300}")
    code, _, err = interrupted(spec, "--gpus", "2", cwd=tmp_path, after=10)
    assert code == 130
    assert err.endswith(f"sweep {spec} --gpus 2\n")
    command = err.splitlines()[-1].partition("; resume with: ")[2]
    done = subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    records = list(read_journal(journal_of(tmp_path / "results")))
    assert len([record for record in records if record.counts]) == 300
    assert {record.gpu for record in records} == {"simulated-0", "simulated-1"}


def test_devices_that_are_not_there_are_one_message_and_exit_2(tmp_path):
    done = cake_tune("sweep", write_spec(tmp_path / "specs"), "--gpus", "all", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: --gpus: expected from 1 to 64 simulated devices, got all\n"
    assert not (tmp_path / "results").exists()


def test_an_a_a_run_says_how_many_differ_and_leaves_the_run_alone(tmp_path):
    spec = write_spec(tmp_path / "specs", tokens="{from: 1, to: 30}")
    done = cake_tune("sweep", spec, "--aa", "10", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (journal,) = (tmp_path / "results").glob("*/small/aa/journal.jsonl")
    records = list(read_journal(journal))
    assert len(records) == 10 and all(record.twins for record in records)
    differ = sum(record.status == "ok" for record in records)
    assert done.stdout.splitlines()[-1] == f"{differ} of 10 A/A points show a difference"
    assert not list((tmp_path / "results").glob("*/small/journal.jsonl"))
    assert cake_tune("sweep", spec, "--aa", "10", "--json", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("option", ["--fresh", "--emit", "--retry-failed"])
def test_an_a_a_run_takes_no_options_of_the_sweep(tmp_path, option):
    done = cake_tune("sweep", write_spec(tmp_path / "specs"), "--aa", "2", option, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: --aa: expected without --fresh, --retry-failed and --emit")


def test_more_a_a_points_than_points_are_refused(tmp_path):
    done = cake_tune("sweep", write_spec(tmp_path / "specs"), "--aa", "4", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (2, "error: --aa: expected from 1 to 3 points of small, got 4\n")


def test_a_refined_sweep_measures_more_than_its_spec_lists(tmp_path):
    spec = write_spec(tmp_path / "specs", tokens="[1, 4, 16, 64]", search="{refine: true}")
    text = (tmp_path / spec).read_text().replace("num_heads: 16, topk: 128", "num_heads: 64, topk: 512")
    (tmp_path / spec).write_text(text)
    done = cake_tune("sweep", spec, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    tokens = {record.shape.num_tokens for record in read_journal(journal_of(tmp_path / "results"))}
    assert tokens > {1, 4, 16, 64}
    assert f"{len(tokens)} of {len(tokens)} points" in done.stdout
