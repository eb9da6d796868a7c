"""The specs that come with the project."""

import re
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from cake_tune.planner.shape import HEAD_COUNTS, every_plan
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


def test_held_out_shapes_share_no_num_tokens_and_no_topk_with_what_they_judge():
    """Between the main sweeps and the held-out one, num_tokens, topk and extra_topk have nothing in common."""
    held_out = [point.shape for point in load_spec(SWEEPS / "dsv4-nvfp4-heldout.yaml").points()]
    assert len(held_out) == 200
    for name in ("dsv4-nvfp4", "dsv4-nvfp4-short"):
        main = [point.shape for point in load_spec(SWEEPS / f"{name}.yaml").points()]
        for axis in ("num_tokens", "topk", "extra_topk"):
            shared = {getattr(shape, axis) for shape in main} & {getattr(shape, axis) for shape in held_out}
            assert shared <= {0}, (name, axis)
        assert {shape.num_heads for shape in main} <= {shape.num_heads for shape in held_out}


def test_the_main_sweep_covers_the_op():
    """Every head count, topk to 2048 with 192 and 1152, one cache and two, and on each shape every plan that runs."""
    points = load_spec(SWEEPS / "dsv4-nvfp4.yaml").points()
    shapes = [point.shape for point in points]
    assert {shape.num_heads for shape in shapes} == set(HEAD_COUNTS)
    assert {64, 192, 1152, 2048} <= {shape.topk for shape in shapes}
    assert {bool(shape.extra_topk) for shape in shapes} == {False, True}
    assert {1, 256} <= {shape.num_tokens for shape in shapes}
    assert all(point.plans == tuple(every_plan(point.shape)) for point in points)


def test_the_short_sweep_is_short_and_can_show_crossovers():
    """Few points, of every kind of head count; in many groups both kernels from few tokens to many."""
    points = load_spec(SWEEPS / "dsv4-nvfp4-short.yaml").points()
    assert 90 <= len(points) <= 130
    assert {8, 16, 32, 48, 64, 128} <= {point.shape.num_heads for point in points}
    groups = {}
    for point in points:
        if {plan.kernel for plan in point.plans} == {"decode", "prefill"}:
            key = (point.shape.num_heads, point.shape.topk, point.shape.extra_topk)
            groups.setdefault(key, set()).add(point.shape.num_tokens)
    assert len(groups) >= 12
    assert all(min(tokens) <= 2 and max(tokens) >= 128 for tokens in groups.values())
