import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_points import POWERS, record_of, table_of

from cake_tune.fit.collect import collect
from cake_tune.fit.crossover import Duel, KernelInterval, least_regret_cut, midpoint
from cake_tune.fit.crossover import crossovers as crossovers_of
from cake_tune.planner.registry import shipped_tables
from cake_tune.planner.rules import DecodeLimit
from cake_tune.planner.shape import Plan, Shape

DECODE, PREFILL = Plan("decode", 1, 1, 8), Plan("prefill", 1, 1, 8)
RULES = shipped_tables()[0].rules


def points(advantage, noise=0.0, seed=0, heads=64, topk=512):
    """One record per (num_tokens: d) of ``advantage``."""
    return [
        record_of(
            Shape(t, heads, topk), [(DECODE, 10.0 * t), (PREFILL, 10.0 * t * math.exp(d))], noise=noise, seed=seed
        )
        for t, d in advantage.items()
    ]


def sloped(threshold, tokens, slope=0.05):
    """d falls through 0 just above ``threshold``."""
    return {t: slope * math.log2((threshold + 0.5) / t) for t in tokens}


def in_force(threshold):
    return table_of(replace(RULES, decode_max_tokens=(DecodeLimit(num_tokens=threshold),)), 188)


def duel_of(tokens, advantage):
    n = len(tokens)
    values = np.array(advantage, dtype=float)
    return Duel(np.arange(n), np.array(tokens), np.ones(n), values, np.tile(values, (5, 1)), np.full(n, 0.01))


def crossovers(records, table=None):
    return crossovers_of(collect(records), table)


@pytest.mark.parametrize("threshold", [1, 3, 6, 17, 40])
def test_a_planted_crossover_on_a_dense_grid_is_found_exactly(threshold):
    (found,) = crossovers(points(sloped(threshold, range(1, 65))))
    assert (found.threshold, found.low, found.high) == (threshold, threshold, threshold + 1)
    assert found.settled
    assert found.intervals == ()


@pytest.mark.parametrize("seed", range(20))
def test_a_planted_crossover_under_noise_is_within_one_grid_step_and_in_its_bracket(seed):
    (found,) = crossovers(points(sloped(6, POWERS), noise=0.01, seed=seed))
    assert found.low <= 6 < found.high
    assert 2 <= found.threshold < 16


def test_brackets_widen_with_noise():
    quiet, loud = (crossovers(points(sloped(6, range(1, 33), 0.02), noise=noise))[0] for noise in (0.001, 0.03))
    assert (loud.high - loud.low) > (quiet.high - quiet.low)
    assert not loud.settled


def test_the_threshold_in_force_stays_inside_the_bracket_and_moves_outside():
    records = points(sloped(6, POWERS))
    assert [crossovers(records, in_force(t))[0].threshold for t in (4, 5, 7)] == [4, 5, 7]
    assert [crossovers(records, in_force(t))[0].threshold for t in (3, 8, None)] == [5, 5, 5]


def test_decode_everywhere_keeps_an_uncontradicted_threshold_and_else_stops_at_the_last_point():
    records = points(dict.fromkeys(POWERS, 0.1))
    assert crossovers(records)[0].high is None
    assert [crossovers(records, in_force(t))[0].threshold for t in (8, 128, 500, None)] == [128, 128, 500, None]


def test_prefill_everywhere_keeps_an_uncontradicted_threshold_and_else_stops_before_the_first_point():
    records = points(dict.fromkeys((4, 8, 16), -0.1))
    assert crossovers(records)[0].low == 0
    assert [crossovers(records, in_force(t))[0].threshold for t in (0, 2, 8)] == [0, 2, 3]


def test_each_side_is_the_best_plan_of_its_kernel():
    slow = Plan("decode", 1, 2, 4)
    records = [
        record_of(Shape(t, 64, 512), [(DECODE, 10.0), (slow, 30.0), (PREFILL, 20.0 if t < 8 else 5.0)]) for t in POWERS
    ]
    assert (crossovers(records)[0].low, crossovers(records)[0].high) == (4, 8)


def test_one_kernel_alone_has_no_crossover():
    assert crossovers([record_of(Shape(4, 64, 512), [(DECODE, 10.0)])]) == []


def test_waves_at_two_neighbouring_points_give_intervals():
    waves = {1: 0.3, 2: 0.3, 4: -0.3, 8: -0.2, 16: 0.05, 32: 0.05, 64: -0.3, 128: -0.3}
    (found,) = crossovers(points(waves))
    assert found.threshold == 2
    assert found.intervals == (
        KernelInterval(1, 2, "decode"),
        KernelInterval(3, 11, "prefill"),
        KernelInterval(12, 45, "decode"),
        KernelInterval(46, None, "prefill"),
    )


def test_a_single_wave_or_one_within_the_tie_band_stays_one_threshold():
    single = {1: 0.3, 2: 0.3, 4: -0.3, 8: -0.2, 16: 0.05, 32: -0.2, 64: -0.3}
    slight = {1: 0.3, 2: 0.3, 4: -0.3, 8: -0.2, 16: 0.004, 32: 0.004, 64: -0.3}
    assert [crossovers(points(each))[0].intervals for each in (single, slight)] == [(), ()]


@given(st.dictionaries(st.integers(1, 512), st.floats(-1, 1), min_size=1, max_size=12))
@settings(max_examples=60)
def test_no_other_cut_loses_less(advantage):
    tokens = sorted(advantage)
    d = [advantage[t] for t in tokens]
    cut = least_regret_cut(duel_of(tokens, d))

    def lost(threshold):
        return sum(max(0, -x) if t <= threshold else max(0, x) for t, x in zip(tokens, d, strict=True))

    assert lost(cut.threshold) == pytest.approx(min(lost(t) for t in (0, *tokens)), abs=1e-9)


@given(st.integers(1, 10_000), st.integers(1, 10_000))
def test_midpoints_lie_between(low, step):
    middle = midpoint(low, low + step)
    assert low <= middle < low + step
    assert middle**2 <= low * (low + step)


def test_pooled_groups_weigh_every_group():
    pooled = duel_of([1, 2, 4, 1, 2, 4], [0.2, 0.1, -0.3, 0.2, -0.3, -0.3])
    assert least_regret_cut(pooled).low == 1


def test_a_workload_moves_the_cut_to_where_its_tokens_are():
    samples = collect(points({1: 0.1, 2: -0.05, 4: 0.1, 8: -0.1, 16: -0.1}))
    (octaves,) = crossovers_of(samples)
    (weighted,) = crossovers_of(replace(samples, workload=((2, 50.0), (4, 1.0))))
    assert (octaves.low, octaves.high) == (4, 8)
    assert (weighted.low, weighted.high) == (1, 2)
