from dataclasses import replace
from pathlib import Path

import pytest

from cake_tune.fit.crossover import Crossover, KernelInterval
from cake_tune.planner.outside import METHODS, Outside, Score
from cake_tune.planner.registry import shipped_tables
from cake_tune.planner.rules import DecodeLimit, Share
from cake_tune.planner.shape import Plan
from cake_tune.planner.table import Certificate, Override, Region, Regret, load_table
from cake_tune.report.moved import moved_constants
from cake_tune.report.policies import Policy
from cake_tune.report.words import (
    crossover_words,
    exception_words,
    exceptions_words,
    group_name,
    held_out_lines,
    method_words,
    policy_words,
    regret_words,
    tokens_words,
)

MODEL = load_table(Path(__file__).parents[1] / "data" / "report-run" / "table.json").outside.cost_model
RULES = next(table.rules for table in shipped_tables() if table.device.num_sms == 188)


def crossover(threshold, low, high, intervals=(), num_tokens=(2, 4, 8, 16)):
    return Crossover(64, 512, 0, threshold, low, high, intervals, num_tokens, (0.1, 0.1, -0.1, -0.2)[: len(num_tokens)])


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (crossover(6, 4, 8), "decode up to T=6 (4…8), prefill above"),
        (crossover(4, 2, None), "decode up to T=4 (2…), prefill above"),
        (crossover(16, 16, None), "decode at every measured T, 2 to 16"),
        (crossover(None, 16, None), "decode at every measured T, 2 to 16"),
        (crossover(16, 8, None), "decode at every measured T, 2 to 16 (8…)"),
        (crossover(1, 0, 2), "prefill at every measured T, 2 to 16"),
        (crossover(1, 0, 8), "prefill at every measured T, 2 to 16 (0…8)"),
        (crossover(1, 0, None), "prefill at every measured T, 2 to 16 (0…)"),
        (crossover(40, 0, None, num_tokens=(4,)), "decode at the one measured T, 4 (0…)"),
        (crossover(40, 4, None, num_tokens=(4,)), "decode at the one measured T, 4"),
        (crossover(1, 0, None, num_tokens=(4,)), "prefill at the one measured T, 4 (0…)"),
        (
            crossover(4, 4, 8, (KernelInterval(1, 5, "decode"), KernelInterval(6, None, "prefill"))),
            "no single crossover: decode T=1…5, prefill from T=6",
        ),
    ],
)
def test_crossovers_in_words(found, said):
    assert crossover_words(found) == said


def test_groups_regrets_and_intervals_in_words():
    assert group_name(64, 512, 128) == "H=64 topk=512+128"
    assert regret_words(Regret(3, 0.001, 0.02, 0.5)) == "mean 0.10 %, p95 2.00 %, worst 50.00 % over 3 shapes"
    assert regret_words(Regret(1, 0.0, 0.0, 0.0)).endswith("over 1 shape")
    one = Override(16, 512, 0, 4, 4, Plan("decode", 1, 1, 8), 0.1)
    assert [tokens_words(one), tokens_words(replace(one, max_tokens=9))] == ["4", "4…9"]


def test_a_policy_without_times_is_unknown_not_lossless():
    some, none = Policy("held", (0.0, 0.5, 0.1), 1), Policy("held", (0.0, 0.0), 2)
    assert policy_words(some).endswith("worst 50.00 % over 3 shapes, without a time at 1 of them")
    assert policy_words(none) == "unknown, its plans have no time at any of 2 shapes"


def test_moved_constants_name_their_place():
    assert moved_constants(RULES, RULES) == []
    splitting = replace(RULES.splitting, grid_cap=Share(50, 132), tail=None)
    limits = (replace(RULES.decode_max_tokens[0], num_tokens=5), *RULES.decode_max_tokens[1:])
    moved = moved_constants(RULES, replace(RULES, splitting=splitting, decode_max_tokens=limits))
    assert ("splitting.grid_cap", '"4/5"', '"50/132"') in moved
    assert ("decode_max_tokens[0].num_tokens", "8", "5") in moved
    assert [each.after for each in moved if each.constant == "splitting.tail"] == [""]


def test_added_and_dropped_entries_are_shown_whole():
    longer = (DecodeLimit(num_tokens=3), *RULES.decode_max_tokens)
    (added,) = moved_constants(RULES, replace(RULES, decode_max_tokens=longer))
    assert (added.before, added.after) == ("", '{"num_tokens": 3}')
    assert len(moved_constants(RULES, replace(RULES, tile_bands=()))) == len(RULES.tile_bands)


def test_where_something_else_answers_between_them_an_exception_is_its_measured_num_tokens():
    table = next(table for table in shipped_tables() if table.device.num_sms == 188)
    override = Override(64, 512, 0, 3, 9, Plan("decode", 1, 4, 2), 0.05)
    regions = (Region(64, 512, 0, (2, 4, 8), (8, 9, 16)), Region(64, 1024, 0, (5,)))
    measured = replace(table, exceptions=(override,), measured=regions)
    ruled = replace(measured, outside=Outside(groups="rules", tokens="rules", why=""))
    carried = replace(measured, outside=Outside(groups="rules", tokens="rules+exceptions", why=""))
    assert [exception_words(override, each) for each in (measured, ruled, carried)] == ["3…9", "4, 8, 9", "3…9"]


def outside(groups, tokens):
    scores = tuple(Score(method, Regret(9, 0.01, 0.1, 0.2), Regret(5, 0.02, 0.1, 0.2)) for method in METHODS)
    needed = "cost_model" in (groups, tokens)
    return Outside(groups=groups, tokens=tokens, why="", scores=scores, cost_model=MODEL if needed else None)


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        ("rules", "1, each at measured num_tokens alone (between them: rules)"),
        ("rules+exceptions", "1 interval of num_tokens"),
        ("cost_model", "1, each at measured num_tokens alone (between them: cost model)"),
    ],
)
def test_exceptions_are_intervals_only_where_they_answer_between_measured_num_tokens(tokens, said):
    table = next(table for table in shipped_tables() if table.device.num_sms == 188)
    override = Override(64, 512, 0, 3, 9, Plan("decode", 1, 4, 2), 0.05)
    table = replace(table, exceptions=(override,), measured=(Region(64, 512, 0, (4, 8)),))
    assert exceptions_words(replace(table, outside=outside("rules", tokens))) == said
    assert exceptions_words(table) == "1 interval of num_tokens"


@pytest.mark.parametrize("groups", METHODS)
@pytest.mark.parametrize("tokens", METHODS)
def test_what_was_held_out_is_named_with_the_method_that_answers_there(groups, tokens):
    table = next(table for table in shipped_tables() if table.device.num_sms == 188)
    certificate = Certificate(9, 0.0, 0.0, 0.0, Regret(9, 0.01, 0.1, 0.2))
    certified = replace(table, certificate=certificate, outside=outside(groups, tokens))
    heads, others = held_out_lines(certified)
    assert heads.startswith(f"regret, {method_words(groups)} on num_heads and top-ks held out of the fit: mean 1.00 %")
    assert others.startswith(f"regret, {method_words(tokens)} on num_tokens held out of the fit: mean 2.00 %")
    assert list(held_out_lines(table)) == []
