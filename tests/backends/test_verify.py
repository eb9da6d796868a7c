"""Verification judges every plan and every token, and turns what goes wrong into verdicts."""

from contextlib import contextmanager

import pytest

from cake_tune.backends import get_backend
from cake_tune.backends.cpu import CpuBackend
from cake_tune.backends.verify import verification_shapes, verify
from cake_tune.errors import ContractError
from cake_tune.planner.shape import Plan, Shape, every_plan

SHAPE = Shape(3, 16, 192)


def test_every_plan_of_every_shape_has_a_verdict():
    shapes = [SHAPE, Shape(2, 32, 64)]
    verdicts = list(verify(get_backend("cpu"), shapes))
    assert [(v.shape, v.plan) for v in verdicts] == [(shape, plan) for shape in shapes for plan in every_plan(shape)]
    assert all(v.status == "ok" and 0 <= v.relative_error < 5e-3 and v.failure is None for v in verdicts)


@pytest.mark.parametrize("token", range(3))
def test_a_wrong_token_is_a_verdict_wherever_it_is(token):
    def spoil(plan, output):
        if plan == Plan("decode", 1, 3, 1):
            output[token, 2, 7] = 5.0

    statuses = {v.plan: v.status for v in verify(CpuBackend(spoil), [SHAPE])}
    assert [plan for plan, status in statuses.items() if status == "wrong"] == [Plan("decode", 1, 3, 1)]


def test_a_plan_without_memory_is_a_verdict_and_the_next_is_judged():
    verdicts = list(verify(get_backend("faults:cpu:oom@decode*"), [SHAPE]))
    assert {(v.plan.kernel, v.status) for v in verdicts} == {("decode", "oom"), ("prefill", "ok")}
    assert all("out of memory" in v.failure for v in verdicts if v.status == "oom")


class Unopened(CpuBackend):
    """Cannot make the inputs of two tokens, nor take three."""

    def open(self, shape, protocol, seed):
        if shape.num_tokens == 2:
            raise MemoryError
        if shape.num_tokens == 3:
            raise ContractError("num_tokens: expected another number")
        return super().open(shape, protocol, seed)


def test_inputs_that_cannot_be_made_are_verdicts_on_all_plans_of_their_shape():
    shapes = [Shape(2, 8, 64), Shape(3, 8, 64), Shape(1, 8, 64)]
    found = [(v.shape.num_tokens, v.status, v.failure) for v in verify(Unopened(), shapes)]
    assert found == [
        (2, "oom", "out of memory"),
        (3, "invalid", "num_tokens: expected another number"),
        (1, "ok", None),
    ]


class Recorder(CpuBackend):
    """Notes how it is used."""

    def __init__(self):
        super().__init__()
        self.notes = []

    def start(self):
        self.notes.append("start")
        super().start()

    @contextmanager
    def open(self, shape, protocol, seed):
        self.notes.append(protocol.regime)
        with super().open(shape, protocol, seed) as session:
            yield session


def test_the_backend_is_started_and_its_inputs_are_not_larger_than_they_need_be():
    backend = Recorder()
    list(verify(backend, [Shape(1, 8, 64)]))
    assert backend.notes == ["start", "warm"]


def test_the_matrix_meets_every_head_count_and_feature():
    shapes = verification_shapes()
    assert {shape.num_heads for shape in shapes} == {8, 16, 32, 48, 64, 80, 96, 112, 128}
    assert {1, 2, 32, 48, 64, 128} <= {shape.page_size for shape in shapes}
    assert any(shape.extra_topk and shape.lengths and shape.sink for shape in shapes)
    assert {plan.kernel for shape in shapes for plan in every_plan(shape)} == {"decode", "prefill"}
