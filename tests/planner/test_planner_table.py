"""The table file: what is written is what is read, in one canonical text."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from planner_strategies import tables

from cake_tune.errors import TableError
from cake_tune.planner import registry
from cake_tune.planner.codec import parse_json, to_json
from cake_tune.planner.shape import Device, Plan
from cake_tune.planner.table import (
    Certificate,
    Override,
    Region,
    Regret,
    load_table,
    save_table,
    table_from_json,
    table_text,
    table_to_json,
)


@given(tables)
def test_reading_what_was_written_gives_the_same_table(table):
    assert table_from_json(parse_json(table_text(table))) == table
    assert table_from_json(json.loads(json.dumps(table_to_json(table)))) == table


@given(table=tables)
def test_saving_and_loading_keep_the_table_and_its_bytes(tmp_path_factory, table):
    path = tmp_path_factory.mktemp("table") / "table.json"
    save_table(table, path)
    first = path.read_bytes()
    save_table(load_table(path), path)
    assert load_table(path) == table
    assert path.read_bytes() == first
    assert [entry.name for entry in path.parent.iterdir()] == ["table.json"]


@given(tables)
def test_text_has_one_exception_and_one_region_per_line(table):
    text = table_text(table)
    assert text.endswith("}\n")
    lines = [line.strip().rstrip(",") for line in text.splitlines()]
    written = table_to_json(table)
    for entry in (*written.get("exceptions", ()), *written.get("measured", ())):
        assert json.dumps(entry, ensure_ascii=False) in lines


def test_a_changed_exception_changes_one_line(shipped):
    plan = Plan("decode", 1, 2, 4)
    entries = tuple(Override(16, 512, 0, tokens, tokens, plan, 0.03) for tokens in (1, 2, 4))
    before = replace(shipped[188], exceptions=entries)
    after = replace(before, exceptions=(entries[0], replace(entries[1], regret=0.05), entries[2]))
    pairs = zip(table_text(before).splitlines(), table_text(after).splitlines(), strict=True)
    assert sum(old != new for old, new in pairs) == 1


@pytest.mark.parametrize("path", sorted(registry.SHIPPED.glob("*.json")), ids=lambda path: path.stem)
def test_shipped_tables_are_in_canonical_text(path):
    assert path.read_text(encoding="utf-8") == table_text(load_table(path))


def test_published_tables_say_where_they_come_from(shipped):
    assert {sms: (table.device.arch, table.calibrated_topks) for sms, table in shipped.items()} == {
        188: ("sm_120a", (128, 512)),
        170: ("sm_120a", (128, 512)),
        48: ("sm_121a", (128, 512)),
    }
    assert all("FlashInfer 0.7.2" in table.provenance.source for table in shipped.values())
    assert "not measured" in shipped[48].provenance.note


def test_a_failing_save_leaves_the_old_file_alone(tmp_path, shipped):
    path = tmp_path / "table.json"
    save_table(shipped[188], path)
    unwritable = replace(shipped[170], device=Device("\ud800", "sm_120a", 170))
    with pytest.raises(UnicodeEncodeError):
        save_table(unwritable, path)
    assert load_table(path) == shipped[188]
    assert [entry.name for entry in tmp_path.iterdir()] == ["table.json"]


def test_a_place_that_cannot_be_written_is_named(tmp_path, shipped):
    path = tmp_path / "missing" / "table.json"
    with pytest.raises(TableError, match=r"missing/table\.json: cannot be written: No such file"):
        save_table(shipped[188], path)


@pytest.mark.parametrize("name", ["absent.json", "."])
def test_a_place_that_cannot_be_read_is_named(tmp_path: Path, name):
    with pytest.raises(TableError, match="cannot be read: "):
        load_table(tmp_path / name)


OVERRIDE = Override(16, 512, 0, 4, 8, Plan("decode", 1, 2, 4), 0.03)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_heads": 24}, "num_heads: expected one of 8, 16, .* got 24"),
        ({"topk": 0}, "topk: expected an integer >= 1, got 0"),
        ({"extra_topk": -1}, "extra_topk: .* got -1"),
        ({"min_tokens": -1}, "num_tokens: .* got -1"),
        ({"max_tokens": 3}, "max_tokens: expected at least min_tokens = 4, got 3"),
        ({"regret": float("nan")}, "regret: expected a finite fraction >= 0, got nan"),
        ({"regret": -0.1}, "regret: .* got -0.1"),
        ({"plan": Plan("decode", 2, 2, 4)}, "plan: head_tiles: decode of 16 heads and 8 chunks has 1, got 2"),
        ({"plan": Plan("decode", 1, 0, 4)}, "plan: num_splits: .* got 0"),
        ({"plan": Plan("decode", 1, 5, 2)}, "plan: num_splits, chunks_per_block: 8 chunks resolve to 4, 2, got 5, 2"),
        ({"plan": Plan("decode", 1, 2, 3)}, "8 chunks resolve to 2, 4, got 2, 3"),
        ({"plan": Plan("prefill", 1, 2, 4)}, "8 chunks resolve to 1, 8, got 2, 4"),
        ({"plan": Plan("prefill", 2, 1, 8)}, "plan: head_tiles: prefill of 16 heads and 8 chunks has 1, got 2"),
        ({"topk": 2048, "plan": Plan("decode", 1, 1, 32)}, "plan: chunks_per_block: expected at most 16, got 32"),
        ({"topk": 2048, "plan": Plan("prefill", 1, 1, 32)}, "prefill of 16 heads and 32 chunks has none, got 1"),
        (
            {"ties": (Plan("decode", 1, 2, 4), Plan("decode", 1, 3, 3), Plan("decode", 1, 9, 1))},
            r"ties\[2\]: num_splits",
        ),
    ],
)
def test_an_exception_that_cannot_run_or_means_nothing_is_refused(change, message):
    with pytest.raises(TableError, match=message):
        replace(OVERRIDE, **change)


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(4, 8), (8, 9)], r"\[1\]: num_tokens 8 to 9 overlap 4 to 8"),
        ([(1, 2), (6, 9), (4, 5)], r"\[2\]: expected entries sorted"),
        ([(4, 8), (4, 8)], r"\[1\]: .* overlap"),
    ],
)
def test_exceptions_out_of_order_or_overlapping_are_refused(shipped, spans, message):
    entries = tuple(replace(OVERRIDE, min_tokens=first, max_tokens=last) for first, last in spans)
    with pytest.raises(TableError, match="exceptions" + message):
        replace(shipped[188], exceptions=entries)


@pytest.mark.parametrize("topks", [(512, 512), (512, 128)])
def test_regions_out_of_order_or_repeated_are_refused(shipped, topks):
    with pytest.raises(TableError, match=r"measured\[1\]: expected one entry per num_heads, topk, extra_topk"):
        replace(shipped[188], measured=tuple(Region(16, topk, 0, decode=(1,)) for topk in topks))


def test_a_certificate_is_a_regret_that_may_know_held_out_ones_too():
    certificate = Certificate(4, 0.01, 0.02, 0.03, Regret(2, 0.1, 0.2, 0.3))
    assert isinstance(certificate, Regret)
    assert list(to_json(certificate)) == ["points", "mean", "p95", "worst", "held_out"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 2}, "schema_version: this cake-tune writes 3, got 2"),
        ({"device": Device("x", "sm_120a", 0)}, "num_sms: expected an integer >= 1, got 0"),
        ({"device": Device("x", "sm_120a", 1, -1)}, "l2_bytes: .* got -1"),
        ({"calibrated_topks": ()}, "calibrated_topks"),
        ({"calibrated_topks": (512, 128)}, "calibrated_topks: expected ascending"),
        ({"calibrated_topks": (0, 128)}, "calibrated_topks"),
    ],
)
def test_a_table_that_means_nothing_is_refused(shipped, change, message):
    with pytest.raises(TableError, match=message):
        replace(shipped[188], **change)
