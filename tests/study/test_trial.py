import math
from random import Random

import pytest
from study_records import PLANS

from cake_tune.measure.protocol import Protocol
from cake_tune.measure.visit import Visit
from cake_tune.planner.shape import Shape
from cake_tune.study.selectors import parse_selector
from cake_tune.study.trial import Played, Trial, play, score

ONE, TWO, FOUR, PREFILL = PLANS
TIMES = dict(zip(PLANS, (10.0, 10.05, 10.6, 14.0), strict=True))


def live(order, rng: Random):
    """A device that is noisy, and remembers nothing."""
    return lambda plan: Visit(TIMES[plan] * math.exp(rng.gauss(0, 0.02)))


def trial(tokens=4):
    return Trial(Shape(tokens, 16, 512), PLANS, None, 0.01, Protocol(max_rounds=12), TIMES, live)


def test_scores_are_the_same_whoever_else_is_scored():
    alone = score([parse_selector("argmin:1")], [trial(4)], replays=10)
    (_, among) = score([parse_selector("race"), parse_selector("argmin:1")], [trial(1), trial(4)], replays=10)
    assert among.played[1].selected == alone[0].played[0].selected


def test_another_seed_draws_anew():
    one, other = (play(parse_selector("argmin:1"), trial(), 20, seed).selected for seed in (0, 1))
    assert one != other


def test_more_visits_lose_less_and_flip_less_and_are_counted():
    few, many = score([parse_selector("argmin:1"), parse_selector("argmin:30")], [trial(t) for t in range(8)])
    assert many.regret.mean < few.regret.mean
    assert many.costly_flips < few.costly_flips <= few.flips
    assert (few.visits, many.visits) == (4, 120)


def test_the_race_spends_its_visits_where_plans_are_close():
    (found,) = score([parse_selector("race")], [trial()], replays=6)
    assert found.regret.worst <= 0.061
    assert found.visits < 4 * 12 + 12 * 2 + 1


def test_flips_are_counted_in_independent_pairs():
    played = Played(trial(), (ONE, TWO, ONE, ONE, TWO, FOUR, None, ONE), 0)
    assert played.pairs == [(ONE, TWO), (ONE, ONE), (TWO, FOUR)]
    assert played.flips == 2
    assert played.costly_flips == 1
    assert len(played.regrets) == 7
    assert max(played.regrets) == pytest.approx(0.06)


def test_what_selects_nothing_is_counted_and_has_no_regret():
    silent = Trial(*(getattr(trial(), name) for name in ("shape", "plans", "in_force", "band", "protocol", "times")),
                   visits=lambda order, rng: lambda plan: Visit(math.nan, "unstable"))  # fmt: skip
    (found,) = score([parse_selector("race")], [silent], replays=4)
    assert found.regret is None
    assert found.undecided == 4
