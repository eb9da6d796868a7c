import itertools
from random import Random

import pytest
from hypothesis import given, settings
from study_records import PLANS, drifts, plan_times, record, row, steady

from cake_tune.journal.record import PlanRow
from cake_tune.measure.protocol import Protocol
from cake_tune.study.recorded import BLOCK, trial_of
from cake_tune.study.selectors import parse_selector
from cake_tune.study.trial import play

ONE, TWO, FOUR, PREFILL = PLANS
PROTOCOL = Protocol(max_rounds=6, kn_rounds=3, confirm_rounds=4)


@given(plan_times, drifts)
@settings(max_examples=40, deadline=None)
def test_visits_without_noise_never_flip_a_winner_of_the_race_however_the_device_drifts(found, drift):
    """What is common to a round cancels: replayed rounds are as good as no drift at all."""
    trial = trial_of(steady(found, drift), PROTOCOL)
    for text in ("race", "confirm"):
        played = play(parse_selector(text), trial, 6)
        assert played.flips == 0
    assert max(play(parse_selector("confirm"), trial, 4).regrets) <= 1e-9


@given(plan_times)
@settings(max_examples=25, deadline=None)
def test_visits_without_noise_and_drift_never_flip_any_winner(found):
    trial = trial_of(steady(found, [1.0] * 8), PROTOCOL)
    for text in ("race", "confirm", "argmin:1", "argmin:3:median", "argmin:10"):
        played = play(parse_selector(text), trial, 4)
        assert played.flips == played.costly_flips == 0
        assert max(played.regrets) <= trial.band


def test_drift_flips_the_winner_of_argmin():
    """One plan after the other, each at another moment: what drifts decides."""
    trial = trial_of(steady({ONE: 10.0, TWO: 10.5}, [1.0, 1.0, 1.0, 1.2, 1.2, 1.2] * 2), PROTOCOL)
    assert play(parse_selector("argmin:1"), trial, 40).flips > 0
    assert play(parse_selector("race"), trial, 40).flips == 0


def test_a_round_is_one_recorded_round_for_every_plan():
    trial = trial_of(steady({ONE: 10.0, TWO: 20.0, FOUR: 30.0}, [1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6]), PROTOCOL)
    visit = trial.visits("rounds", Random(5))
    for _ in range(20):
        base = visit(ONE).median_us / 10
        assert visit(TWO).median_us == pytest.approx(20 * base)
        assert visit(FOUR).median_us == pytest.approx(30 * base)


def test_rounds_come_in_blocks_of_consecutive_ones():
    drift = [1 + number / 100 for number in range(30)]
    visit = trial_of(steady({ONE: 100.0, TWO: 200.0}, drift), PROTOCOL).visits("rounds", Random(1))
    places = []
    for _ in range(10 * BLOCK):
        places.append(round(visit(ONE).median_us - 100))
        visit(TWO)
    steps = [(after - before) % 27 for before, after in itertools.pairwise(places)]
    assert all(step == 1 for number, step in enumerate(steps) if (number + 1) % BLOCK)
    assert any(step != 1 for step in steps)


def test_a_plan_that_had_left_is_moved_to_the_round_by_one_that_stayed():
    drift = [1.0, 1.1, 1.2, 1.3, 1.4, 1.5]
    rows = [row(ONE, [10 * each for each in drift]), row(TWO, [30.0, 33.0], status="pruned")]
    visit = trial_of(record(rows), PROTOCOL).visits("rounds", Random(3))
    for _ in range(20):
        assert visit(TWO).median_us / visit(ONE).median_us == pytest.approx(3.0)


def test_a_burst_is_consecutive_visits_of_one_plan():
    visits = [float(number) for number in range(100, 130)]
    visit = trial_of(record([row(ONE, visits), row(TWO, visits)]), PROTOCOL).visits("bursts", Random(2))
    for plan in (ONE, TWO, ONE):
        burst = [visit(plan).median_us for _ in range(10)]
        assert [(after - before) % 30 for before, after in itertools.pairwise(burst)] == [1.0] * 9


def test_no_policy_draws_from_the_confirmation_that_it_is_judged_by():
    rows = [row(ONE, [10.0] * 4, [99.0] * 4), row(TWO, [11.0] * 4, [88.0] * 4)]
    trial = trial_of(record(rows), PROTOCOL)
    assert trial.times == {ONE: 99.0, TWO: 88.0}
    for order in ("rounds", "bursts"):
        visit = trial.visits(order, Random(0))
        assert {visit(ONE).median_us for _ in range(30)} == {10.0}


def test_only_plans_with_times_and_visits_take_part():
    rows = [row(ONE, [10.0]), row(TWO, [11.0]), PlanRow(FOUR, "crashed"), row(PREFILL, [None, None], median_us=5.0)]
    trial = trial_of(record(rows, best=ONE, incumbent=FOUR), PROTOCOL)
    assert trial.plans == (ONE, TWO)
    assert trial.in_force is None
    assert trial_of(record(rows[:1]), PROTOCOL) is None


def test_a_journal_without_means_says_so():
    rows = [row(ONE, [10.0], visit_means=(10.5,)), row(TWO, [11.0], visit_means=(11.5,))]
    with_means, without = trial_of(record(rows), PROTOCOL), trial_of(record([rows[0], row(TWO, [11.0])]), PROTOCOL)
    assert with_means.means
    assert not without.means
    assert with_means.visits("bursts", Random(0))(TWO).mean_us == 11.5
