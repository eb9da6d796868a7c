"""Several devices share one sweep: every point once, 5 % of them audited, a lost worker or device stops no other."""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from sweep_specs import SHAPES, Listener, make_spec, many_shapes, records_of, run_at

from cake_tune.backends import get_backend
from cake_tune.errors import DeviceUnfitError, InterruptedSweep, JournalError
from cake_tune.journal.journal import Journal, read_journal
from cake_tune.sweep import crew, run_sweep, supervisor
from cake_tune.sweep.fleet import Fleet
from cake_tune.sweep.keys import audit_key, is_audited
from cake_tune.sweep.slots import slots_for
from cake_tune.sweep.supervisor import Worker

NAMES = ["simulated-0", "simulated-1", "simulated-2"]


@pytest.fixture
def run(tmp_path):
    return run_at(tmp_path)


def slots(count: int = 3, backend: str = "simulated"):
    return slots_for(get_backend(backend), str(count))


def points_of(run):
    return [record for record in read_journal(run.journal) if record.counts]


def audits_of(run):
    return [record for record in read_journal(run.journal) if record.audits]


def test_every_point_is_measured_once_and_by_one_of_the_devices(run):
    listener = Listener()
    summary = run_sweep(make_spec(many_shapes(60)), run, slots=slots(), progress=listener)
    assert (summary.done, summary.total, summary.exit_code) == (60, 60, 0)
    assert Counter(record.shape for record in points_of(run)) == Counter(many_shapes(60))
    assert {record.gpu for record in points_of(run)} == set(NAMES)
    assert [place for place in listener.places if place[0] == 60] == [(60, 60)]
    assert multiprocessing.active_children() == []
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("cake-tune ")]


def test_the_same_points_are_audited_on_another_device_and_no_fit_sees_it(run):
    spec = make_spec(many_shapes(120))
    summary = run_sweep(spec, run, slots=slots())
    points = {record.key: record for record in points_of(run)}
    wanted = {key for key in points if is_audited(key, spec.seed)}
    assert 1 <= len(wanted) <= 20
    assert {record.audits for record in audits_of(run)} == wanted
    assert summary.audited == len(wanted)
    for audit in audits_of(run):
        first = points[audit.audits]
        assert audit.key == audit_key(first.key)
        assert audit.gpu != first.gpu
        assert (audit.shape, audit.incumbent, audit.tie_band) == (first.shape, first.incumbent, first.tie_band)
        assert [row.plan for row in audit.rows] == [row.plan for row in first.rows]
    assert {record.key for record in run.read_records()} == set(points)


def test_one_device_audits_nothing_and_a_later_run_on_two_makes_up_for_it(run):
    spec = make_spec(many_shapes(120))
    run_sweep(spec, run, slots=slots(1))
    assert audits_of(run) == []
    listener = Listener()
    summary = run_sweep(spec, run, slots=slots(2), progress=listener)
    assert summary.audited == len(audits_of(run)) > 0
    assert (summary.done, listener.started_shapes, listener.messages) == (120, [], [])
    assert {record.gpu for record in audits_of(run)} == {"simulated-1"}
    before = run.journal.read_bytes()
    assert run_sweep(spec, run, slots=slots(2)).audited == 0
    assert run.journal.read_bytes() == before


def test_audits_go_with_their_points_when_rows_are_set_aside(run):
    run_sweep(make_spec(many_shapes(120)), run, slots=slots(2))
    kept = make_spec(many_shapes(120)[::2])
    run_sweep(kept, run, slots=slots(1))
    keys = {record.key for record in points_of(run)}
    assert len(keys) == 60
    assert {record.audits for record in audits_of(run)} == {key for key in keys if is_audited(key, kept.seed)}
    run_sweep(replace(kept, seed=1), run, slots=slots(1))
    assert audits_of(run) == []


def test_the_wall_time_of_a_device_is_shared_out_over_its_records(run):
    summary = run_sweep(make_spec(many_shapes(40)), run, slots=slots(2))
    total = Counter()
    for record in read_journal(run.journal):
        assert record.audit["slot_seconds"] >= record.seconds - 0.01
        total[record.gpu] += record.audit["slot_seconds"]
    # All of it but what came before the first device was set up and after its last point.
    assert len(total) == 2
    assert all(0 < seconds <= summary.seconds + 1 for seconds in total.values())


def test_a_killed_worker_is_replaced_and_the_other_device_goes_on(run):
    workers, killed = [], []

    def kill(shape):
        """First one worker, once both have measured; 20 points later the other, which is at work still."""
        if not workers and {record.gpu for record in listener.records} == set(NAMES[:2]):
            workers.extend(child.pid for child in multiprocessing.active_children())
        if len(killed) < len(workers) and len(listener.records) >= 20 * (len(killed) + 1):
            killed.append(workers[len(killed)])
            os.kill(killed[-1], signal.SIGKILL)

    listener = Listener(on_start=kill)
    summary = run_sweep(make_spec(many_shapes(300)), run, slots=slots(2), progress=listener)
    assert len(workers) == len(killed) == 2
    assert (summary.decided, summary.failed_plans) == (300, {})
    assert {record.gpu for record in points_of(run)} == set(NAMES[:2])
    told = [text for text in listener.messages if "starting a new worker" in text or "did not start" in text]
    assert len(told) >= 1
    assert all(text.startswith(("simulated-0: ", "simulated-1: ")) for text in told)


def test_what_a_plan_does_to_a_worker_stays_its_row_whichever_device_it_is_on(run):
    backend = "faults:simulated:crash@decode/t1/s2x*"
    spec = make_spec(many_shapes(8), backend=backend)
    summary = run_sweep(spec, run, slots=slots(2, backend))
    assert (summary.decided, summary.failed_plans) == (8, {"crashed": 8})
    for record in points_of(run):
        assert [str(row.plan) for row in record.rows if row.status == "crashed"] == ["decode/t1/s2x1"]


class Failing(Worker):
    """Does not start on some slots."""

    bad: frozenset[str] = frozenset()

    def __init__(self, backend, protocol, seed, stop_now, environment, tell):
        if environment.get("SLOT") in self.bad:
            raise DeviceUnfitError(f"no such device {environment['SLOT']}")
        super().__init__(backend, protocol, seed, stop_now, environment, tell)


def marked_slots(count: int):
    return tuple(replace(slot, environment={"SLOT": slot.name}) for slot in slots(count))


@pytest.mark.parametrize("bad", [{"simulated-0"}, {"simulated-1"}, {"simulated-0", "simulated-2"}])
def test_a_device_on_which_nothing_starts_is_given_up_and_its_points_go_to_the_others(run, monkeypatch, bad):
    monkeypatch.setattr(crew, "Worker", type("Failing", (Failing,), {"bad": frozenset(bad)}))
    listener = Listener()
    summary = run_sweep(make_spec(many_shapes(40)), run, slots=marked_slots(3), progress=listener)
    assert (summary.decided, summary.total) == (40, 40)
    assert {record.gpu for record in points_of(run)} <= set(NAMES) - bad
    told = [text for text in listener.messages if "no such device" in text]
    assert {text.partition(":")[0] for text in told} == bad
    assert run.read_info().tie_band is not None
    # With one device left nobody can audit.
    if len(bad) == 2:
        assert told[-1].endswith("1 device left")
        assert audits_of(run) == []


def test_a_plan_after_which_no_worker_starts_becomes_a_row_and_is_not_tried_on_every_device(run, monkeypatch):
    lost = set()

    class Breaking(Worker):
        """Does not start again where a worker was lost."""

        def __init__(self, backend, protocol, seed, stop_now, environment, tell):
            self._slot = environment["SLOT"]
            if self._slot in lost:
                raise DeviceUnfitError(f"no such device {self._slot}")
            super().__init__(backend, protocol, seed, stop_now, environment, tell)

        def _lost(self, *arguments):
            lost.add(self._slot)
            return super()._lost(*arguments)

    monkeypatch.setattr(crew, "Worker", Breaking)
    backend = "faults:simulated:crash@decode/t1/s2x*"
    broken = tuple(replace(slot, environment={"SLOT": slot.name}) for slot in slots(2, backend))
    summary = run_sweep(make_spec(many_shapes(1), backend=backend), run, slots=broken)
    assert (summary.counts, len(lost)) == ({"crashed": 1}, 1)
    (record,) = points_of(run)
    assert {row.status for row in record.rows} == {"crashed"}


def test_a_stop_during_the_tie_band_starts_no_point(run, monkeypatch):
    def stopped(self, task):
        os.kill(os.getpid(), signal.SIGINT)
        return 0.01

    monkeypatch.setattr(crew.Crew, "measure_band", stopped)
    listener = Listener()
    with pytest.raises(InterruptedSweep, match="0 of 3"):
        run_sweep(make_spec(), run, slots=slots(), progress=listener)
    assert listener.started_shapes == []
    assert run.read_info().tie_band == 0.01


def test_a_stop_while_only_audits_are_left_is_no_success(run, monkeypatch):
    spec = make_spec(many_shapes(120))
    run_sweep(spec, run, slots=slots(1))
    give = Fleet.give

    def stopped(self, slot, task):
        give(self, slot, task)
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(Fleet, "give", stopped)
        with pytest.raises(InterruptedSweep, match="120 of 120"):
            run_sweep(spec, run, slots=slots(2))
    assert len(audits_of(run)) == 1
    assert run_sweep(spec, run, slots=slots(2)).audited > 0


def test_a_sweep_without_any_device_left_is_an_error(run, monkeypatch):
    monkeypatch.setattr(crew, "Worker", type("Failing", (Failing,), {"bad": frozenset(NAMES)}))
    with pytest.raises(DeviceUnfitError, match="no such device"):
        run_sweep(make_spec(), run, slots=marked_slots(3))
    assert multiprocessing.active_children() == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads the environment of another process")
def test_a_worker_has_the_environment_of_its_slot_and_this_process_keeps_its_own(monkeypatch):
    seen = {}

    class Recorded(Worker):
        def _await_ready(self):
            super()._await_ready()
            text = Path(f"/proc/{self._process.pid}/environ").read_bytes()
            seen.update(entry.split(b"=", 1) for entry in text.split(b"\0") if b"=" in entry)

    monkeypatch.setenv("KNOWN", "before")
    monkeypatch.delenv("UNKNOWN", raising=False)
    spec = make_spec()
    environment = {"KNOWN": "GPU-1", "UNKNOWN": "GPU-2"}
    Recorded(spec.backend, spec.protocol, 0, lambda: False, environment).close()
    assert (seen[b"KNOWN"], seen[b"UNKNOWN"]) == (b"GPU-1", b"GPU-2")
    assert (os.environ["KNOWN"], "UNKNOWN" in os.environ) == ("before", False)


def test_an_error_of_the_parent_ends_every_worker_and_is_raised(run, monkeypatch):
    appended = []

    def full(self, record):
        appended.append(record)
        if len(appended) == 5:
            raise JournalError("the disk is full")

    monkeypatch.setattr(Journal, "append", full)
    with pytest.raises(JournalError, match="the disk is full"):
        run_sweep(make_spec(many_shapes(40)), run, slots=slots())
    assert multiprocessing.active_children() == []


def test_an_unexpected_error_of_a_thread_is_raised_where_the_sweep_was_called(run, monkeypatch):
    def broken(self, task, tell):
        raise RuntimeError("a bug")

    monkeypatch.setattr(supervisor.Worker, "ask", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        run_sweep(make_spec(SHAPES), run, slots=slots(2))
    assert multiprocessing.active_children() == []


def test_records_of_both_kinds_of_run_are_of_one_journal(run):
    run_sweep(make_spec(many_shapes(10)), run)
    run_sweep(make_spec(many_shapes(20)), run, slots=slots(2))
    assert len(records_of(run)) == 20
    assert "" in {record.gpu for record in points_of(run)}


def test_audits_that_an_earlier_run_left_do_not_hide_what_else_is_left(run):
    spec = make_spec(many_shapes(120))
    run_sweep(make_spec(many_shapes(100)), run, slots=slots(1))
    summary = run_sweep(replace(spec, time_budget_seconds=1e-9), run, slots=slots(2))
    assert (summary.total, summary.out_of_time) == (120, True)
    assert 101 <= summary.done < 120
    assert run_sweep(spec, run, slots=slots(2)).done == 120
    wanted = {record.key for record in points_of(run) if is_audited(record.key, spec.seed)}
    assert {record.audits for record in audits_of(run)} == wanted


def given_in(run, monkeypatch, spec, count: int) -> list[tuple[str, str]]:
    """The slots that were given something in a sweep of ``spec`` on ``count`` devices, and the kinds of what."""
    given, give = [], Fleet.give

    def noted(self, slot, task):
        given.append((slot, type(task).__name__))
        give(self, slot, task)

    with monkeypatch.context() as patch:
        patch.setattr(Fleet, "give", noted)
        run_sweep(spec, run, slots=slots(count))
    return given


def test_all_workers_start_side_by_side_and_the_tie_band_comes_when_they_are_quiet(run, monkeypatch):
    given = given_in(run, monkeypatch, make_spec(many_shapes(20)), 3)
    assert given[:3] == [(name, "StartTask") for name in NAMES]
    assert given[3] == (NAMES[0], "BandTask")
    # Then all are idle, and each has one of the first three points.
    assert sorted(given[4:7]) == [(name, "PointTask") for name in NAMES]
    assert {kind for _, kind in given[7:]} == {"PointTask"}
    # With the band known, the points come when all have started.
    again = given_in(run, monkeypatch, make_spec(many_shapes(40)), 3)
    assert again[:3] == [(name, "StartTask") for name in NAMES]
    assert {kind for _, kind in again[3:]} == {"PointTask"}


def test_no_more_workers_start_than_there_are_points(run, monkeypatch):
    given = given_in(run, monkeypatch, make_spec(many_shapes(2)), 3)
    assert [kind for _, kind in given].count("StartTask") == 2
    assert len(points_of(run)) == 2


def test_a_stop_while_workers_start_waits_for_none_of_them(run, monkeypatch):
    stopped, told = [], threading.Event()

    class Slow(Worker):
        """Would take a minute to start."""

        def _await_ready(self):
            if not told.is_set():
                told.set()
                os.kill(os.getpid(), signal.SIGINT)
            end = time.monotonic() + 60
            while time.monotonic() < end and not self._stop_now():
                time.sleep(0.01)
            stopped.append(self._stop_now())
            self.kill()
            raise supervisor.StoppedNowError

    monkeypatch.setattr(crew, "Worker", Slow)
    with pytest.raises(InterruptedSweep, match="0 of 3"):
        run_sweep(make_spec(), run, slots=slots(1))
    assert stopped == [True]
    assert multiprocessing.active_children() == []
