"""How good the choices are over many synthetic points: regret, agreement of two runs, and false alarms."""

import math
from random import Random
from statistics import fmean

import pytest
from synthetic_device import PLANS, SyntheticDevice

from cake_tune.measure.protocol import Protocol
from cake_tune.measure.race import RaceResult, race

POINTS = 40


def contest(seed: int) -> dict:
    """Plan times of one point: up to 15 % apart, some of them all but equal."""
    rng = Random(seed)
    return {plan: 50.0 * math.exp(rng.choice([0.0, 0.15]) * rng.random()) for plan in PLANS}


def run(true_us: dict, seed: int, in_force=None) -> RaceResult:
    device = SyntheticDevice(true_us, seed, noise=0.01, drift=0.2, spikes=0.02)
    return race(PLANS, device, in_force=in_force, protocol=Protocol(), band=0.01, rng=Random(seed))


def regret(true_us: dict, result: RaceResult) -> float:
    return true_us[result.best] / min(true_us.values()) - 1


@pytest.fixture(scope="module")
def twice() -> list[tuple[dict, RaceResult, RaceResult]]:
    return [(contest(seed), run(contest(seed), seed), run(contest(seed), seed + 1000)) for seed in range(POINTS)]


def test_the_regret_of_the_choices_is_small(twice):
    regrets = [regret(true_us, result) for true_us, first, second in twice for result in (first, second)]
    assert fmean(regrets) <= 0.005
    assert max(regrets) <= 0.03


def test_two_runs_choose_plans_that_are_equally_fast(twice):
    agree = sum(abs(regret(true_us, first) - regret(true_us, second)) <= 0.01 for true_us, first, second in twice)
    assert agree >= 0.95 * POINTS


def test_an_argmin_of_as_many_means_would_have_done_worse(twice):
    """What other tuners do, with the same noise: three means per plan, one plan after the other."""
    races, argmins = [], []
    for seed, (true_us, first, _) in enumerate(twice):
        device = SyntheticDevice(true_us, seed, noise=0.01, drift=0.2, spikes=0.02)
        means = {plan: fmean(device(plan).median_us for _ in range(10)) for plan in PLANS}
        argmins.append(true_us[min(means, key=means.__getitem__)] / min(true_us.values()) - 1)
        races.append(regret(true_us, first))
    assert fmean(races) < fmean(argmins)


def test_the_plan_in_force_is_hardly_ever_replaced_by_an_equal_one():
    equal = dict.fromkeys(PLANS, 50.0)
    kept = sum(
        run(equal, seed, in_force=PLANS[seed % len(PLANS)]).best == PLANS[seed % len(PLANS)] for seed in range(POINTS)
    )
    assert kept >= 0.95 * POINTS


def test_reported_times_are_not_biased_by_the_choice():
    """The median of fresh rounds, over points whose plans are all equal: a winner's own race would read low."""
    equal = dict.fromkeys(PLANS, 50.0)
    quiet = [SyntheticDevice(equal, seed, noise=0.02) for seed in range(POINTS)]
    results = [
        race(PLANS, device, in_force=None, protocol=Protocol(max_rounds=6), band=0.0, rng=Random(seed))
        for seed, device in enumerate(quiet)
    ]
    in_race = fmean(math.log(fmean(result.tracks[result.best].visits) / 50) for result in results)
    fresh = fmean(math.log(fmean(result.tracks[result.best].confirm) / 50) for result in results)
    assert in_race < -0.003
    assert abs(fresh) < 0.003
