"""The CPU backend runs the real op: its gate, its inputs, its clock."""

import math
from dataclasses import replace

import pytest
import torch

from cake_tune.backends.cpu import CpuBackend
from cake_tune.backends.cpu_inputs import SLOT_BYTES, CachePools, make_inputs
from cake_tune.backends.cpu_session import _spread
from cake_tune.errors import ContractError, WrongResultError
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.host import cpu_device
from cake_tune.planner.shape import Plan, Shape, every_plan

SMALL = Protocol(cold_factor=0.01, sample_us=1.0)
SHAPES = [
    Shape(1, 8, 1),
    Shape(3, 16, 200, page_size=1),
    Shape(2, 64, 320, page_size=48, lengths=True),
    Shape(2, 32, 128, 70, page_size=64, extra_page_size=2, lengths=True, sink=True),
    Shape(1, 128, 1152, sink=True),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_plan_passes_the_gate_and_has_a_time(shape):
    with CpuBackend().open(shape, SMALL, 0) as session:
        for plan in every_plan(shape):
            assert 0 <= session.check(plan) < 5e-3
            times = session.sample(plan, 3)
            assert len(times) == 3
            assert all(session.least_us < time < 1e7 for time in times)


@pytest.mark.parametrize("token", [0, 37, 63])
def test_an_element_left_unwritten_is_found_in_any_token(token):
    def leave(plan, output):
        output[token, 3, 100] = math.nan

    shape = Shape(64, 16, 512)
    with CpuBackend(leave).open(shape, SMALL, 0) as session, pytest.raises(WrongResultError):
        session.check(Plan("prefill", 1, 1, 8))


def test_an_output_that_nobody_wrote_is_wrong_even_if_a_plan_before_was_right():
    right: list[torch.Tensor] = []

    def undo(plan, output):
        if plan.kernel == "prefill":
            right.append(output.clone())
        else:
            output.fill_(0)

    with CpuBackend(undo).open(Shape(2, 16, 128), SMALL, 0) as session:
        session.check(Plan("prefill", 1, 1, 2))
        assert right[0].abs().sum() > 0
        with pytest.raises(WrongResultError):
            session.check(Plan("decode", 1, 1, 2))


def test_a_plan_that_the_shape_cannot_run_is_refused():
    with CpuBackend().open(Shape(1, 48, 512), SMALL, 0) as session, pytest.raises(ContractError):
        session.check(Plan("decode", 2, 1, 8))


def test_a_short_call_is_repeated_until_the_sample_is_long_enough():
    with CpuBackend().open(Shape(1, 8, 1), replace(SMALL, sample_us=20_000.0), 0) as session:
        plan = Plan("decode", 1, 1, 1)
        before = session._calls
        times = session.sample(plan, 3)
        assert session._calls - before >= 2 * math.ceil(20_000 / max(times) / 2)


@pytest.mark.parametrize("shape", [Shape(1, 8, 64), Shape(7, 8, 100, page_size=48)], ids=str)
def test_cold_inputs_walk_through_several_caches_full_before_a_slot_comes_again(shape):
    protocol = Protocol(cold_factor=1.5)
    inputs = make_inputs(shape, protocol, 0, CachePools())
    slots = torch.cat([indices.flatten() for indices in inputs.indices])
    assert slots.unique().numel() == slots.numel()
    unread = shape.num_tokens * shape.topk * SLOT_BYTES
    assert slots.numel() * SLOT_BYTES >= 1.5 * cpu_device().l2_bytes - unread
    assert int(slots.min()) >= 0
    assert int(slots.max()) < inputs.cache.shape[0] * inputs.cache.shape[1]


def test_a_call_larger_than_the_pool_wraps_around():
    inputs = make_inputs(Shape(64, 8, 2048), replace(SMALL, cold_factor=0.001), 0, CachePools())
    assert [tuple(indices.shape) for indices in inputs.indices] == [(64, 2048)]


def test_warm_inputs_are_the_same_every_time():
    inputs = make_inputs(Shape(2, 8, 64), Protocol(regime="warm"), 0, CachePools())
    assert len(inputs.indices) == 1


def test_more_inputs_than_memory_are_refused():
    with pytest.raises(MemoryError, match="inputs: expected a pool"):
        make_inputs(Shape(1, 8, 64), Protocol(cold_factor=1e7), 0, CachePools())


def test_the_seed_sets_the_inputs():
    def made(seed):
        return make_inputs(Shape(2, 16, 64, lengths=True, sink=True), SMALL, seed, CachePools())

    first, again, other = made(1), made(1), made(2)
    for name in ("cache", "lengths", "sink"):
        assert torch.equal(getattr(first, name), getattr(again, name))
    assert torch.equal(first.indices[0], again.indices[0])
    assert torch.equal(first.queries[0], again.queries[0])
    assert not torch.equal(first.cache, other.cache)
    assert not torch.equal(first.indices[0], other.indices[0])


def test_pools_are_kept_for_the_next_shape_and_only_two_of_them():
    pools = CachePools()
    first = pools.get(16, 4096, 0)
    assert pools.get(16, 4096, 0) is first
    pools.get(32, 4096, 0)
    pools.get(64, 4096, 0)
    assert pools.get(16, 4096, 0) is not first


@pytest.mark.parametrize(("tokens", "most"), [(1, 1), (5, 1), (5, 5), (64, 4), (7, 3), (3, 100)])
def test_checked_tokens_are_distinct_spread_and_reach_the_last(tokens, most):
    checked = _spread(tokens, most)
    assert len(set(checked)) == len(checked) == min(tokens, most)
    assert checked[-1] == tokens - 1
    assert min(checked) >= 0
