import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from synthetic_points import following, info_of, record_of, records_of, table_of

from cake_tune.errors import UndecidedError
from cake_tune.fit import build_table
from cake_tune.fit.certificate import table_regrets
from cake_tune.fit.collect import collect
from cake_tune.planner.lookup import decide
from cake_tune.planner.registry import shipped_tables
from cake_tune.planner.shape import Shape, every_plan
from cake_tune.planner.table import Region, load_table, save_table, table_text

PUBLISHED = {table.device.num_sms: table for table in shipped_tables()}
IN_FORCE = PUBLISHED[188]


def records(noise=0.01, **axes):
    """Points that follow another device's rules, so that there is something to fit."""
    axes = {"heads": (16, 64), "topks": (128, 512), "tokens": (1, 2, 4, 8, 16, 32)} | axes
    return list(records_of(following(PUBLISHED[48].rules, 188), noise=noise, **axes))


def test_the_order_of_the_journal_does_not_matter():
    given_order = records()
    shuffled = random.Random(3).sample(given_order, len(given_order))
    assert table_text(build_table(shuffled, info_of(188), IN_FORCE)) == table_text(
        build_table(iter(given_order), info_of(188), IN_FORCE)
    )


def test_a_fit_with_its_own_result_in_force_changes_nothing():
    first = build_table(records(), info_of(188), IN_FORCE)
    second = build_table(records(), info_of(188), first)
    assert first.rules != IN_FORCE.rules
    assert (second.rules, second.exceptions) == (first.rules, first.exceptions)


def test_the_table_survives_its_file(tmp_path):
    table = build_table(records(), info_of(188), IN_FORCE)
    save_table(table, tmp_path / "table.json")
    assert load_table(tmp_path / "table.json") == table


def test_the_table_says_where_it_comes_from():
    table = build_table(records(noise=0.0), info_of(188), IN_FORCE)
    assert table.calibrated_topks == (128, 512)
    tokens = (1, 2, 4, 8, 16, 32)
    assert table.measured == tuple(Region(h, topk, 0, tokens, tokens) for h in (16, 64) for topk in (128, 512))
    assert table.provenance.kind == "measured"
    assert table.provenance.date == "2025-01-02"
    assert table.provenance.sweep == "known-truth"
    assert "not on a GPU" in table.provenance.note


def test_the_certificate_is_what_users_get_by_brute_force():
    given_order = records()
    table = build_table(given_order, info_of(188), IN_FORCE)
    regrets = []
    for record in given_order:
        shape = record.shape
        plan = decide(table, num_tokens=shape.num_tokens, num_heads=shape.num_heads, topk=shape.topk).plan
        # Paired with the fastest, by the Hodges-Lehmann centre, as the protocol compares plans.
        confirm = {row.plan: np.log(row.confirm) for row in record.rows}
        fastest = min(record.rows, key=lambda row: row.median_us).plan
        upper = np.triu_indices(12)
        centres = {}
        for each, times in confirm.items():
            ratios = times - confirm[fastest]
            centres[each] = np.median((ratios[:, None] + ratios[None, :])[upper] / 2)
        regrets.append(np.expm1(centres[plan] - min(centres.values())))
    assert table.certificate.points == len(given_order)
    assert table.certificate.mean == pytest.approx(np.mean(regrets), abs=2e-6)
    assert table.certificate.worst == pytest.approx(max(regrets), abs=2e-6)


def test_held_out_regret_needs_three_groups():
    two = build_table(records(topks=(128,)), info_of(188), IN_FORCE)
    assert two.certificate.held_out is None
    four = build_table(records(), info_of(188), IN_FORCE)
    assert four.certificate.held_out.points == four.certificate.points


def test_held_out_regret_does_not_depend_on_measured_rules_in_force():
    first = build_table(records(), info_of(188), IN_FORCE)
    again = build_table(records(), info_of(188), first)
    assert again.certificate == first.certificate


def test_one_kernel_alone_keeps_the_crossover_in_force_and_says_so():
    decode_only = [
        replace(record, rows=tuple(row for row in record.rows if row.plan.kernel == "decode")) for record in records()
    ]
    table = build_table(decode_only, info_of(188), IN_FORCE)
    assert table.rules.decode_max_tokens == IN_FORCE.rules.decode_max_tokens
    assert table.calibrated_topks == IN_FORCE.calibrated_topks
    assert "no shape has times of both kernels" in table.provenance.note
    assert table.certificate.points == len(decode_only)
    assert "no prefill was timed: the certificate is for decode alone" in table.provenance.note
    assert table.untimed == "prefill"
    assert "was timed" not in build_table(records(), info_of(188), IN_FORCE).provenance.note


def failing(record, kernel):
    """``record`` with every plan of ``kernel`` crashed."""
    rows = (
        replace(row, status="crashed", median_us=None, confirm=()) if row.plan.kernel == kernel else row
        for row in record.rows
    )
    return replace(record, rows=tuple(rows))


def test_a_race_of_which_one_kernel_failed_calibrates_no_crossover():
    failed = [failing(record, "prefill") for record in records()]
    table = build_table(failed, info_of(188), IN_FORCE)
    assert table.calibrated_topks == IN_FORCE.calibrated_topks
    assert "no shape has times of both kernels" in table.provenance.note

    one = [failing(record, "prefill") if record.shape.topk == 512 else record for record in records()]
    table = build_table(one, info_of(188), IN_FORCE)
    assert table.calibrated_topks == (128,)
    assert not any(region.prefill for region in table.measured if region.topk == 512)


def test_a_plan_that_nobody_timed_is_never_called_measured():
    axes = {"heads": (64,), "topks": (512,), "tokens": (1, 4, 64)}
    decode_only = [
        replace(record, rows=tuple(row for row in record.rows if row.plan.kernel == "decode"))
        for record in records(noise=0.0, **axes)
    ]
    table = build_table(decode_only, info_of(188), IN_FORCE)
    assert table.measured == (Region(64, 512, 0, decode=(1, 4, 64)),)
    answers = {tokens: decide(table, num_tokens=tokens, num_heads=64, topk=512) for tokens in (1, 2, 4, 5, 64)}
    assert answers[64].plan.kernel == "prefill"
    assert {tokens: answer.source for tokens, answer in answers.items()} == {
        1: "measured",
        2: "rule",
        4: "measured",
        5: "rule",
        64: "extrapolated",
    }


@pytest.mark.parametrize("kernel", ["decode", "prefill"])
def test_where_one_kernels_plan_has_no_time_it_is_not_listed_as_measured(kernel):
    lost = [failing(record, kernel) if record.shape.num_tokens == 4 else record for record in records()]
    table = build_table(lost, info_of(188), IN_FORCE)
    other = {"decode": "prefill", "prefill": "decode"}[kernel]
    assert {getattr(region, kernel) for region in table.measured} == {(1, 2, 8, 16, 32)}
    assert {getattr(region, other) for region in table.measured} == {(1, 2, 4, 8, 16, 32)}
    assert all(decide(table, num_tokens=4, num_heads=h, topk=128).plan.kernel == other for h in (16, 64))


@given(st.data())
@settings(max_examples=10, deadline=None)
def test_measured_means_a_time_at_this_very_point(data):
    tokens = data.draw(st.sets(st.integers(1, 40), min_size=1, max_size=4).map(sorted))
    found = records(noise=0.0, tokens=tokens, heads=(64,), topks=(512,))
    kept = [replace(record, rows=tuple(row for row in record.rows if data.draw(st.booleans()))) for record in found]
    timed = {record.shape.num_tokens: {row.plan for row in record.rows} for record in kept if record.rows}
    assume(timed)
    table = build_table(kept, info_of(188), IN_FORCE)
    for num_tokens in range(42):
        for kernel in (None, "decode", "prefill"):
            decision = decide(table, num_tokens=num_tokens, num_heads=64, topk=512, kernel=kernel)
            assert (decision.source == "measured") == (decision.plan in timed.get(num_tokens, ()))


def test_nothing_measured_is_undecided():
    with pytest.raises(UndecidedError, match=r"got none \(points seen: 0\)"):
        build_table([], info_of(188), IN_FORCE)


latencies = st.lists(st.floats(1, 100), min_size=40, max_size=40)


@given(latencies, st.sampled_from([2, 48, 188]))
@settings(max_examples=8, deadline=None)
def test_whatever_was_measured_the_table_loses_at_most_the_tie_band_there(times, num_sms):
    cycle = itertools.cycle(times)
    shapes = [Shape(t, h, 256, extra) for h in (16, 64) for extra in (0, 64) for t in (1, 3, 10)]
    measured = [record_of(shape, [(plan, next(cycle)) for plan in every_plan(shape)]) for shape in shapes]
    table = build_table(measured, info_of(num_sms), table_of(IN_FORCE.rules, num_sms))
    regrets = table_regrets(collect(measured), table)
    assert all(0 <= regret <= 0.0051 for regret in regrets)
    assert table.certificate.mean <= table.certificate.worst
