"""What a session may refuse or know beyond the least: plans that it cannot time, and an audit of its device."""

from contextlib import contextmanager

import pytest
from sweep_specs import QUICK, make_spec

from cake_tune.backends import get_backend
from cake_tune.backends.simulated import create
from cake_tune.errors import RegimeError
from cake_tune.planner.shape import Shape, every_plan
from cake_tune.sweep.bench import Bench
from cake_tune.sweep.provenance import run_info
from cake_tune.sweep.tasks import PointTask

SHAPE = Shape(2, 16, 256)
PLANS = tuple(every_plan(SHAPE))


class Choosy:
    """The simulated backend, unable to time some plans, with an audit."""

    name, options = "simulated", frozenset()

    def __init__(self, refused):
        self._base, self._refused = create(""), refused

    def __getattr__(self, name):
        return getattr(self._base, name)

    @contextmanager
    def open(self, shape, protocol, seed):
        with self._base.open(shape, protocol, seed) as session:
            yield ChoosySession(session, self._refused)


class ChoosySession:
    def __init__(self, base, refused):
        self._base, self._refused = base, refused

    def __getattr__(self, name):
        return getattr(self._base, name)

    def sample(self, plan, count):
        if plan in self._refused:
            raise RegimeError("regime: expected calls that fit")
        return self._base.sample(plan, count)

    def audit(self):
        return {"gpu_seconds": 1.5, "sm_clock_mhz": 1980.0}


def measured(refused):
    return Bench(Choosy(refused), QUICK, 0).measure_point(
        PointTask("0-0", SHAPE, PLANS, PLANS[0], 0.01), lambda _: None
    )


def test_a_plan_that_cannot_be_timed_is_an_invalid_row():
    record = measured(PLANS[:1])
    row, *others = record.rows
    assert (row.status, row.median_us, row.error) == ("invalid", None, "regime: expected calls that fit")
    assert all(other.status != "invalid" and other.error != row.error for other in others)
    assert record.best in PLANS[1:]


def test_a_point_whose_plans_cannot_be_timed_is_invalid():
    record = measured(PLANS)
    assert (record.status, record.best) == ("invalid", None)
    assert {row.error for row in record.rows} == {"regime: expected calls that fit"}


def test_what_a_session_knows_of_its_device_is_in_the_audit():
    audit = measured(()).audit
    assert audit["gpu_seconds"] == 1.5
    assert audit["sm_clock_mhz"] == 1980.0
    assert audit["sample_seconds"] > 0


@pytest.mark.parametrize("name", ["simulated", "faults:simulated:oom@prefill*"])
def test_a_run_notes_what_its_backend_says_of_itself(name):
    host = run_info(make_spec(backend=name), get_backend(name)).host
    assert host.get("faults") == (name if name.startswith("faults") else None)
    assert host["python"]
