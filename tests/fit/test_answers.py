from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from synthetic_points import following, info_of, records_of, table_of

from cake_tune.fit.answers import answers_of, rule_answers, table_answers, verdicts
from cake_tune.fit.collect import collect
from cake_tune.fit.overrides import plan_of, verdict
from cake_tune.fit.table import build_table
from cake_tune.planner.registry import shipped_tables
from cake_tune.planner.rules import Share

PUBLISHED = {table.device.num_sms: table.rules for table in shipped_tables()}
SHAPES = {"tokens": (1, 3, 8, 20, 64, 200), "heads": (8, 16, 48, 64, 128), "topks": (64, 300, 512, 1152)}


def fitted(num_sms=188, truth=170, seed=0):
    """A table with exceptions, from times that follow other rules, some plans of which were not measured."""
    rng = np.random.default_rng(seed)
    records = []
    for record in records_of(following(PUBLISHED[truth], 30), noise=0.01, seed=seed, **SHAPES):
        kept = tuple(row for row in record.rows if rng.random() < 0.8) or record.rows
        records.append(replace(record, rows=kept))
    in_force = table_of(PUBLISHED[num_sms], num_sms)
    return collect(records), build_table(records, info_of(num_sms), in_force)


@pytest.mark.parametrize(("num_sms", "seed"), [(188, 0), (48, 1), (170, 2)])
@pytest.mark.parametrize("asked", [None, "decode", "prefill", "alone"])
def test_arrays_answer_as_a_look_up_of_each_shape_does(num_sms, seed, asked):
    samples, table = fitted(num_sms=num_sms, seed=seed)
    assert table.exceptions
    kernel = None if asked == "alone" else asked
    answers = table_answers(samples, table, kernel, alone=asked == "alone")
    judged = verdicts(samples, answers)
    for point in range(len(samples)):
        key = samples.key(point)
        if kernel == "prefill" and (key.num_heads == 8 or samples.chunks[point] > 16):
            assert answers.plan[point] == -1
            continue
        of = samples.kernel_alone(point) if asked == "alone" else kernel
        plan = plan_of(table, samples, point, num_sms, of)
        assert (plan.kernel == "decode") == answers.decodes[point]
        assert (samples.plans[answers.plan[point]] == plan) if answers.plan[point] >= 0 else plan not in samples.plans
        one = verdict(samples, point, plan)
        assert (judged.timed[point], judged.accepted[point], judged.judged[point]) == (
            one.timed,
            one.accepted,
            one.judged,
        )
        assert judged.regret[point] == pytest.approx(one.regret, abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(
    whole=st.integers(0, 20),
    cap=st.integers(0, 400),
    multiples=st.lists(st.integers(2, 16), unique=True).map(lambda held: tuple(sorted(held))),
)
def test_rules_alone_answer_as_a_table_without_exceptions(whole, cap, multiples):
    start = PUBLISHED[188]
    splitting = replace(start.splitting, whole_chunks=whole, grid_cap=Share(cap, 188), multiples=multiples)
    rules = replace(start, splitting=splitting)
    samples = collect(records_of(following(start, 188), tokens=(1, 5, 40), heads=(16, 128), topks=(64, 832, 1024)))
    answers = rule_answers(samples, rules, 188)
    table = table_of(rules, 188)
    for point in range(len(samples)):
        assert samples.plans[answers.plan[point]] == plan_of(table, samples, point, 188)


def test_plans_nobody_measured_are_judged_as_the_slowest():
    samples, _ = fitted()
    absent = replace(samples.plans[0], options=(("qk", "nvfp4"),))
    judged = verdicts(samples, answers_of(samples, [absent] * len(samples)))
    assert not judged.timed.any()
    assert judged.regret[0] == pytest.approx(verdict(samples, 0, absent).regret)
