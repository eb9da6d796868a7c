import math
from random import Random

import pytest
from study_records import PLANS

from cake_tune.errors import UsageError
from cake_tune.measure.protocol import Protocol
from cake_tune.measure.visit import Visit
from cake_tune.study.selectors import Argmin, Contest, parse_selector

ONE, TWO, FOUR, PREFILL = PLANS


def contest(visit, plans=PLANS, in_force=None, seed=0):
    return Contest(plans, in_force, 0.01, Protocol(max_rounds=8, confirm_rounds=4), visit, Random(seed))


@pytest.mark.parametrize("text", ["race", "confirm", "argmin:1:mean", "argmin:12:median"])
def test_a_policy_is_called_what_it_was_asked_for(text):
    assert parse_selector(text).name == text


def test_argmin_is_of_means_unless_told_otherwise():
    assert parse_selector("argmin:3") == Argmin(3, "mean")


@pytest.mark.parametrize("text", ["", "best", "argmin", "argmin:0", "argmin:-1", "argmin:x", "argmin:3:mode", "race:1"])
def test_other_policies_are_refused_with_what_was_expected(text):
    with pytest.raises(UsageError, match="policy: expected race, confirm, argmin:N") as refused:
        parse_selector(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize("text", ["race", "confirm", "argmin:1", "argmin:2:median"])
def test_without_noise_every_policy_selects_the_fastest(text):
    times = dict(zip(PLANS, (9.0, 7.0, 8.0, 12.0), strict=True))
    assert parse_selector(text).select(contest(lambda plan: Visit(times[plan]))) == TWO


def test_argmin_visits_plan_after_plan_and_the_race_in_rounds():
    seen = []

    def visit(plan):
        seen.append(plan)
        return Visit(10.0 + PLANS.index(plan) / 100)

    parse_selector("argmin:3").select(contest(visit))
    assert [len(set(seen[start : start + 3])) for start in range(0, 12, 3)] == [1, 1, 1, 1]
    seen.clear()
    parse_selector("race").select(contest(visit))
    assert [set(seen[start : start + 4]) for start in (0, 4, 8)] == [set(PLANS)] * 3


def test_mean_and_median_of_a_visit_are_told_apart():
    """A plan whose samples spike has the better median and the worse mean."""
    visits = {ONE: Visit(10.0, mean_us=14.0), TWO: Visit(11.0, mean_us=11.5)}
    assert parse_selector("argmin:2:median").select(contest(visits.get, [ONE, TWO])) == ONE
    assert parse_selector("argmin:2:mean").select(contest(visits.get, [ONE, TWO])) == TWO


def test_where_means_are_missing_medians_stand_in():
    visits = {ONE: Visit(10.0), TWO: Visit(11.0)}
    assert parse_selector("argmin:2:mean").select(contest(visits.get, [ONE, TWO])) == ONE


@pytest.mark.parametrize("text", ["race", "confirm", "argmin:2"])
def test_a_plan_that_gives_nothing_is_never_selected(text):
    def visit(plan):
        return Visit(math.nan, "invalid", "on purpose") if plan == ONE else Visit(20.0 + PLANS.index(plan))

    assert parse_selector(text).select(contest(visit)) == TWO
    assert parse_selector(text).select(contest(lambda plan: Visit(math.nan, "invalid"), [ONE, TWO])) is None


def test_the_race_keeps_the_plan_in_force_in_a_tie_and_the_others_do_not():
    times = {ONE: 10.0, TWO: 9.97}
    held = contest(lambda plan: Visit(times[plan]), [ONE, TWO], in_force=ONE)
    assert parse_selector("race").select(held) == ONE
    assert parse_selector("confirm").select(held) == TWO
    assert parse_selector("argmin:1").select(held) == TWO
