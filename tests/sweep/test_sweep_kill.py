"""Kill -9 and Ctrl-C at any moment: no row is lost, doubled or torn, no process is left, a resumed sweep is whole."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sweep_specs import lines_of, make_spec, many_shapes, run_at

from cake_tune.backends import get_backend
from cake_tune.journal.journal import read_journal
from cake_tune.journal.line import intact_bodies, is_clean, key_of
from cake_tune.journal.run import RunDirectory
from cake_tune.sweep.keys import is_audited, point_keys
from cake_tune.sweep.provenance import run_info

POINTS = 500
KILLS = 20


def start(
    run: RunDirectory, points: int = POINTS, backend: str = "simulated", devices: int = 0, **options
) -> subprocess.Popen:
    driver = Path(__file__).with_name("sweep_driver.py")
    command = [sys.executable, str(driver), str(run.path), str(points), backend, *([str(devices)] if devices else [])]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True, **options)


def await_word(sweep: subprocess.Popen, word: str) -> str:
    for line in sweep.stdout:
        if line.startswith(word):
            return line
    raise AssertionError(f"the sweep ended without saying {word!r}")


def await_points(sweep: subprocess.Popen, count: int) -> None:
    """Until a point starts behind ``count`` others or more: with several devices two may end before the next starts."""
    for line in sweep.stdout:
        word, *number = line.split()
        if word == "started" and int(number[0]) >= count:
            return
    raise AssertionError(f"the sweep ended before it had {count} points")


def end(sweep: subprocess.Popen) -> tuple[int, str]:
    text = sweep.communicate(timeout=60)[0]
    return sweep.returncode, text


def durable_keys(run: RunDirectory) -> set[str]:
    if not run.journal.exists():
        return set()
    return {key_of(body).decode() for line in lines_of(run) for body, _ in intact_bodies(line)}


def expected_keys(points: int = POINTS) -> set[str]:
    spec = make_spec(many_shapes(points))
    return set(point_keys(spec, run_info(spec, get_backend("simulated"))))


def assert_whole(run: RunDirectory, points: int = POINTS, audited: bool = False) -> None:
    lines = lines_of(run)
    assert all(is_clean(line) for line in lines)
    records = list(read_journal(run.journal))
    assert len(records) == len(lines)
    keys = [record.key for record in records if not record.audits]
    assert len(keys) == points
    assert set(keys) == expected_keys(points)
    audits = [record.audits for record in records if record.audits]
    assert len(audits) == len(set(audits))
    assert set(audits) == ({key for key in keys if is_audited(key, 0)} if audited else set())


def processes_of_group(group: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if os.getpgid(int(entry.name)) == group and "State:\tZ" not in (entry / "status").read_text():
                    found.append(int(entry.name))
            except (ProcessLookupError, FileNotFoundError):
                continue
    return found


def await_no_process(group: int) -> None:
    end = time.monotonic() + 10
    while processes_of_group(group):
        assert time.monotonic() < end, "a process outlived the sweep"
        time.sleep(0.02)


def test_killed_at_twenty_random_moments_a_sweep_loses_doubles_and_tears_nothing(tmp_path):
    run, rng = run_at(tmp_path), random.Random(20)
    known: set[str] = set()
    growths = 0
    for number in range(KILLS):
        sweep = start(run)
        if number % 4:
            # Somewhere among the next points; every fourth time, somewhere in the start.
            await_word(sweep, f"started {len(known) + rng.randrange(6)}\n")
        time.sleep(rng.uniform(0, 0.03 if number % 4 else 0.5))
        os.killpg(sweep.pid, signal.SIGKILL)
        assert end(sweep)[0] == -signal.SIGKILL
        now = durable_keys(run)
        assert known <= now, "a durable row was lost"
        growths += len(now) > len(known)
        known = now
    assert growths >= KILLS // 2
    assert len(known) < POINTS
    assert end(start(run))[0] == 0
    assert known <= durable_keys(run)
    assert_whole(run)


def test_killed_at_random_moments_a_sweep_on_three_devices_is_whole_as_well(tmp_path):
    run, rng = run_at(tmp_path), random.Random(3)
    known: set[str] = set()
    for _ in range(6):
        sweep = start(run, points=200, devices=3)
        measured = sum(not key.endswith("-audit") for key in known)
        await_points(sweep, min(measured + rng.randrange(12), 190))
        time.sleep(rng.uniform(0, 0.05))
        os.killpg(sweep.pid, signal.SIGKILL)
        assert end(sweep)[0] == -signal.SIGKILL
        now = durable_keys(run)
        assert known <= now, "a durable row was lost"
        known = now
    assert known
    assert end(start(run, points=200, devices=3))[0] == 0
    assert known <= durable_keys(run)
    assert_whole(run, points=200, audited=True)


def test_an_uninterrupted_sweep_has_the_same_keys(tmp_path):
    run = run_at(tmp_path)
    assert end(start(run, points=20))[0] == 0
    assert_whole(run, points=20)


@pytest.mark.skipif(sys.platform != "linux", reason="needs the kernel to end orphans")
def test_a_worker_does_not_outlive_its_parent_even_while_it_hangs(tmp_path):
    sweep = start(run_at(tmp_path), backend="faults:simulated:hang@decode/*")
    await_word(sweep, "started")
    sweep.kill()
    end(sweep)
    await_no_process(sweep.pid)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=["Ctrl-C", "SIGTERM", "hang-up"])
def test_a_request_to_stop_finishes_the_point_and_says_how_far_it_came(tmp_path, number):
    run = run_at(tmp_path)
    sweep = start(run)
    await_word(sweep, "started 3")
    os.killpg(sweep.pid, number)
    code, text = end(sweep)
    assert code == 130
    assert "stopping after the point at hand" in text
    lines = lines_of(run)
    assert 4 <= len(lines) < POINTS
    assert all(is_clean(line) for line in lines)
    assert {record.status for record in read_journal(run.journal)} <= {"ok", "tied"}
    # How to resume is the command line's to say: see its tests.
    assert text.endswith(f"{len(lines)} of {POINTS} points are measured\n")
    await_no_process(sweep.pid)


def test_a_request_to_stop_lets_every_device_finish_its_point(tmp_path):
    run = run_at(tmp_path)
    sweep = start(run, devices=3)
    await_points(sweep, 20)
    os.killpg(sweep.pid, signal.SIGINT)
    code, text = end(sweep)
    assert code == 130
    assert all(is_clean(line) for line in lines_of(run))
    records = [record for record in read_journal(run.journal) if not record.audits]
    assert {record.status for record in records} <= {"ok", "tied"}
    assert text.endswith(f"{len(records)} of {POINTS} points are measured\n")
    await_no_process(sweep.pid)


def test_a_second_ctrl_c_stops_every_hanging_device_at_once(tmp_path):
    backend = "faults:simulated:hang@decode/*"
    sweep = start(run_at(tmp_path), backend=backend, devices=3)
    await_word(sweep, "started")
    os.killpg(sweep.pid, signal.SIGINT)
    await_word(sweep, "message stopping")
    os.killpg(sweep.pid, signal.SIGINT)
    code, text = end(sweep)
    assert code == 130
    assert f"0 of {POINTS}" in text
    await_no_process(sweep.pid)


def test_a_second_ctrl_c_stops_a_hanging_point_at_once(tmp_path):
    sweep = start(run_at(tmp_path), backend="faults:simulated:hang@decode/*")
    await_word(sweep, "started")
    os.killpg(sweep.pid, signal.SIGINT)
    await_word(sweep, "message stopping")
    os.killpg(sweep.pid, signal.SIGINT)
    code, text = end(sweep)
    assert code == 130
    assert f"0 of {POINTS}" in text
    await_no_process(sweep.pid)


SLOW_START = """
import pathlib, sys, time
if "--multiprocessing-fork" in sys.orig_argv:
    pathlib.Path({mark!r}).touch()
    time.sleep(1)
"""
"""A ``sitecustomize``: a worker's interpreter takes a second before it runs a line of ours."""


@pytest.mark.parametrize("requests", [1, 2])
def test_a_request_to_stop_while_a_worker_starts_is_no_failure_of_that_worker(tmp_path, requests):
    mark = tmp_path / "starting"
    (tmp_path / "sitecustomize.py").write_text(SLOW_START.format(mark=str(mark)))
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    sweep = start(run_at(tmp_path), stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path})
    while not mark.exists():
        assert sweep.poll() is None
        time.sleep(0.01)
    os.killpg(sweep.pid, signal.SIGINT)
    await_word(sweep, "message stopping")
    if requests > 1:
        os.killpg(sweep.pid, signal.SIGINT)
    text, errors = sweep.communicate(timeout=60)
    assert (sweep.returncode, text, errors) == (130, f"0 of {POINTS} points are measured\n", "")
    await_no_process(sweep.pid)
