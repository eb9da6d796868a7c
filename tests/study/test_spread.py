"""Tasks over worker processes: the results of one process, and an end to all when one is lost or Ctrl-C comes."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from multiprocessing import active_children
from pathlib import Path

import pytest

from cake_tune.errors import CakeTuneError
from cake_tune.study.fit.evidence import gather
from cake_tune.study.fit.size import Size
from cake_tune.study.fit.spread import spread

TINY = Size(tokens=(1, 16), heads=(16,), topks=(128, 512), held_out=3, contested=1)
LONG = 600
"""Seconds of a task that nobody is to wait for."""


def late(seconds, value):
    time.sleep(seconds)
    return value, os.getpid()


def refused():
    raise CakeTuneError("refused")


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def threads():
    import numpy as np

    square = np.ones((600, 600))
    assert (square @ square)[0, 0] == 600
    return os.environ["OPENBLAS_NUM_THREADS"]


def test_results_and_what_is_told_keep_the_order_of_the_tasks():
    heard = []
    tasks = [partial(late, (5 - number) / 20, number) for number in range(5)]
    results = spread(tasks, 2, heard.append)
    assert results == heard
    assert [value for value, _ in results] == [0, 1, 2, 3, 4]
    assert os.getpid() not in {process for _, process in results}
    assert [value for value, _ in spread(tasks, 1, heard.append)] == [0, 1, 2, 3, 4]
    assert {process for _, process in heard[5:]} == {os.getpid()}


def test_a_worker_runs_one_thread_of_numpy_and_leaves_this_process_as_it_was():
    before = os.environ.get("OPENBLAS_NUM_THREADS")
    assert spread([threads, threads], 2, lambda result: None) == ["1", "1"]
    assert os.environ.get("OPENBLAS_NUM_THREADS") == before


@pytest.mark.parametrize(("task", "said"), [(refused, "refused"), (killed, "a worker process was lost")])
def test_a_task_that_fails_and_a_worker_that_is_killed_end_the_others_too(task, said):
    with pytest.raises(CakeTuneError, match=said):
        spread([task, partial(late, LONG, 1), partial(late, LONG, 2)], 2, lambda result: None)
    assert active_children() == []


def test_the_evidence_of_two_processes_is_that_of_one():
    told, found = {}, {}
    for processes in (1, 2):
        told[processes] = []
        found[processes] = gather(2, TINY, told[processes].append, processes=processes)
    assert told[2] == told[1]
    assert told[1][:2] == ["simulated random 0: 1 of 2 devices", "simulated random 1: 2 of 2 devices"]
    assert told[1][2:] == [device.name for device in found[1].presets]
    for name in ("size", "devices", "presets", "skus"):
        assert getattr(found[2], name) == getattr(found[1], name)
    assert [score.regret for score in found[2].scores] == [score.regret for score in found[1].scores]


PROGRAM = """
import os, sys, time
from functools import partial
from pathlib import Path

from cake_tune.study.fit.spread import spread


def wait(number):
    Path(f"{number}.pid").write_text(str(os.getpid()))
    time.sleep(600)


if __name__ == "__main__":
    try:
        spread([partial(wait, number) for number in range(4)], 2, print)
    except KeyboardInterrupt:
        sys.exit(130)
"""


@pytest.mark.parametrize("everybody", [True, False], ids=["a terminal's Ctrl-C", "a signal to the parent alone"])
def test_ctrl_c_ends_everything_at_once_and_quietly(tmp_path, everybody):
    (tmp_path / "program.py").write_text(PROGRAM)
    child = subprocess.Popen(
        [sys.executable, "program.py"], cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    files = [tmp_path / f"{number}.pid" for number in range(2)]
    try:
        wait_for(lambda: all(path.exists() and path.read_text() for path in files))
        (os.killpg if everybody else os.kill)(child.pid, signal.SIGINT)
        _, said = child.communicate(timeout=60)
    finally:
        child.kill()
    assert (child.returncode, said) == (130, "")
    wait_for(lambda: not any(Path(f"/proc/{path.read_text()}").exists() for path in files))
    assert not (tmp_path / "2.pid").exists()


def wait_for(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)
