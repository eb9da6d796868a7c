import math

import pytest
from synthetic_points import record_of

from cake_tune.fit.collect import collect
from cake_tune.fit.kept import kept_for_noise
from cake_tune.journal.record import PlanRow, PointRecord
from cake_tune.measure.statistics import upper_bound
from cake_tune.planner.shape import Plan, Shape

HELD, RIVAL = Plan("decode", 1, 1, 8), Plan("decode", 1, 2, 4)
RATIOS = (0.97, 1.12, 0.99, 1.05, 1.04, 1.09, 1.03)


def noisy(num_tokens=1, ratios=RATIOS, best=HELD, band=0.01):
    """A point at which HELD takes ``ratios`` of RIVAL's 10 us in the confirmation."""
    held = tuple(10 * ratio for ratio in ratios)
    rows = (
        PlanRow(HELD, "ok", median_us=sorted(held)[len(held) // 2], confirm=held),
        PlanRow(RIVAL, "ok", median_us=10.0, confirm=(10.0,) * len(held)),
    )
    return PointRecord(f"k{num_tokens}", Shape(num_tokens, 16, 512), "ok", rows, best=best, tie_band=band)


def test_a_chosen_plan_that_measured_slower_is_told_with_its_loss_and_what_is_sure_of_it():
    (found,) = kept_for_noise(collect([noisy()]))
    assert (found.key.num_tokens, found.chosen, found.fastest) == (1, HELD, RIVAL)
    assert 0.03 < found.loss < 0.05
    bound = upper_bound([-math.log(ratio) for ratio in RATIOS])
    assert found.sure == pytest.approx(math.expm1(-bound), abs=1e-6)
    assert found.sure < found.loss


def test_the_largest_loss_comes_first():
    records = [noisy(t, [1 + loss] * 5) for t, loss in ((1, 0.02), (2, 0.3), (4, 0.1))]
    assert [each.key.num_tokens for each in kept_for_noise(collect(records))] == [2, 4, 1]


@pytest.mark.parametrize("record", [noisy(best=RIVAL), noisy(best=None), noisy(band=0.05)])
def test_the_fastest_a_tied_one_and_no_choice_at_all_are_not_kept_for_noise(record):
    assert kept_for_noise(collect([record])) == []


def test_without_rounds_in_common_nothing_is_sure():
    rows = (PlanRow(HELD, "ok", median_us=12.0), PlanRow(RIVAL, "ok", median_us=10.0))
    (found,) = kept_for_noise(collect([PointRecord("k", Shape(1, 16, 512), "ok", rows, best=HELD, tie_band=0.01)]))
    assert found.loss == pytest.approx(0.2)
    assert found.sure is None


def test_a_point_among_others_names_its_own_plans():
    quiet = record_of(Shape(2, 64, 512), [(HELD, 10.0), (RIVAL, 20.0)], best=HELD)
    (found,) = kept_for_noise(collect([quiet, noisy(8)]))
    assert (found.key.num_heads, found.key.num_tokens, found.chosen) == (16, 8, HELD)
