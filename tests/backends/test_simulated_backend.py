"""The simulated device has crossovers, keeps its own laws, and repeats itself."""

import pytest

from cake_tune.backends import get_backend
from cake_tune.backends.simulated import NOISE, true_us
from cake_tune.errors import ContractError
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.shape import Plan, Shape, every_plan

BACKEND = get_backend("simulated")


def best(shape: Shape) -> Plan:
    return min(every_plan(shape), key=lambda plan: true_us(shape, plan))


def samples(shape: Shape, seed: int) -> list[float]:
    with BACKEND.open(shape, Protocol(), seed) as session:
        return session.sample(next(every_plan(shape)), 50)


def test_splits_pay_for_one_token_and_not_for_many():
    assert best(Shape(1, 64, 1024)).num_splits > 1
    assert best(Shape(512, 64, 1024)).num_splits == 1


def test_the_faster_kernel_changes_with_the_tokens():
    assert {best(Shape(tokens, 64, 512)).kernel for tokens in (1, 256)} == {"decode", "prefill"}


def test_samples_scatter_around_the_true_time():
    shape = Shape(4, 64, 512)
    true = true_us(shape, next(every_plan(shape)))
    assert all(abs(sample / true - 1) < 6 * NOISE for sample in samples(shape, 0))


def test_the_seed_and_the_shape_set_the_noise():
    assert samples(Shape(4, 64, 512), 1) == samples(Shape(4, 64, 512), 1)
    assert samples(Shape(4, 64, 512), 1) != samples(Shape(4, 64, 512), 2)


def test_no_time_is_below_what_a_call_must_take():
    for shape in (Shape(1, 8, 1), Shape(300, 128, 2048, 64)):
        with BACKEND.open(shape, Protocol(), 0) as session:
            assert all(min(session.sample(plan, 20)) > session.least_us for plan in every_plan(shape))


def test_a_plan_that_the_shape_cannot_run_is_refused():
    with BACKEND.open(Shape(1, 48, 512), Protocol(), 0) as session, pytest.raises(ContractError):
        session.check(Plan("decode", 2, 1, 8))
