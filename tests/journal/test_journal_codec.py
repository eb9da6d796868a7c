"""Records survive JSON, and nothing else is taken for one."""

import json
import math
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from journal_records import record, records

from cake_tune.errors import JournalError
from cake_tune.journal.codec import OPTIONAL, OPTIONAL_VISITS, record_from_json, record_to_json
from cake_tune.journal.run import RunDirectory


@given(records)
def test_a_record_is_equal_after_its_way_through_json(original):
    assert record_from_json(record_to_json(original)) == original


@given(records)
def test_json_is_one_line_of_ascii(original):
    text = record_to_json(original)
    assert text.isascii()
    assert not set("\n\r\t") & set(text)


def test_times_that_are_not_finite_become_null():
    original = record("a")
    row = replace(original.rows[0], median_us=math.inf, visits=(1.0, math.nan))
    text = record_to_json(replace(original, rows=(row,)))
    assert "NaN" not in text and "Infinity" not in text
    back = record_from_json(text).rows[0]
    assert (back.median_us, back.visits) == (None, (1.0, None))


def fields() -> dict:
    return json.loads(record_to_json(record("a")))


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"status": "fine"},
        {"shape": {"num_tokens": 1}},
        {"shape": {**fields()["shape"], "colour": 1}},
        {"rows": 3},
        {"rows": [{"plan": {}}]},
        {"best": {"kernel": "decode"}},
        {"audit": []},
    ],
    ids=str,
)
def test_a_field_that_does_not_fit_is_a_journal_error(change):
    with pytest.raises(JournalError):
        record_from_json(json.dumps(fields() | change))


@pytest.mark.parametrize("missing", sorted(fields()))
def test_a_missing_field_is_a_journal_error(missing):
    text = json.dumps({name: value for name, value in fields().items() if name != missing})
    with pytest.raises(JournalError, match=missing):
        record_from_json(text)


def test_a_row_written_before_relative_errors_were_kept_is_read():
    old = fields()
    for row in old["rows"]:
        del row["relative_error"]
    assert record_from_json(json.dumps(old)) == record("a")


def test_what_holds_its_default_is_left_out_and_an_old_line_has_none_of_it():
    plain = fields()
    assert not {*OPTIONAL} & {*plain}
    assert all(not {*OPTIONAL_VISITS} & {*row} for row in plain["rows"])
    kept = replace(record("a").rows[0], visits=(2.0,), visit_means=(2.5,), visit_mads=(None,), confirm_mads=(0.1,))
    full = replace(record("a"), rows=(kept,), gpu="GPU-1", audits="b", twins=True)
    written = json.loads(record_to_json(full))
    assert (written["gpu"], written["audits"], written["twins"]) == ("GPU-1", "b", True)
    assert written["rows"][0].keys() - plain["rows"][0].keys() == {"visit_means", "visit_mads", "confirm_mads"}
    assert record_from_json(json.dumps(written)) == full
    assert not full.counts and record("a").counts


@pytest.mark.parametrize("change", [{"gpu": 1}, {"audits": None}, {"twins": "yes"}, {"twins": 1}], ids=str)
def test_an_optional_field_of_another_kind_is_named(change):
    (name,) = change
    with pytest.raises(JournalError, match=f"{name}: expected a value of type"):
        record_from_json(json.dumps(fields() | change))


def test_the_journal_kept_from_before_these_fields_is_read():
    run = RunDirectory(Path(__file__).parents[1] / "data" / "quickstart-run")
    records = list(run.read_records())
    assert records
    assert all(record.counts and record.gpu == "" for record in records)
    assert all(row.visit_means == () == row.confirm_mads for record in records for row in record.rows)


DEEP = '{"v":1,"rows":' + "[" * 100_000 + "]" * 100_000 + "}"


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "7", '"v"', DEEP], ids=lambda text: text[:8])
def test_text_that_is_no_object_is_a_journal_error(text):
    with pytest.raises(JournalError):
        record_from_json(text)


@given(records)
def test_either_parser_reads_a_record_alike(original):
    text = record_to_json(original)
    quick, thorough = orjson.loads(text), json.loads(text)
    assert repr(quick) == repr(thorough)


@pytest.mark.parametrize(
    ("before", "after"), [('"seconds":0.5', '"seconds":NaN'), ('"error":null', r'"error":"\ud800"')]
)
def test_what_the_quick_parser_refuses_is_read_by_the_other(before, after):
    text = record_to_json(record("a")).replace(before, after, 1)
    with pytest.raises(orjson.JSONDecodeError):
        orjson.loads(text)
    assert record_from_json(text).key == "a"
