"""The CPU backend runs the real op: its gate, its inputs, its clock."""

import math
import os
from dataclasses import replace

import pytest
import torch

from cake_tune.backends import cpu_session, gate
from cake_tune.backends.cpu import CpuBackend
from cake_tune.backends.cpu_inputs import SLOT_BYTES, CachePools, make_inputs
from cake_tune.backends.gate import judge
from cake_tune.errors import ContractError, WrongResultError
from cake_tune.host import cpu_device
from cake_tune.measure.protocol import Protocol
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


@pytest.mark.parametrize("value", [math.nan, 1.0], ids=["unwritten", "wrong"])
@pytest.mark.parametrize("token", [0, 1, 8, 14, 15])
def test_one_spoiled_element_is_found_in_any_token_at_every_gate(token, value):
    spoiling = []

    def spoil(plan, output):
        if spoiling:
            output[token, 3, 100] = value

    with CpuBackend(spoil).open(Shape(16, 16, 512), SMALL, 0) as session:
        plan = Plan("prefill", 1, 1, 8)
        session.check(plan)
        spoiling.append(True)
        with pytest.raises(WrongResultError, match=f"token {token}, head 3|\\[{token}, 3, 100\\]"):
            session.check(plan)


def test_tokens_are_judged_in_slices_and_each_of_them_is(monkeypatch):
    monkeypatch.setattr(gate, "JUDGED_ELEMENTS", 2 * 8 * 512)
    reference, lse = torch.randn(5, 8, 512), torch.randn(5, 8)
    assert judge(reference.clone(), lse, reference, lse) == 0
    for token, where in enumerate(["row (token 0", "row (token 1", "from 2: output: row (token 0",
                                   "from 2: output: row (token 1", "from 4: output: row (token 0"]):  # fmt: skip
        output = reference.clone()
        output[token, 3] += 1
        with pytest.raises(WrongResultError) as wrong:
            judge(output, lse, reference, lse)
        assert where in str(wrong.value)


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


def read_by(inputs, side, lengths):
    """The slots that the calls read in turn, those behind a token's length left out."""
    width = side[0].shape[1]
    kept = torch.arange(width) < (torch.full((1,), width) if lengths is None else lengths)[:, None]
    return [indices[kept.expand_as(indices)] for indices in side]


@pytest.mark.parametrize("calls", [0.6, 1.67, 1.999, 40.2])
@pytest.mark.parametrize(
    "shape",
    [
        Shape(1, 8, 64),
        Shape(7, 8, 100, page_size=48),
        Shape(9, 8, 500, lengths=True),
        Shape(3, 8, 90, 700, extra_page_size=2, lengths=True),
    ],
    ids=str,
)
def test_cold_inputs_read_several_caches_full_before_a_slot_comes_again(shape, calls):
    wanted = int(calls * shape.num_tokens * (shape.topk + shape.extra_topk)) * SLOT_BYTES
    inputs = make_inputs(shape, Protocol(cold_factor=wanted / cpu_device().l2_bytes), 0, CachePools())
    sides = [(inputs.indices, inputs.cache, inputs.lengths)]
    if inputs.extra_indices is not None:
        sides.append((inputs.extra_indices, inputs.extra_cache, inputs.extra_lengths))
    read = 0
    for side, cache, lengths in sides:
        slots = torch.cat(side).flatten()
        assert slots.unique().numel() == slots.numel()
        assert int(slots.min()) >= 0
        assert int(slots.max()) < cache.shape[0] * cache.shape[1]
        read += sum(part.numel() for part in read_by(inputs, side, lengths))
    assert read * SLOT_BYTES >= wanted
    assert read == inputs.candidates * len(inputs.indices)


def test_a_call_cannot_be_faster_than_its_bytes_can_move(monkeypatch):
    shape = Shape(2, 16, 100, 30)
    with CpuBackend().open(shape, SMALL, 0) as session:
        assert session.least_us == cpu_session.LEAST_US
    monkeypatch.setattr(cpu_session, "CORE_BYTES_PER_US", 2.0)
    with CpuBackend().open(shape, SMALL, 0) as session:
        moved = 2 * 130 * 384 + 2 * 2 * 16 * 1024
        assert session.least_us == moved / (2.0 * cpu_device().num_sms)


def test_warm_inputs_are_the_same_every_time():
    inputs = make_inputs(Shape(2, 8, 64), Protocol(regime="warm"), 0, CachePools())
    assert len(inputs.indices) == 1


def test_more_inputs_than_memory_are_refused():
    with pytest.raises(MemoryError, match="cache pool: expected at most"):
        make_inputs(Shape(1, 8, 64), Protocol(cold_factor=1e7), 0, CachePools())


def test_more_scratch_than_memory_is_refused(monkeypatch):
    plan = Plan("decode", 1, 2, 1)
    with CpuBackend().open(Shape(2, 16, 128), SMALL, 0) as session:
        # One page is free.
        monkeypatch.setattr(os, "sysconf", lambda name: 1 if name == "SC_AVPHYS_PAGES" else 4096)
        with pytest.raises(MemoryError, match=f"split scratch: expected at most 4096 .* got {2 * 16 * 2 * 1028}"):
            session.check(plan)


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


@pytest.mark.parametrize("slots", [1, 7, 64, 1000, 100_001])
def test_a_pool_is_large_enough_and_not_much_larger(slots):
    pool = CachePools().get(16, slots, 0)
    assert slots <= pool.shape[0] * 16 < max(1.25 * slots, slots + 1) + 16
