import pytest
from hypothesis import given
from study_records import PLANS, record, row, sweeps

from cake_tune.planner.shape import Shape
from cake_tune.study.agreement import agreement
from cake_tune.study.points import measured_points

ONE, TWO, FOUR, PREFILL = PLANS


def points(times, best=None, tokens=4, **fields):
    rows = [row(plan, [time]) for plan, time in times.items()]
    return measured_points([record(rows, Shape(tokens, 16, 512), best, **fields)])


@given(sweeps(), sweeps())
def test_agreement_is_symmetric(first, second):
    one, other = measured_points(first), measured_points(second)
    there, back = agreement(one, other), agreement(other, one)
    assert (there.agreeing, there.agreeing_with_choices) == (back.agreeing, back.agreeing_with_choices)
    assert (there.flips, there.untimed) == (back.flips, back.untimed)
    assert (there.only_first, there.only_second) == (back.only_second, back.only_first)
    assert [each.shape for each in there.disagreeing] == [each.shape for each in back.disagreeing]
    assert [(each.first, each.second) for each in there.points] == [(each.second, each.first) for each in back.points]


@given(sweeps())
def test_a_sweep_agrees_with_itself_on_every_choice_that_has_a_time(records):
    own = measured_points(records)
    found = agreement(own, own)
    assert found.flips == 0
    assert found.agreeing_with_choices == len(own) - found.untimed
    good = [each for each in own.values() if each.choice in each.times and each.regret(each.choice) <= 0.01]
    assert found.agreeing == len(good)


@given(sweeps(), sweeps())
def test_no_choice_loses_less_than_nothing(first, second):
    for each in agreement(measured_points(first), measured_points(second)).points:
        assert each.first.loss >= 0
        assert each.second.loss >= 0


def test_different_choices_agree_while_each_is_good_in_the_other_sweep():
    found = agreement(points({ONE: 10.0, TWO: 10.05}), points({ONE: 10.05, TWO: 10.0}))
    assert found.flips == 1
    assert found.agreeing == 1


def test_one_bad_choice_is_enough_to_disagree():
    found = agreement(points({ONE: 10.0, TWO: 10.05}), points({ONE: 10.3, TWO: 10.0}))
    (point,) = found.disagreeing
    assert point.first.loss == pytest.approx(0.03)
    assert point.second.loss == pytest.approx(0.005)
    assert found.agreeing == 0


def test_a_plan_kept_though_slower_is_held_against_the_fastest_and_against_the_choice():
    kept = points({ONE: 10.3, TWO: 10.0}, best=ONE)
    found = agreement(kept, kept)
    assert found.agreeing == 0
    assert found.agreeing_with_choices == 1


def test_a_choice_without_a_time_in_the_other_sweep_disagrees_and_is_counted():
    found = agreement(points({ONE: 10.0}), points({TWO: 10.0}))
    assert found.untimed == 1
    assert found.agreeing == found.agreeing_with_choices == 0


def test_points_of_one_sweep_alone_are_counted_apart():
    found = agreement(points({ONE: 1.0}, tokens=1) | points({ONE: 1.0}, tokens=2), points({ONE: 1.0}, tokens=2))
    assert (len(found.points), found.only_first, found.only_second) == (1, 1, 0)


def test_disagreement_over_kept_plans_alone_is_told_apart():
    """The first sweep keeps the plan in force, which is slow in both; the second has another reason."""
    kept = points({ONE: 10.3, TWO: 10.0}, best=ONE, incumbent=ONE)
    slow = points({ONE: 10.3, TWO: 10.0}, best=ONE)
    assert agreement(kept, kept).kept == 1
    assert agreement(kept, slow).kept == 0
