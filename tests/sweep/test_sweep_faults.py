"""What plans do to a worker ends in their rows; the other plans and points are measured all the same."""

import multiprocessing
import os
import re
import signal
from dataclasses import replace

import pytest
from sweep_specs import QUICK, SHAPES, Listener, make_spec, records_of, run_at

from cake_tune.backends import SlowToStart, get_backend, simulated
from cake_tune.backends.simulated import SimulatedBackend
from cake_tune.backends.simulated_device import SMALL
from cake_tune.errors import DeviceUnfitError
from cake_tune.journal.record import PlanRow
from cake_tune.planner.shape import Plan, Shape
from cake_tune.sweep import crew, run_sweep, supervisor
from cake_tune.sweep.supervisor import StoppedNowError, Worker

STRUCK = "decode/t1/s2x*"
IMPATIENT = replace(QUICK, timeout_seconds=4.0)
"""For plans that hang; the others have time enough on a machine that is busy with something else."""


@pytest.fixture
def run(tmp_path):
    return run_at(tmp_path)


class Slow(SimulatedBackend):
    """In the parent's eyes only: the worker's start takes what it takes."""

    start_seconds = 100.0


@pytest.fixture
def impatient(monkeypatch):
    """Starts are given no time, unless the backend asks for some."""
    monkeypatch.setattr(supervisor, "START_SECONDS", 0.0)
    monkeypatch.setattr(supervisor, "POLL_SECONDS", 0.0)
    return replace(QUICK, timeout_seconds=0.0)


def test_a_backend_says_how_long_its_start_may_take(impatient, monkeypatch):
    with pytest.raises(DeviceUnfitError, match=r"did not start within 0 s; measure\.timeout_seconds can allow"):
        Worker("simulated", impatient, 0, lambda: False)
    monkeypatch.setattr(simulated, "create", lambda name: Slow(SMALL, name))
    monkeypatch.setattr(supervisor, "NEWS_SECONDS", 0.0)
    told = []
    Worker("simulated", impatient, 0, lambda: False, tell=told.append).close()
    assert re.fullmatch(r"the worker is starting: \d+ s so far, at most 100 s", told[0])


def test_only_flashinfer_needs_more_than_the_others():
    """Its first start compiles."""
    asked = {
        name: get_backend(name) for name in ("cpu", "cuda", "simulated", "flashinfer", "flashinfer:pack=flashinfer")
    }
    slow = {name: backend.start_seconds for name, backend in asked.items() if isinstance(backend, SlowToStart)}
    assert slow == {"flashinfer": 1800.0, "flashinfer:pack=flashinfer": 1800.0}
    assert min(slow.values()) > supervisor.START_SECONDS


def sweep(run, faults: str, base: str = "simulated", **options):
    listener = Listener()
    spec = make_spec(backend=f"faults:{base}:{faults}", **options)
    return run_sweep(spec, run, progress=listener), listener


def rows(run, shape: Shape = SHAPES[0]) -> dict[str, PlanRow]:
    return {str(row.plan): row for row in records_of(run)[shape].rows}


@pytest.mark.parametrize(
    ("kind", "status", "said"),
    [
        ("wrong", "wrong", "expected 1.0"),
        ("nan", "wrong", "nan"),
        ("oom", "oom", "out of memory"),
        ("unstable", "unstable", "disturbed 4 times: throttled"),
        ("crash", "crashed", "SIGSEGV"),
        ("killed", "crashed", "SIGKILL"),
        ("illegal", "crashed", "SIGSEGV"),
        ("error", "crashed", "RuntimeError: decode/t1/s2x2: the device is lost"),
        ("hang", "timeout", "no answer for 4 s"),
    ],
)
def test_a_plan_that_fails_is_a_row_and_the_sweep_goes_on(run, kind, status, said):
    protocol = IMPATIENT if kind == "hang" else QUICK
    summary, _ = sweep(run, f"{kind}@{STRUCK}", shapes=SHAPES[:2], protocol=protocol)
    assert summary.counts.keys() <= {"ok", "tied"}
    assert summary.failed_plans == {status: 2}
    assert summary.exit_code == 0
    for shape in SHAPES[:2]:
        found = rows(run, shape)
        struck = found.pop("decode/t1/s2x2")
        assert (struck.status, struck.median_us) == (status, None)
        assert said in struck.error
        assert all(row.median_us is not None for row in found.values())
        assert records_of(run)[shape].best != struck.plan


def test_several_culprits_in_one_point_are_told_apart(run):
    sweep(run, "crash@decode/t1/s1x*,hang@decode/t1/s2x*,wrong@prefill*", shapes=SHAPES[:1], protocol=IMPATIENT)
    assert {plan: row.status for plan, row in rows(run).items()} == {
        "decode/t1/s1x4": "crashed",
        "decode/t1/s2x2": "timeout",
        "decode/t1/s4x1": "ok",
        "prefill/t1": "wrong",
    }
    assert records_of(run)[SHAPES[0]].best == Plan("decode", 1, 4, 1)


def test_a_point_whose_plans_all_fail_has_the_gravest_status_and_the_sweep_ends_with_7(run):
    shapes = [Shape(2, 48, 64), Shape(2, 8, 64)]
    summary, _ = sweep(run, "wrong@decode/t1/s1x1,crash@prefill/*", shapes=shapes)
    assert summary.counts["wrong"] == 2
    assert summary.exit_code == 4
    summary, _ = sweep(run, "wrong@prefill*,oom@decode/t1/s2x1", shapes=[Shape(2, 16, 128)])
    assert (summary.counts, summary.exit_code) == ({"ok": 1}, 0)
    summary, _ = sweep(run, "wrong@decode/t1/s1x1", shapes=[Shape(2, 8, 64), Shape(2, 16, 64)])
    assert summary.counts == {"wrong": 1, "ok": 1}
    assert summary.exit_code == 7


def test_failed_points_stay_on_resume_unless_asked_for_again(run):
    shapes = [Shape(2, 8, 64), Shape(2, 16, 64)]
    sweep(run, "wrong@decode/t1/s1x1", shapes=shapes)
    summary, listener = sweep(run, "wrong@decode/t1/s1x1", shapes=shapes)
    assert (listener.started_shapes, summary.exit_code) == ([], 7)
    spec = make_spec(shapes, backend="faults:simulated:wrong@decode/t1/s1x1")
    summary = run_sweep(spec, run, retry_failed=True, progress=listener)
    assert listener.started_shapes == [Shape(2, 8, 64)]
    assert (summary.done, summary.exit_code) == (2, 7)


def test_a_worker_killed_from_outside_costs_no_row(run):
    def kill(shape):
        if shape == SHAPES[1]:
            (worker,) = multiprocessing.active_children()
            os.kill(worker.pid, signal.SIGKILL)

    listener = Listener(on_start=kill)
    summary = run_sweep(make_spec(), run, progress=listener)
    assert (summary.decided, summary.failed_plans) == (3, {})
    assert any("SIGKILL" in text or "starting a new worker" in text for text in listener.messages)


def test_no_worker_is_left_behind(run):
    sweep(run, f"hang@{STRUCK}", shapes=SHAPES[:1], protocol=IMPATIENT)
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize(("backend", "said"), [("cpu", "CAKE_TUNE_CPU_WORKERS"), ("abacus", "one of the following")])
def test_a_backend_that_cannot_start_says_why(monkeypatch, backend, said):
    monkeypatch.setenv("CAKE_TUNE_CPU_WORKERS", "none")
    with pytest.raises(DeviceUnfitError, match=said):
        Worker(backend, QUICK, 0, lambda: False)


def test_a_worker_that_starts_is_ended_at_once_when_the_user_insists():
    with pytest.raises(StoppedNowError):
        Worker("cpu", QUICK, 0, lambda: True)
    assert multiprocessing.active_children() == []


@pytest.mark.parametrize("kills", [1, 2])
def test_a_worker_killed_while_it_starts_is_started_once_more(run, monkeypatch, kills):
    started = []

    class Killed(Worker):
        def _await_ready(self):
            started.append(self._process.pid)
            if len(started) <= kills:
                os.kill(self._process.pid, signal.SIGKILL)
            super()._await_ready()

    monkeypatch.setattr(crew, "Worker", Killed)
    listener = Listener()
    if kills == 1:
        assert run_sweep(make_spec(SHAPES[:1]), run, progress=listener).decided == 1
    else:
        with pytest.raises(DeviceUnfitError, match="tried 2 times: the process was ended by SIGKILL"):
            run_sweep(make_spec(SHAPES[:1]), run, progress=listener)
    assert len(started) == 2
    assert listener.messages == ["the worker did not start: the process was ended by SIGKILL; starting a new one"]
    assert multiprocessing.active_children() == []


def test_a_long_point_says_where_it_is(run, monkeypatch):
    monkeypatch.setattr(supervisor, "NEWS_SECONDS", 0.3)
    _, listener = sweep(run, f"hang@{STRUCK}", shapes=SHAPES[:1], protocol=IMPATIENT)
    news = [text for text in listener.messages if " s so far" in text]
    assert any(re.fullmatch(r"T=1 H=16 topk=256: \d+ s so far, at decode/t1/s2x2", text) for text in news)


@pytest.mark.parametrize(("kind", "said"), [("unstable", "too few of its visits"), ("killed", "SIGKILL")])
def test_a_tie_band_that_could_not_be_measured_is_not_kept(run, kind, said):
    shapes = [Shape(tokens, 16, 128) for tokens in (1, 64, 8)]
    _, listener = sweep(run, f"{kind}@*", shapes=shapes)
    assert run.read_info().tie_band is None
    (told,) = [text for text in listener.messages if text.startswith("A/A run")]
    assert said in told
    assert f"not known: points are judged by the widest, {QUICK.band_max:g}" in told
    # Of these three, which come coarse first, the one of middle cost.
    assert "T=8 " in told
    _, listener = sweep(run, f"{kind}@*", shapes=[*shapes, Shape(2, 16, 128)])
    assert any(text.startswith("A/A run") for text in listener.messages)


def test_the_real_op_survives_the_same_faults(run):
    faults = "wrong@decode/t1/s1x*,crash@decode/t1/s2x*"
    protocol = replace(QUICK, cold_factor=0.01)
    summary, _ = sweep(run, faults, base="cpu", shapes=[Shape(2, 16, 256)], protocol=protocol)
    found = rows(run, Shape(2, 16, 256))
    assert found["decode/t1/s1x4"].status == "wrong"
    assert found["decode/t1/s2x2"].status == "crashed"
    assert all((row.relative_error is None) == (row.median_us is None) for row in found.values())
    assert all(0 < row.relative_error < 5e-3 for row in found.values() if row.relative_error is not None)
    assert summary.exit_code == 0
    assert records_of(run)[Shape(2, 16, 256)].best in {Plan("decode", 1, 4, 1), Plan("prefill", 1, 1, 4)}
