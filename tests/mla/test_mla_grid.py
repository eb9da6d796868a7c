"""The CPU grid: every block once, one core per worker, errors to the caller, the caller's torch settings untouched."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import torch

from cake_tune.errors import UsageError
from cake_tune.mla import cpu_workers, device_of
from cake_tune.mla.device import usable_cores
from cake_tune.mla.grid import run_grid

WORKERS = "CAKE_TUNE_CPU_WORKERS"


@pytest.fixture(params=["1", "2", "5"])
def workers(request, monkeypatch):
    monkeypatch.setenv(WORKERS, request.param)
    return int(request.param)


@pytest.mark.parametrize("blocks", [0, 1, 3, 100])
def test_every_block_runs_once(workers, blocks):
    """Whatever the number of workers, and none is left when the call returns."""
    seen = []
    run_grid(lambda block, _: seen.append(block), blocks)
    assert sorted(seen) == list(range(blocks))


def test_workers_run_side_by_side(monkeypatch):
    """Two blocks that wait for each other both end."""
    monkeypatch.setenv(WORKERS, "2")
    meeting = threading.Barrier(2, timeout=30)
    run_grid(lambda block, _: meeting.wait(), 2)


def test_a_worker_is_one_core_and_one_torch_thread(workers):
    """Torch's own parallelism would blur what a block costs."""
    seen = []

    def block(number, workspace):
        torch.zeros(1 << 16).add_(1)
        seen.append((torch.get_num_threads(), torch.is_grad_enabled(), threading.current_thread().name))

    run_grid(block, 20)
    assert {(threads, grad) for threads, grad, _ in seen} == {(1, False)}
    assert len({name for _, _, name in seen}) <= workers


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="threads cannot be pinned on this system")
def test_a_worker_is_pinned(monkeypatch):
    """Each worker stays on a core of its own, while the caller may use them all."""
    monkeypatch.setenv(WORKERS, str(len(usable_cores())))
    before, cores = os.sched_getaffinity(0), []
    meeting = threading.Barrier(len(usable_cores()), timeout=30)

    def block(number, workspace):
        meeting.wait()
        cores.append(tuple(os.sched_getaffinity(0)))

    run_grid(block, len(usable_cores()))
    assert sorted(cores) == [(core,) for core in usable_cores()]
    assert os.sched_getaffinity(0) == before


def test_callers_thread_count_is_untouched():
    """In a fresh process: the caller's and a later thread's torch.get_num_threads() are what they were."""
    program = """
import threading, torch
torch.set_num_threads(3)
from cake_tune.mla.grid import run_grid
run_grid(lambda block, workspace: None, 4)
later = []
thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
thread.start(); thread.join()
assert (torch.get_num_threads(), later) == (3, [3]), (torch.get_num_threads(), later)
"""
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)


def test_a_block_error_reaches_the_caller(workers):
    """The first error ends the launch, and the next launch is as good as new."""
    seen = []

    def failing(block, workspace):
        seen.append(block)
        time.sleep(1e-4)
        if block == 2:
            raise KeyError("block 2")

    with pytest.raises(KeyError, match="block 2"):
        run_grid(failing, 100_000)
    assert len(seen) < 50_000
    test_every_block_runs_once(workers, 3)


@pytest.mark.parametrize("to_worker", [False, True], ids=["to the process", "to a worker"])
def test_an_interrupt_ends_the_launch(workers, to_worker):
    """Ctrl-C while the caller waits: it is raised, and most of the blocks that are left do not run.

    The system may give the signal to any thread: a worker's does not wake the caller, who has to look for himself.
    """
    seen = []

    def interrupting(block, workspace):
        seen.append(block)
        if block == 2:
            if to_worker:
                signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            else:
                os.kill(os.getpid(), signal.SIGINT)
        time.sleep(1e-3)

    # A shell starts background jobs with SIGINT ignored, and Python leaves that as it is.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_grid(interrupting, 50_000)
    finally:
        signal.signal(signal.SIGINT, before)
    test_every_block_runs_once(workers, 3)
    assert len(seen) < 25_000


def test_concurrent_callers_do_not_mix(monkeypatch):
    """Launches from several threads share the workers and each get their own blocks."""
    monkeypatch.setenv(WORKERS, "2")
    seen = [[] for _ in range(6)]

    def caller(number):
        run_grid(lambda block, _: (time.sleep(0), seen[number].append(block)), 40)

    threads = [threading.Thread(target=caller, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [sorted(blocks) for blocks in seen] == [list(range(40))] * 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_starts_its_own_workers():
    """Threads do not survive a fork; a grid used before it must not hang after it."""
    program = """
import os
from cake_tune.mla.grid import run_grid
run_grid(lambda block, workspace: None, 2)
child = os.fork()
if child == 0:
    run_grid(lambda block, workspace: None, 2)
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_workers_are_the_devices_sms(workers):
    """The planner sees as many multiprocessors as there are workers, and a device that is no GPU."""
    device = device_of(torch.device("cpu"))
    assert cpu_workers() == device.num_sms == workers
    assert device.arch == "cpu" and not device.is_gpu and device.name


@pytest.mark.parametrize("text", ["0", "-1", "two", ""])
def test_a_bad_number_of_workers_is_refused(monkeypatch, text):
    """By the variable's name."""
    monkeypatch.setenv(WORKERS, text)
    with pytest.raises(UsageError, match=rf"{WORKERS}: expected an integer >= 1, got '{text}'"):
        cpu_workers()
