"""Each fault strikes the plans it names and no others. (Those that end a process: see the tests of the sweep.)"""

import pytest
import torch

from cake_tune.backends import get_backend
from cake_tune.backends.faults import Faults
from cake_tune.errors import WrongResultError
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.shape import Plan, Shape, every_plan

SHAPE = Shape(3, 16, 256)
STRUCK = Plan("decode", 1, 2, 2)
SPARED = Plan("decode", 1, 4, 1)


@pytest.fixture(params=["simulated", "cpu"])
def open_session(request):
    def opened(kind: str):
        backend = get_backend(f"faults:{request.param}:{kind}@decode/t1/s2x*")
        return backend.open(SHAPE, Protocol(cold_factor=0.01, sample_us=1.0), 0)

    return opened


@pytest.mark.parametrize(
    ("kind", "error"),
    [("wrong", WrongResultError), ("nan", WrongResultError), ("oom", MemoryError), ("error", RuntimeError)],
)
def test_the_named_plan_fails_its_check_and_the_others_pass(open_session, kind, error):
    with open_session(kind) as session:
        assert session.check(SPARED) < 5e-3
        with pytest.raises(error):
            session.check(STRUCK)
        assert session.check(SPARED) < 5e-3


def test_an_unstable_plan_is_disturbed_whenever_it_was_sampled(open_session):
    with open_session("unstable") as session:
        session.check(STRUCK)
        assert session.disturbance() is None
        session.sample(STRUCK, 2)
        assert "throttled" in session.disturbance()
        session.sample(SPARED, 2)
        assert session.disturbance() is None


def test_a_spoiled_output_is_wrong_in_one_element_that_depends_on_the_plan():
    faults, places = Faults("wrong@decode*"), set()
    for plan in every_plan(Shape(3, 64, 512)):
        output, again = torch.zeros(3, 64, 512), torch.zeros(3, 64, 512)
        faults.tamper(plan, output)
        faults.tamper(plan, again)
        assert torch.equal(output, again)
        assert int(output.count_nonzero()) == (plan.kernel == "decode")
        places.update(map(tuple, output.nonzero().tolist()))
    assert len({token for token, _, _ in places}) == 3


def test_the_first_rule_that_matches_counts():
    faults = Faults("oom@prefill*,hang@decode/t1/*,nan@*")
    assert faults.kind_of(Plan("prefill", 1, 1, 4)) == "oom"
    assert faults.kind_of(Plan("decode", 1, 4, 1)) == "hang"
    assert faults.kind_of(Plan("decode", 2, 4, 1)) == "nan"
    assert Faults("oom@prefill*").kind_of(SPARED) is None
