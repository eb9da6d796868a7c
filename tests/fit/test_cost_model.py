"""The cost model: its arrays are its formula, its constants explain what they were fitted on, and it keeps its laws."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_sweeps import plans_of, swept

from cake_tune.backends.simulated_device import PRESETS, random_device
from cake_tune.backends.simulated_time import grid_of
from cake_tune.errors import TableError
from cake_tune.fit.collect import collect
from cake_tune.fit.cost_model import fit_cost_model, predict
from cake_tune.fit.cost_rows import rows_of
from cake_tune.planner.cost import CostModel, KernelCost
from cake_tune.planner.modelled import cheapest
from cake_tune.planner.registry import nearest_published
from cake_tune.planner.shape import Plan, Shape, every_plan

TOKENS = (1, 2, 4, 8, 16, 32, 64, 128)
SHAPES = [Shape(t, h, k) for h in (16, 64, 128) for k in (128, 512, 2048) for t in TOKENS]
OTHERS = [Shape(t, h, k) for h in (32, 48, 96) for k in (192, 768, 1536) for t in (1, 3, 7, 20, 50, 100)]
KINDS = (("decode", 1), ("decode", 2), ("prefill", 1), ("prefill", 2), ("prefill", 4))

positive, share = st.floats(1e-4, 50), st.floats(0, 1)
models = st.builds(
    CostModel,
    launch_us=positive,
    gather_us=st.floats(0, 1),
    reread=share,
    merge_us=positive,
    merge_step_us=positive,
    merge_row_us=st.floats(0, 1e-3),
    pair_us=st.none() | st.floats(0, 5),
    wave_share=share,
    sharpness=st.floats(1, 30),
    merge_batch=st.integers(1, 16),
    order=st.sampled_from(["row_by_row", "short_last"]),
    kernels=st.tuples(
        *(
            st.builds(
                KernelCost,
                kernel=st.just(kernel),
                head_tiles=st.just(tiles),
                heads_per_block=st.sampled_from([16, 32, 64]),
                blocks_per_sm=st.integers(1, 3),
                block_us=positive,
                chunk_us=positive,
                crowding=share,
            )
            for kernel, tiles in KINDS
        )
    ),
)


def samples_of(device, shapes=SHAPES, seed=0):
    return collect(swept(device, shapes, nearest_published(device.num_sms), seed))


SAMPLES = samples_of(replace(random_device(1), noise=0.0))
MODEL = fit_cost_model(SAMPLES, 65)


@given(models, st.integers(1, 300))
@settings(max_examples=60, deadline=None)
def test_the_arrays_are_the_formula(model, num_sms):
    rows, timed, point = rows_of(SAMPLES)
    times = predict(model, rows, num_sms)
    for i in range(0, len(rows), 7):
        key = SAMPLES.key(int(point[i]))
        plan = SAMPLES.plans[SAMPLES.plan[timed[i]]]
        alone = model.us(key.num_tokens, key.num_heads, int(rows.chunks[i]), plan, num_sms)
        assert times[i] == pytest.approx(alone, rel=1e-9)


@given(models, st.integers(1, 300), st.integers(1, 300), st.sampled_from([16, 64, 128]), st.integers(1, 15))
@settings(max_examples=200, deadline=None)
def test_more_chunks_take_longer_with_the_same_plan(model, num_sms, tokens, heads, chunks):
    for kernel, tiles in {(plan.kernel, plan.head_tiles) for plan in every_plan(Shape(tokens, heads, 64))}:
        fewer, more = (
            model.us(tokens, heads, count, Plan(kernel, tiles, 1, count), num_sms) for count in (chunks, chunks + 1)
        )
        assert fewer < more


@pytest.mark.parametrize("device", [PRESETS["h200"], PRESETS["gb10"], random_device(7)])
def test_without_noise_it_finds_the_best_plan_of_shapes_it_never_saw(device):
    model = fit_cost_model(samples_of(replace(device, noise=0.0)), device.num_sms)
    grid = grid_of([(shape, plans_of(shape)) for shape in OTHERS])
    times, lost = grid.times(device), []
    for i, shape in enumerate(OTHERS):
        here = dict(zip(grid.plans[i], times[grid.start[i] : grid.start[i + 1]], strict=True))
        plan = cheapest(model, shape.num_tokens, shape.num_heads, shape.chunks, device.num_sms)
        lost.append(here[plan] / min(here.values()) - 1)
    assert np.mean(lost) < 0.005


def test_its_spread_is_that_of_the_noise():
    model = fit_cost_model(samples_of(PRESETS["h200"]), 132)
    assert 0.002 < model.spread < 0.015


def test_the_order_of_the_records_does_not_matter():
    device = random_device(2)
    records = list(swept(device, SHAPES, nearest_published(device.num_sms)))
    shuffled = random.Random(1).sample(records, len(records))
    assert fit_cost_model(collect(records), device.num_sms) == fit_cost_model(collect(shuffled), device.num_sms)


def test_another_models_start_gives_about_the_same_constants():
    device = random_device(1)
    warm = fit_cost_model(SAMPLES, device.num_sms, MODEL)
    assert warm.kernels[0].chunk_us == pytest.approx(MODEL.kernels[0].chunk_us, rel=0.05)


def test_too_few_times_calibrate_nothing():
    assert fit_cost_model(samples_of(random_device(1), [Shape(1, 16, 128)]), 65) is None


def test_a_kernel_that_was_never_timed_is_never_the_cheapest():
    model = fit_cost_model(samples_of(random_device(1), [Shape(t, 16, k) for t in TOKENS for k in (512, 1024)]), 65)
    assert model.us(1, 64, 8, Plan("decode", 2, 1, 8), 65) == float("inf")
    assert cheapest(model, 64, 64, 8, 65).head_tiles == 1
    assert cheapest(model, 64, 64, 8, 65, kernel="prefill", head_tiles=4) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"launch_us": -1.0}, "launch_us: expected a finite number >= 0, got -1.0"),
        ({"gather_us": float("inf")}, "gather_us"),
        ({"wave_share": 1.5}, "wave_share: expected a fraction from 0 to 1, got 1.5"),
        ({"sharpness": 0.5}, "sharpness: expected a number from 1 to 100"),
        ({"merge_batch": 0}, "merge_batch: expected an integer >= 1, got 0"),
        ({"kernels": ()}, "kernels: expected one entry per kernel and head_tiles"),
    ],
)
def test_a_model_that_means_nothing_is_refused(change, message):
    with pytest.raises(TableError, match=message):
        replace(MODEL, **change)
    with pytest.raises(TableError, match="block_us, chunk_us: expected one above 0"):
        replace(MODEL.kernels[0], block_us=0.0, chunk_us=0.0)
