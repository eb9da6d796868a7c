"""One measurement per GPU: a second process is told who holds it, and a lock ends with its process."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from cake_tune.cuda import lock
from cake_tune.cuda.lock import SHARE, lock_gpu, shares_gpu
from cake_tune.errors import DeviceUnfitError

UUID = "GPU-12345678-0000-0000-0000-000000000000"
HOLD = """
import sys, time
from pathlib import Path
from cake_tune.cuda.lock import lock_gpu
lock_gpu(sys.argv[1], directory=Path(sys.argv[2]))
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, UUID, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.fixture(autouse=True)
def forget(monkeypatch):
    """What this process holds ends with the test."""
    monkeypatch.setattr(lock, "_held", {})


def test_a_second_process_is_refused_and_told_who_holds_the_gpu(holder, tmp_path):
    with pytest.raises(DeviceUnfitError) as refused:
        lock_gpu(UUID, wait_seconds=0.1, directory=tmp_path)
    assert f"{UUID}: process {holder.pid} measures on this GPU" in str(refused.value)
    assert SHARE in str(refused.value)
    assert refused.value.exit_code == 6


def test_another_gpu_is_free(holder, tmp_path):
    lock_gpu(UUID.replace("1", "9"), wait_seconds=0.1, directory=tmp_path)


def test_a_killed_holder_holds_nothing(holder, tmp_path):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    lock_gpu(UUID, wait_seconds=5.0, directory=tmp_path)


def test_a_holder_that_is_just_ending_is_waited_for(holder, tmp_path):
    threading.Timer(0.3, holder.kill).start()
    lock_gpu(UUID, wait_seconds=30.0, directory=tmp_path)


def test_the_same_process_may_ask_again(tmp_path):
    lock_gpu(UUID, wait_seconds=0.1, directory=tmp_path)
    lock_gpu(UUID, wait_seconds=0.1, directory=tmp_path)


def test_a_lock_that_cannot_be_made_is_an_error_of_the_device(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DeviceUnfitError, match="cannot be locked"):
        lock_gpu(UUID, directory=tmp_path / "file")


def test_sharing_is_asked_for_by_name(monkeypatch):
    monkeypatch.delenv(SHARE, raising=False)
    assert not shares_gpu()
    monkeypatch.setenv(SHARE, "0")
    assert not shares_gpu()
    monkeypatch.setenv(SHARE, "1")
    assert shares_gpu()
