"""Malformed table files: each is refused with the file, the place and what was expected there."""

import copy
import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cake_tune.errors import TableError
from cake_tune.planner import registry
from cake_tune.planner.shape import Plan
from cake_tune.planner.table import Certificate, Override, Region, load_table, table_from_json, table_to_json

PLAN = Plan("decode", 2, 2, 4, (("stages", "3"),))
FULL = replace(
    load_table(registry.SHIPPED / registry.DEFAULT),
    exceptions=(Override(64, 512, 0, 1, 4, PLAN, 0.02, (PLAN,)),),
    measured=(Region(64, 512, 0, decode=(1, 64), prefill=(1,)),),
    certificate=Certificate(9, 0.001, 0.004, 0.02),
)


def put(path, value):
    """A change that sets the value at ``path``."""
    return lambda node: _at(node, path[:-1]).__setitem__(path[-1], value)


def cut(*path):
    """A change that removes the key at ``path``."""
    return lambda node: _at(node, path[:-1]).__delitem__(path[-1])


def _at(node, path):
    for step in path:
        node = node[step]
    return node


CHANGES = {
    "unknown key": (put(["colour"], 1), "$.colour: unknown key; expected one of schema_version, device, "),
    "unknown key inside": (put(["device", "smss"], 1), "$.device.smss: unknown key; expected one of name, arch, "),
    "unknown constant": (put(["rules", "splitting", "max_cpb"], 1), "$.rules.splitting.max_cpb: unknown key"),
    "unknown key of a list": (put(["exceptions", 0, "note"], ""), "$.exceptions[0].note: unknown key"),
    "missing key": (cut("rules"), "$.rules: missing"),
    "missing key inside": (cut("device", "num_sms"), "$.device.num_sms: missing"),
    "missing plan": (cut("exceptions", 0, "plan"), "$.exceptions[0].plan: missing"),
    "missing constant": (cut("rules", "splitting", "grid_cap"), "$.rules.splitting.grid_cap: missing"),
    "other version": (put(["schema_version"], 1), "$.schema_version: this cake-tune reads 2 and 3, got 1"),
    "version as text": (put(["schema_version"], "2"), "$.schema_version: this cake-tune reads 2 and 3, got '2'"),
    "version as bool": (put(["schema_version"], True), "$.schema_version: this cake-tune reads 2 and 3, got True"),
    "text for an object": (put(["device"], "gpu"), '$.device: expected an object, got "gpu"'),
    "object for a list": (put(["exceptions"], {}), "$.exceptions: expected a list, got {}"),
    "number for a text": (put(["device", "name"], 5090), "$.device.name: expected a text, got 5090"),
    "fraction for a count": (put(["device", "num_sms"], 188.0), "$.device.num_sms: expected an integer, got 188.0"),
    "bool for a count": (put(["device", "num_sms"], True), "$.device.num_sms: expected an integer, got true"),
    "null for a count": (put(["device", "num_sms"], None), "$.device.num_sms: expected an integer, got null"),
    "text for a number": (put(["certificate", "mean"], "0"), '$.certificate.mean: expected a number, got "0"'),
    "text in a list": (put(["calibrated_topks", 0], "128"), '$.calibrated_topks[0]: expected an integer, got "128"'),
    "unknown kind": (
        put(["provenance", "kind"], "guess"),
        '$.provenance.kind: expected one of "measured", "published"',
    ),
    "unknown kernel": (put(["exceptions", 0, "plan", "kernel"], "mega"), '.plan.kernel: expected one of "decode"'),
    "option without a value": (
        put(["exceptions", 0, "plan", "options", 0], ["stages"]),
        "options[0]: expected a list of 2",
    ),
    "number for a share": (
        put(["rules", "splitting", "grid_cap"], 0.8),
        '.grid_cap: expected a share of num_sms such as "2/3", got 0.8',
    ),
    "share of zero": (
        put(["rules", "splitting", "grid_cap"], "4/0"),
        'expected a share of num_sms such as "2/3", got "4/0"',
    ),
    "signed share": (put(["rules", "splitting", "grid_cap"], "-4/5"), "expected a share"),
    "share with spaces": (put(["rules", "splitting", "grid_cap"], "4 / 5"), "expected a share"),
    "share in other digits": (put(["rules", "splitting", "grid_cap"], "٤/٥"), "expected a share"),
    "band inside out": (
        put(["rules", "tile_bands", 0, "max_chunks"], -1),
        "$.rules.tile_bands[0]: min_chunks, max_chunks",
    ),
    "overlap": (
        lambda node: node["exceptions"].append(node["exceptions"][0]),
        "$: exceptions[1]: num_tokens 1 to 4 overlap",
    ),
    "region overlap": (
        lambda node: node["measured"].append(node["measured"][0]),
        "$: measured[1]: expected one entry per num_heads, topk, extra_topk, ascending",
    ),
    "region without measurements": (
        lambda node: [node["measured"][0].pop(kernel) for kernel in ("decode", "prefill")],
        "$.measured[0]: decode, prefill: expected measured num_tokens in one of them, got none",
    ),
    "measured out of order": (
        put(["measured", 0, "decode"], [4, 4]),
        "$.measured[0]: decode: expected ascending num_tokens, got [4, 4]",
    ),
    "measured without tokens": (put(["measured", 0, "prefill"], [-1]), "$.measured[0]: num_tokens: expected"),
    "region of schema 1": (put(["measured", 0, "min_tokens"], 1), "$.measured[0].min_tokens: unknown key"),
    "unrunnable plan": (
        put(["exceptions", 0, "plan", "head_tiles"], 4),
        "$.exceptions[0]: plan: head_tiles: decode of 64",
    ),
    "unresolved plan": (
        put(["exceptions", 0, "plan", "num_splits"], 3),
        "$.exceptions[0]: plan: num_splits, chunks_per_block",
    ),
    "unrunnable tie": (
        put(["exceptions", 0, "ties", 0, "chunks_per_block"], 8),
        "$.exceptions[0]: ties[0]: num_splits",
    ),
    "negative regret": (
        put(["exceptions", 0, "regret"], -1),
        "$.exceptions[0]: regret: expected a finite fraction >= 0",
    ),
    "bad head count": (put(["measured", 0, "num_heads"], 65), "$.measured[0]: num_heads: expected one of 8, 16"),
    "no multiprocessors": (put(["device", "num_sms"], 0), "$: device.num_sms: expected an integer >= 1, got 0"),
    "topks out of order": (put(["calibrated_topks"], [512, 128]), "$: calibrated_topks: expected ascending"),
}


@pytest.fixture
def refusal(tmp_path):
    def load(text):
        path = tmp_path / "broken.json"
        path.write_text(text, encoding="utf-8")
        with pytest.raises(TableError) as caught:
            load_table(path)
        message = str(caught.value)
        assert message.startswith(f"{path}: ")
        assert caught.value.exit_code == 2
        return message.removeprefix(f"{path}: ")

    return load


@pytest.mark.parametrize(("change", "expected"), CHANGES.values(), ids=CHANGES)
def test_a_changed_table_is_refused_at_the_place_of_the_change(refusal, change, expected):
    node = copy.deepcopy(table_to_json(FULL))
    change(node)
    assert expected in refusal(json.dumps(node))


TEXTS = {
    "empty": ("", "line 1, column 1: not JSON"),
    "no JSON": ("device: gpu", "line 1, column 1: not JSON"),
    "list": ("[]", "$: expected an object, got []"),
    "null": ("null", "$: expected an object, got null"),
    "trailing text": ("{}\n{}", "line 2, column 1: not JSON: Extra data"),
    "NaN": ('{"schema_version": NaN}', "NaN is not a number"),
    "infinity": ('{"schema_version": -Infinity}', "-Infinity is not a number"),
    "overflow": (
        json.dumps(table_to_json(FULL)).replace("0.004", "1e999"),
        "$.certificate.p95: expected a number, got Infinity",
    ),
    "too many digits": ('{"schema_version": ' + "1" * 5000 + "}", "digits"),
    "large number": (
        json.dumps(table_to_json(FULL)).replace("0.004", "1" * 400),
        "$.certificate.p95: expected a number",
    ),
    "repeated key": ('{"schema_version": 1, "device": {"name": "a", "name": "b"}}', "repeated key 'name'"),
    "deep": ("[" * 100_000, "nested too deeply"),
}


@pytest.mark.parametrize(("text", "expected"), TEXTS.values(), ids=TEXTS)
def test_a_text_that_is_no_table_is_refused(refusal, text, expected):
    assert expected in refusal(text)


def test_a_file_torn_at_any_byte_is_refused(refusal):
    text = json.dumps(table_to_json(FULL))
    for length in range(0, len(text), 29):
        assert re.match(r"line 1, column \d+: not JSON", refusal(text[:length]))


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "broken.json"
    path.write_bytes(b"{\xff}")
    with pytest.raises(TableError, match=r"broken\.json: .*utf-8"):
        load_table(path)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 200) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def _places(node, path=()):
    yield path
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        yield from _places(value, (*path, key))


@given(st.sampled_from(list(_places(table_to_json(FULL)))), json_values)
def test_any_value_in_any_place_gives_a_table_or_a_table_error(place, value):
    node = copy.deepcopy(table_to_json(FULL))
    if place:
        put(list(place), value)(node)
    else:
        node = value
    try:
        table = table_from_json(node)
    except TableError as error:
        assert str(error).startswith("$")
    else:
        assert table_from_json(table_to_json(table)) == table
