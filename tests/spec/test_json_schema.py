"""The JSON schema: valid draft-07, as committed, and of one mind with the loader wherever it can be."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft7Validator
from spec_strategies import BASE, FULL, as_yaml, values

from cake_tune.errors import SpecError
from cake_tune.spec import json_schema, parse_spec
from cake_tune.spec.problems import Problems
from cake_tune.spec.reader import decode, read_tree
from cake_tune.spec.tree import plain

ROOT = Path(__file__).parents[2]
BAD = sorted((ROOT / "tests" / "data" / "specs" / "bad").glob("*.yaml"))
VALIDATOR = Draft7Validator(json_schema())

LOADER_ONLY = {
    # what the text says beside its values
    "complex-key", "directive", "duplicate-axis", "duplicate-flow-key", "duplicate-top-key", "key-not-string",
    "two-documents",
    # 1.0 is an integer to JSON schema
    "float-for-integer", "version-float",
    # what depends on several values, or on a grammar
    "constraint-assign", "constraint-attribute", "constraint-block", "constraint-call", "constraint-dangling",
    "constraint-division-by-zero", "constraint-excludes-all", "constraint-excludes-value", "constraint-flag-arithmetic",
    "constraint-float", "constraint-folded", "constraint-in-without-list", "constraint-mixed", "constraint-number",
    "constraint-power", "constraint-python-and", "constraint-quoted", "constraint-too-deep", "constraint-unbalanced",
    "constraint-unknown-name", "extra-page-without-extra", "four-tiles-of-decode", "heads-without-plan",
    "measure-contradiction", "prefill-of-8-heads", "prefill-unused", "range-end-excluded", "range-reversed",
    "sample-too-many", "search-regret-of-exhaustive", "splits-of-prefill", "splits-too-few", "too-many-options",
    "too-many-points", "topk-without-plan",
    # what depends on another file
    "weights-missing-file",
}  # fmt: skip


def test_is_draft_07():
    """The schema is valid draft-07, whole in itself, and names its dialect."""
    Draft7Validator.check_schema(json_schema())
    text = json.dumps(json_schema())
    assert json_schema()["$schema"] == "http://json-schema.org/draft-07/schema#"
    assert "$ref" not in text
    assert "null" not in json.dumps([*_keywords(json_schema(), "type")])


def test_committed_file_is_current():
    """sweeps/schema.json is what the code generates (cake-tune schema -o sweeps/schema.json)."""
    assert (ROOT / "sweeps" / "schema.json").read_text() == json.dumps(json_schema(), indent=2) + "\n"


def test_every_key_is_described_and_no_other_allowed():
    """Every object is closed, and each of its keys has a description for the editor to show."""
    objects = [node for node in _nodes(json_schema()) if "properties" in node]
    assert len(objects) == 6  # the spec, its shapes, plans, search and measure, and a range
    for node in objects:
        assert node["additionalProperties"] is False
        assert all("description" in child for child in node["properties"].values())


@pytest.mark.parametrize("text", [BASE, FULL])
def test_accepts_valid_specs(text):
    """What the loader takes, the schema takes."""
    VALIDATOR.validate(plain(read_tree(text)[0]))


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_refuses_malformed_specs(path):
    """What is wrong with single values, the schema refuses as well; what it cannot see is listed here."""
    try:
        tree, _ = read_tree(decode(path.read_bytes()))
    except Problems:
        return  # no editor gets a document out of it either
    assert VALIDATOR.is_valid(plain(tree)) == (path.stem in LOADER_ONLY)


@settings(deadline=None, max_examples=300)
@given(
    st.sampled_from(
        ["seed", "name", "time_budget", "description", "shapes", "plans", "constraint", "measure", "search", "sample"]
    ),
    values,
)
def test_is_never_stricter_than_the_loader(key, value):
    """A value that the loader takes in some place, the schema takes there too."""
    document = plain(read_tree(BASE)[0]) | {key: value}
    try:
        parse_spec(as_yaml(document), "test.yaml")
    except SpecError:
        return
    VALIDATOR.validate(document)


def _nodes(schema):
    if isinstance(schema, dict):
        yield schema
        schema = list(schema.values())
    if isinstance(schema, list):
        for child in schema:
            yield from _nodes(child)


def _keywords(schema, keyword):
    return (node[keyword] for node in _nodes(schema) if keyword in node)
