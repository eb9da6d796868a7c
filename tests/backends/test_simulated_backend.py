"""The simulated devices have crossovers, keep their own laws, and repeat themselves."""

import heapq
import subprocess
import sys
from dataclasses import replace
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cake_tune.backends import get_backend
from cake_tune.backends.simulated_device import PRESETS, SMALL, random_device, simulated_device
from cake_tune.backends.simulated_noise import Noise
from cake_tune.backends.simulated_time import grid_of, scheduled, true_us
from cake_tune.errors import ContractError, UsageError
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.registry import shipped_tables
from cake_tune.planner.rules import DEFAULT_MAX_SPLITS
from cake_tune.planner.shape import HEAD_COUNTS, Plan, Shape, every_plan

BACKEND = get_backend("simulated")
PUBLISHED = {table.device.num_sms: table.rules for table in shipped_tables()}

seeds = st.integers(0, 10**6)
shapes = st.builds(
    Shape, st.integers(1, 600), st.sampled_from(HEAD_COUNTS), st.integers(1, 2048), st.sampled_from([0, 64, 500])
)


def best(shape: Shape, device=SMALL) -> Plan:
    return min(every_plan(shape), key=lambda plan: true_us(device, shape, plan))


def samples(shape: Shape, seed: int, backend=BACKEND) -> list[float]:
    with backend.open(shape, Protocol(), seed) as session:
        return session.sample(next(every_plan(shape)), 50)


def test_splits_pay_for_one_token_and_not_for_many():
    assert best(Shape(1, 64, 1024)).num_splits > 1
    assert best(Shape(512, 64, 1024)).num_splits == 1


@pytest.mark.parametrize("device", [SMALL, PRESETS["rtx-pro-6000"], PRESETS["rtx-5090"], PRESETS["gb10"]])
def test_the_faster_kernel_changes_somewhere_but_on_an_h200(device):
    kernels = {best(Shape(tokens, heads, 512), device).kernel for tokens in (1, 64, 512) for heads in (16, 64, 128)}
    assert kernels == {"decode", "prefill"}


def test_a_median_of_samples_scatters_around_the_true_time():
    shape = Shape(4, 64, 512)
    true = true_us(SMALL, shape, next(every_plan(shape)))
    found = [median(samples(shape, seed)) / true for seed in range(200)]
    assert abs(np.mean(found) - 1) < 0.005
    assert 0.5 < np.std(found) / (SMALL.noise * 2**0.5) < 2


def test_the_seed_and_the_shape_set_the_noise():
    assert samples(Shape(4, 64, 512), 1) == samples(Shape(4, 64, 512), 1)
    assert samples(Shape(4, 64, 512), 1) != samples(Shape(4, 64, 512), 2)


def test_without_noise_every_sample_is_the_truth():
    assert Noise("any", 0.0).samples(3.0, 5) == [3.0] * 5
    assert Noise("any", 0.0).median(3.0, 20) == 3.0


def test_a_drawn_median_is_spread_as_the_median_of_samples_is():
    drawn = [Noise(seed, 0.01).median(1.0, 20) for seed in range(2000)]
    taken = [median(Noise(seed, 0.01).samples(1.0, 20)) for seed in range(2000)]
    assert np.std(drawn) == pytest.approx(np.std(taken), rel=0.1)


def test_drift_is_common_to_neighbouring_visits():
    noise = Noise(3, 0.01)
    visits = np.log([noise.median(1.0, 20) for _ in range(4000)])
    assert np.std(visits[1:] - visits[:-1]) < 1.1 * 2**0.5 * 0.0103
    assert np.std(visits) > 1.2 * 0.0103


def test_no_time_is_below_what_a_call_must_take():
    for shape in (Shape(1, 8, 1), Shape(300, 128, 2048, 64)):
        with BACKEND.open(shape, Protocol(), 0) as session:
            assert all(min(session.sample(plan, 20)) > session.least_us for plan in every_plan(shape))


def test_a_plan_that_the_shape_cannot_run_is_refused():
    with BACKEND.open(Shape(1, 48, 512), Protocol(), 0) as session, pytest.raises(ContractError):
        session.check(Plan("decode", 2, 1, 8))


@given(seeds, st.integers(1, 300), st.sampled_from(HEAD_COUNTS), st.integers(1, 15))
@settings(max_examples=60, deadline=None)
def test_more_chunks_take_longer_with_the_same_splits(seed, tokens, heads, chunks):
    device = random_device(seed)
    for kernel, tiles in {(plan.kernel, plan.head_tiles) for plan in every_plan(Shape(tokens, heads, 64))}:
        times = [
            true_us(device, Shape(tokens, heads, 64 * count), Plan(kernel, tiles, 1, count))
            for count in (chunks, chunks + 1)
        ]
        assert times[0] < times[1]


@given(seeds, shapes)
@settings(max_examples=60, deadline=None)
def test_every_plan_of_every_device_takes_a_positive_finite_time(seed, shape):
    plans = list(every_plan(shape))
    times = grid_of([(shape, plans)]).times(random_device(seed))
    assert np.isfinite(times).all() and (times > 0).all()


@given(seeds, shapes, shapes)
@settings(max_examples=30, deadline=None)
def test_a_time_does_not_depend_on_what_else_is_asked(seed, one, other):
    device = random_device(seed)
    together = grid_of([(shape, list(every_plan(shape))) for shape in (one, other)]).times(device)
    alone = [true_us(device, shape, plan) for shape in (one, other) for plan in every_plan(shape)]
    assert together.tolist() == alone


@given(st.integers(0, 60), st.integers(1, 20), st.integers(1, 40), st.integers(1, 12), st.integers(1, 12))
@settings(max_examples=300, deadline=None)
def test_the_closed_form_is_list_scheduling(many, few, places, one, other):
    whole, last = max(one, other), min(one, other)
    free = [0] * places
    for length in [whole] * many + [last] * few:
        heapq.heappush(free, heapq.heappop(free) + length)
    columns = [np.array([value]) for value in (many, whole, few, last, places)]
    assert scheduled(*columns, lambda chunks, active: chunks.astype(float))[0] == pytest.approx(max(free))


@pytest.mark.parametrize(("name", "num_sms"), [("rtx-pro-6000", 188), ("rtx-5090", 170), ("gb10", 48)])
def test_the_optimum_of_a_ruled_device_is_what_the_published_rules_decide(name, num_sms):
    device, rules = simulated_device(f"ruled:{name}"), PUBLISHED[num_sms]
    for shape in (Shape(t, h, k) for t in (1, 5, 16, 40, 200) for h in (16, 48, 64, 128) for k in (128, 512, 1500)):
        plan = best(shape, device)
        assert plan.kernel == rules.kernel(shape.num_tokens, shape.num_heads, shape.topk, 0)
        if plan.kernel == "decode":
            tiles = rules.head_tiles(shape.num_tokens, shape.num_heads, shape.chunks, num_sms)
            splits = rules.splits(
                shape.num_tokens,
                shape.num_heads,
                shape.chunks,
                num_sms,
                max_splits=DEFAULT_MAX_SPLITS,
                head_tiles=tiles,
            )
            assert (plan.head_tiles, plan.num_splits, plan.chunks_per_block) == (tiles, *splits)
        else:
            assert plan.head_tiles == rules.prefill_tiles(shape.num_tokens, shape.num_heads, shape.topk, 0)


@pytest.mark.parametrize("name", ["simulated", *(f"simulated:{name}" for name in PRESETS), "simulated:random:7"])
def test_no_simulated_device_passes_for_a_real_one(name):
    device = get_backend(name).device()
    assert device.arch == "simulated" and not device.is_gpu
    assert "imulated" in device.name


def test_the_identity_changes_with_any_constant():
    assert get_backend("simulated:random:1").identity() != get_backend("simulated:random:2").identity()
    assert SMALL.digest != replace(SMALL, merge_us=1.3).digest
    assert random_device(5) == random_device(5)


@pytest.mark.parametrize("name", ["1", "h100", "random", "random:x", "random:-1", "ruled:h200", "h200:1"])
def test_a_device_that_does_not_exist_is_refused_with_those_that_do(name):
    with pytest.raises(UsageError, match=r"backend: expected simulated.*:h200.*:random:SEED.*:ruled:gb10"):
        get_backend(f"simulated:{name}")


def test_asking_for_a_device_loads_no_numpy():
    code = (
        "import sys; from cake_tune.backends import get_backend; backend = get_backend('simulated:random:3');"
        "backend.device(); backend.identity(); assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
