"""The specs that come with the project."""

import re
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from cake_tune.spec import json_schema, load_spec
from cake_tune.spec.reader import read_tree
from cake_tune.spec.tree import plain

SWEEPS = Path(__file__).parents[2] / "sweeps"
SPECS = sorted(SWEEPS.glob("*.yaml"))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_loads_and_fits_the_schema(path):
    """Every shipped spec is valid to the loader and to the schema, and is named by its file."""
    spec = load_spec(path)
    assert spec.name == path.stem
    assert spec.description
    Draft7Validator(json_schema()).validate(plain(read_tree(path.read_text())[0]))


@pytest.mark.parametrize("path", SPECS, ids=lambda path: path.stem)
def test_says_what_it_is_for(path):
    """Every shipped spec names the schema for editors, then says what it is for and how long it takes."""
    first, *rest = path.read_text().splitlines()
    assert first == "# yaml-language-server: $schema=schema.json"
    comment = "\n".join(line for line in rest[: rest.index("version: 1")] if line.startswith("#"))
    assert re.search(r"second|minute|hour", comment)


def test_quickstart_can_show_crossovers():
    """The quickstart compares both kernels and several splits, from one token up."""
    points = load_spec(SWEEPS / "cpu-quickstart.yaml").points()
    for heads in (16, 32, 64):
        tokens = {p.shape.num_tokens for p in points if p.shape.num_heads == heads}
        assert 1 in tokens
        assert len(tokens) >= 3
    for point in points:
        assert {plan.kernel for plan in point.plans} == {"decode", "prefill"}
        assert len({plan.num_splits for plan in point.plans}) > 3
