"""The Kim-Nelson procedure keeps its promise on normal data, also correlated, and finds large gaps early."""

import random

import pytest

from cake_tune.measure.kim_nelson import KimNelson, screening_constant

DELTA, ALPHA, FIRST = 0.01, 0.05, 6


def select(means: list[float], noise: list[float], rng: random.Random, shared: float = 0.0) -> tuple[int, int]:
    """Run the procedure to its end on normal data; the index that survives and the rounds it took."""
    test = KimNelson[int](delta=DELTA, alpha=ALPHA, first_rounds=FIRST)
    alive = list(range(len(means)))
    rounds = 0
    while len(alive) > 1:
        common = rng.gauss(0, shared)
        alive = test.observe({index: rng.gauss(means[index], noise[index]) + common for index in alive})
        rounds += 1
    return alive[0], rounds


def observe(rounds: list[dict[str, float]]) -> list[list[str]]:
    test = KimNelson[str](delta=DELTA, alpha=ALPHA, first_rounds=FIRST)
    return [test.observe(values) for values in rounds]


def test_the_constant_is_the_papers():
    # eta = ((2 * 0.05 / 1) ** (-2 / 9) - 1) / 2 = 0.33405, h^2 = 2 * eta * 9
    assert screening_constant(2, 0.05, 10) == pytest.approx(6.0129, abs=1e-3)
    # (0.1 / 4) ** (-0.4) = 4.3734, h^2 = 3.3734 * 5
    assert screening_constant(5, 0.05, 6) == pytest.approx(16.867, abs=1e-2)


@pytest.mark.parametrize("plans", [2, 4, 8])
@pytest.mark.parametrize("shared", [0.0, 0.05], ids=["independent", "drifting together"])
def test_the_best_is_selected_as_often_as_promised_when_all_others_are_just_delta_behind(plans, shared):
    rng = random.Random(plans)
    means = [0.0] + [DELTA] * (plans - 1)
    noise = [0.01 + 0.002 * index for index in range(plans)]
    runs = 400
    right = sum(select(means, noise, rng, shared)[0] == 0 for _ in range(runs))
    assert right / runs >= 1 - ALPHA


def test_a_large_gap_needs_no_more_than_the_first_rounds():
    assert select([0.0, 0.5], [0.01, 0.01], random.Random(3)) == (0, FIRST)


def test_the_end_comes_in_finite_time_even_for_equal_plans():
    _, rounds = select([0.0, 0.0, 0.0], [0.01] * 3, random.Random(4))
    assert FIRST < rounds < 500


def test_nobody_leaves_before_the_first_rounds_are_complete():
    kept = observe([{"a": 1.0, "b": 2.0}] * FIRST)
    assert kept == [["a", "b"]] * (FIRST - 1) + [["a"]]


def test_noiseless_plans_within_delta_are_told_apart_by_their_means():
    assert observe([{"a": 1.001, "b": 1.0}] * FIRST)[-1] == ["b"]


def test_equal_plans_both_survive_even_without_noise():
    assert observe([{"a": 1.0, "b": 1.0}] * 50)[-1] == ["a", "b"]


def test_one_plan_always_survives():
    assert observe([{"a": 1.0}] * 10)[-1] == ["a"]


def test_one_late_spike_drops_nobody():
    quiet = [{"a": 0.0, "b": 0.001 * (-1) ** number} for number in range(FIRST + 2)]
    assert observe([*quiet, {"a": 1.0, "b": 0.0}])[-1] == ["a", "b"]


def test_a_contender_may_leave_for_other_reasons():
    kept = observe([{"a": 0.0, "b": 0.001, "c": 0.5}] * 2 + [{"a": 0.0, "b": 0.5}] * 4)
    assert all(names[:2] == ["a", "b"] for names in kept)
