"""What a table says of a sweep that has not measured everything that its spec lists."""

from dataclasses import replace

import pytest
from synthetic_points import following, info_of, records_of

from cake_tune.fit import build_table
from cake_tune.fit.collect import collect
from cake_tune.fit.listed import timed_points
from cake_tune.planner.registry import shipped_tables

IN_FORCE = next(table for table in shipped_tables() if table.device.num_sms == 188)
SPEC = """
version: 1
backend: simulated
shapes: {num_tokens: [1, 2, 4], num_heads: [16, 64], topk: [128, 512]}
"""
INFO = replace(info_of(188), spec_text=SPEC)
SAID = "points that the spec lists"


def records():
    axes = {"heads": (16, 64), "topks": (128, 512), "tokens": (1, 2, 4)}
    return list(records_of(following(IN_FORCE.rules, 188), **axes))


def test_a_complete_sweep_is_all_there_and_its_table_says_nothing():
    assert timed_points(collect(records()), INFO) == (12, 12)
    assert SAID not in build_table(records(), INFO, IN_FORCE).provenance.note


def test_a_partial_sweep_is_counted_in_the_note():
    assert f"times of 7 of the 12 {SAID}" in build_table(records()[:7], INFO, IN_FORCE).provenance.note


def test_points_that_the_spec_does_not_list_count_for_nothing():
    """A refinement's: they do not make up for those that are missing."""
    listed = SPEC.replace("[1, 2, 4]", "[1, 4, 8]")
    assert timed_points(collect(records()), replace(INFO, spec_text=listed)) == (8, 12)


def test_every_variant_of_a_shape_counts():
    both = replace(INFO, spec_text=SPEC.replace("topk:", "sink: [false, true], topk:"))
    sinks = [replace(each, key=f"{each.key}s", shape=replace(each.shape, sink=True)) for each in records()[:3]]
    assert timed_points(collect([*records(), *sinks]), both) == (15, 24)


@pytest.mark.parametrize("text", ["", "# synthetic\n", "version: 9\n"])
def test_without_a_spec_to_read_nothing_is_said(text):
    info = replace(INFO, spec_text=text)
    assert timed_points(collect(records()[:7]), info) is None
    assert SAID not in build_table(records()[:7], info, IN_FORCE).provenance.note


@pytest.mark.parametrize(
    ("search", "ended"),
    [
        ({"points": 7.0, "listed_points": 12.0, "expected_regret": 0.002, "bound": 0.003}, True),
        ({"points": 12.0, "listed_points": 12.0, "bound": 0.003}, True),
        ({"points": 7.0, "listed_points": 12.0, "expected_regret": 0.004, "bound": 0.003}, False),
        ({"points": 7.0, "listed_points": 12.0, "bound": 0.003}, False),
    ],
)
def test_an_adaptive_search_leaves_points_out_on_purpose_once_it_has_ended(search, ended):
    """One that its time budget ended is partial like any other sweep."""
    info = replace(INFO, search=search)
    assert timed_points(collect(records()[:7]), info) == (None if ended else (7, 12))


def test_a_workload_that_is_not_at_hand_changes_nothing():
    """The same run gives the same table on every machine, with the workload's file or without."""
    info = replace(INFO, spec_text=f"{SPEC}weights: load.csv\n", spec_path="/nowhere/spec.yaml")
    assert timed_points(collect(records()[:7]), info) == (7, 12)
