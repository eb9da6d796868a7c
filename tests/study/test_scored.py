import pytest
from hypothesis import given
from hypothesis import strategies as st
from study_records import PLANS, record, row, sweeps

from cake_tune.journal.record import PlanRow
from cake_tune.planner.registry import shipped_tables
from cake_tune.planner.shape import HEAD_COUNTS, Plan, Shape, check_plan
from cake_tune.report.fixed import Request, resolved
from cake_tune.study.fixed import best_request
from cake_tune.study.gather import published_rules
from cake_tune.study.points import measured_points
from cake_tune.study.scored import answer_of, score_answer, without

ONE, TWO, FOUR, PREFILL = PLANS
POINTS = measured_points(
    [
        record([row(ONE, [10.0]), row(TWO, [11.0], status="pruned"), PlanRow(FOUR, "oom")], Shape(1, 16, 512)),
        record([row(ONE, [30.0]), row(TWO, [20.0]), row(PREFILL, [40.0])], Shape(4, 16, 512)),
    ]
)


@given(sweeps(), st.sampled_from(PLANS))
def test_regret_is_never_negative_and_that_of_the_fastest_is_nothing(records, plan):
    points = measured_points(records).values()
    if points:
        assert min(each.loss for each in score_answer("", lambda point: plan, points).losses) >= 0
        assert score_answer("", lambda point: point.fastest, points).summary.worst == 0


def test_losses_tell_where_their_times_come_from():
    scored = score_answer("fours", lambda point: FOUR, POINTS.values())
    assert [each.kind for each in scored.losses] == ["none", "none"]
    assert [each.loss for each in scored.losses] == pytest.approx([0.1, 1.0])
    scored = score_answer("twos", lambda point: TWO, POINTS.values())
    assert (scored.count("left"), scored.count("raced"), scored.count("none")) == (1, 1, 0)
    assert scored.worst.shape == Shape(1, 16, 512)
    assert scored.summary.mean == pytest.approx(0.05)


def test_a_table_answers_with_the_kernel_that_was_raced_alone():
    table = next(table for table in shipped_tables() if table.device.num_sms == 48)
    many = Shape(1024, 16, 512)
    alone = measured_points([record([row(ONE, [10.0]), row(TWO, [11.0])], many)])[many]
    both = measured_points([record([row(ONE, [10.0]), row(PREFILL, [11.0])], many)])[many]
    answer = answer_of(table, 48)
    assert answer(alone).kernel == "decode"
    assert answer(both).kernel == "prefill"


def test_the_published_rules_are_those_of_188_multiprocessors():
    assert published_rules().device.num_sms == 188
    assert published_rules().provenance.kind == "published"


def test_held_out_shapes_are_those_that_planners_can_tell_from_measured_ones():
    """Page sizes and flags are nothing that a table could have answered differently."""
    seen = {Shape(1, 16, 512): None}
    fresh = {Shape(1, 16, 512, page_size=32): None, Shape(2, 16, 512): None}
    assert list(without(fresh, seen)) == [Shape(2, 16, 512)]


@given(
    st.builds(Request, st.sampled_from(["decode", "prefill"]), st.sampled_from([1, 2, 4]), st.integers(1, 16)),
    st.builds(Shape, st.integers(1, 512), st.sampled_from(HEAD_COUNTS), st.integers(1, 4096), st.integers(0, 2048)),
)
def test_a_fixed_plan_runs_at_every_shape(request, shape):
    check_plan(resolved(request, shape), shape.num_heads, shape.chunks)
    assert resolved(request, shape, "decode").kernel == "decode"


def test_a_fixed_plan_is_resolved_like_explicit_arguments():
    assert resolved(Request("decode", 2, 3), Shape(1, 16, 512)) == Plan("decode", 1, 3, 3)
    assert resolved(Request("prefill", 4, 1), Shape(1, 32, 512)).head_tiles == 2
    assert resolved(Request("prefill", 1, 1), Shape(1, 8, 512)).kernel == "decode"
    assert resolved(Request("decode", 1, 1), Shape(1, 16, 2048)).num_splits == 2


def test_the_best_fixed_plan_loses_least_on_average():
    """One split loses 0 % and 50 %, two lose 10 % and 0 %."""
    assert best_request(list(POINTS.values())) == Request("decode", 1, 2)
