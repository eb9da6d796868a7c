"""The race on a synthetic device: who leaves when, who is chosen, and how often rightly."""

import math
from random import Random

import pytest
from synthetic_device import DECODE, PLANS, PREFILL, SyntheticDevice, failing

from cake_tune.measure.protocol import Protocol
from cake_tune.measure.race import RaceResult, race

PROTOCOL = Protocol()
BAND = 0.01


def times(best=DECODE[4], us: float = 50.0, behind: float = 1.05) -> dict:
    return {plan: us if plan == best else us * behind for plan in PLANS}


def run(visit, seed: int = 0, **options) -> RaceResult:
    settings = {"in_force": None, "protocol": PROTOCOL, "band": BAND, "rng": Random(seed)} | options
    return race(PLANS, visit, **settings)


def test_the_fastest_plan_is_chosen_alone_when_the_others_are_far():
    result = run(SyntheticDevice(times(behind=1.3)))
    assert (result.best, result.tied, result.rounds) == (DECODE[4], (DECODE[4],), PROTOCOL.early_rounds)


def test_plans_far_behind_leave_after_the_early_rounds_and_not_before():
    slow = {plan: 50.0 * (2.0 if plan.num_splits > 2 else 1.04) for plan in PLANS} | {DECODE[1]: 50.0}
    result = run(SyntheticDevice(slow, noise=0.02))
    for plan in (DECODE[4], DECODE[8], DECODE[16]):
        assert len(result.tracks[plan].visits) == PROTOCOL.early_rounds
        assert result.tracks[plan].left == "pruned"
    assert len(result.tracks[PREFILL].visits) >= PROTOCOL.kn_rounds


@pytest.mark.parametrize("drift", [0.0, 0.3], ids=["steady", "drifting"])
@pytest.mark.parametrize("spikes", [0.0, 0.05], ids=["clean", "spiky"])
def test_a_plan_two_percent_faster_is_found_through_noise(drift, spikes):
    right = 0
    for seed in range(20):
        device = SyntheticDevice(times(behind=1.03), seed, noise=0.01, drift=drift, spikes=spikes)
        right += DECODE[4] in run(device, seed).tied
    assert right >= 19


def test_two_runs_agree_within_the_band_where_an_argmin_would_flip():
    near = times(behind=1.2) | {DECODE[1]: 50.1}
    chosen = {run(SyntheticDevice(near, seed, noise=0.005), seed, band=0.01).best for seed in range(20)}
    assert chosen == {DECODE[1]}


def test_ties_go_to_the_plan_in_force():
    near = dict.fromkeys(PLANS, 50.0)
    result = run(SyntheticDevice(near, noise=0.002), in_force=DECODE[8])
    assert result.best == DECODE[8]
    assert set(result.tied) == set(PLANS)


def test_ties_without_a_plan_in_force_go_to_the_fewest_splits_then_to_the_first():
    near = {plan: 50.0 if plan.num_splits < 4 else 80.0 for plan in PLANS}
    result = run(SyntheticDevice(near, noise=0.002))
    assert result.best == DECODE[1]
    assert result.tied == (DECODE[1], DECODE[2], PREFILL)


def test_the_plan_in_force_runs_to_the_end_however_slow():
    contest = times(behind=3.0) | {DECODE[2]: 50.5}
    result = run(SyntheticDevice(contest, noise=0.01), in_force=PREFILL)
    assert result.rounds >= PROTOCOL.kn_rounds
    assert len(result.tracks[PREFILL].visits) == result.rounds
    assert len(result.tracks[PREFILL].confirm) == PROTOCOL.confirm_rounds


def test_a_gain_below_the_required_one_does_not_replace_the_plan_in_force():
    for seed in range(10):
        device = SyntheticDevice(times(behind=1.2) | {PREFILL: 50.0 * 1.008}, seed, noise=0.003)
        result = run(device, seed, in_force=PREFILL, band=0.005)
        assert result.best == PREFILL
        assert DECODE[4] in result.tied


def test_a_clear_gain_replaces_the_plan_in_force():
    result = run(SyntheticDevice(times(behind=1.05), noise=0.005), in_force=PREFILL)
    assert (result.best, result.tied) == (DECODE[4], (DECODE[4],))


def test_winner_in_force_and_runner_up_are_confirmed_in_fresh_rounds_and_nobody_else():
    ladder = {plan: 50.0 * (1 + 0.05 * place) for place, plan in enumerate(PLANS)}
    result = run(SyntheticDevice(ladder, noise=0.003), in_force=PREFILL)
    confirmed = {plan for plan, track in result.tracks.items() if track.confirm}
    assert confirmed == {DECODE[1], DECODE[2], PREFILL}
    assert all(len(result.tracks[plan].confirm) == PROTOCOL.confirm_rounds for plan in confirmed)


def test_fresh_rounds_overrule_a_lucky_race():
    lucky, steady = DECODE[1], DECODE[2]
    base = SyntheticDevice(times(behind=1.5) | {steady: 50.0, DECODE[4]: 75.0}, noise=0.002)
    seen = 0

    def visit(plan):
        nonlocal seen
        given = base(plan)
        if plan != lucky:
            return given
        seen += 1
        return type(given)(47.0 if seen <= racing else 60.0)

    racing = PROTOCOL.kn_rounds
    result = run(visit, protocol=Protocol(max_rounds=racing))
    assert result.best == steady


def test_the_race_stops_at_the_last_round_it_may_run():
    result = run(SyntheticDevice(dict.fromkeys(PLANS, 50.0), noise=0.05), protocol=Protocol(max_rounds=9))
    assert result.rounds == 9


def test_the_race_stops_after_the_round_in_which_time_ran_out_and_still_confirms():
    device = SyntheticDevice(dict.fromkeys(PLANS, 50.0), noise=0.05)
    result = run(device, out_of_time=lambda: len(device.log) > len(PLANS))
    assert result.rounds == 2
    assert {len(track.visits) for track in result.tracks.values()} == {2}
    assert len(result.tracks[result.best].confirm) == PROTOCOL.confirm_rounds


def test_even_without_any_time_one_round_is_run():
    assert run(SyntheticDevice(times()), out_of_time=lambda: True).rounds == 1


def test_a_single_plan_is_only_confirmed():
    only = [PREFILL]
    result = race(only, SyntheticDevice(times()), in_force=PREFILL, protocol=PROTOCOL, band=BAND, rng=Random(0))
    assert (result.best, result.tied, result.rounds) == (PREFILL, (PREFILL,), 0)
    assert len(result.tracks[PREFILL].confirm) == PROTOCOL.confirm_rounds


@pytest.mark.parametrize("after", [0, 1, 4, 8])
def test_a_plan_whose_visit_fails_leaves_and_is_never_chosen(after):
    result = run(failing(SyntheticDevice(times(behind=1.02)), DECODE[4], after))
    track = result.tracks[DECODE[4]]
    assert (track.left, track.error) == ("unstable", "on purpose")
    assert result.best not in (None, DECODE[4])
    assert DECODE[4] not in result.tied
    visits = track.visits + track.confirm
    assert len(visits) == after + 1
    assert math.isnan(visits[-1])


def test_a_winner_that_fails_in_its_confirmation_gives_way_to_the_runner_up():
    ladder = {plan: 50.0 * (1 + 0.2 * place) for place, plan in enumerate(PLANS)}
    result = run(failing(SyntheticDevice(ladder), DECODE[1], after=5, status="invalid"))
    assert result.best == DECODE[2]
    assert result.tracks[DECODE[1]].left == "invalid"


def test_nothing_is_chosen_when_every_plan_fails():
    device = SyntheticDevice(times())

    def visit(plan):
        return failing(device, plan, after=0)(plan)

    result = run(visit)
    assert (result.best, result.tied) == (None, ())


def test_the_result_is_a_function_of_the_seeds():
    results = [run(SyntheticDevice(times(), 7, noise=0.03), 8) for _ in range(2)]
    assert results[0] == results[1]
