"""The points of a spec: which shapes and plans, in which order."""

import itertools
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spec_strategies import BASE, as_yaml

from cake_tune.errors import SpecError
from cake_tune.planner.shape import (
    HEAD_COUNTS,
    Plan,
    Shape,
    decode_tiles,
    distinct_splits,
    every_plan,
    prefill_tiles,
    resolve_splits,
)
from cake_tune.spec import parse_spec
from cake_tune.spec.expand import spread


def points(**sections):
    """The points of a spec with these sections."""
    return parse_spec(as_yaml({"version": 1, "backend": "cpu", **sections}), "test.yaml").points()


def few(values):
    """A value or a short list of them."""
    return values | st.lists(values, min_size=1, max_size=3)


shapes = st.fixed_dictionaries(
    {
        "num_tokens": few(st.integers(1, 40)),
        "num_heads": few(st.sampled_from(HEAD_COUNTS)),
        "topk": few(st.integers(1, 1500)),
    },
    optional={
        "extra_topk": few(st.integers(0, 300)),
        "page_size": few(st.integers(1, 128)),
        "extra_page_size": few(st.integers(1, 128)),
        "lengths": few(st.booleans()),
        "sink": few(st.booleans()),
    },
)
plans = st.fixed_dictionaries(
    {},
    optional={
        "kernels": few(st.sampled_from(["decode", "prefill"])),
        "head_tiles": st.just("all") | few(st.sampled_from([1, 2, 4])),
        "splits": st.just("all") | few(st.integers(1, 30)),
        "options": st.dictionaries(st.sampled_from(["stages", "warps"]), few(st.integers(1, 3) | st.booleans())),
    },
)
limits = st.sampled_from(
    ["num_tokens * num_heads <= 640", "num_splits <= 3", "topk > extra_topk or sink", "chunks < 9"]
)


def runs(plan, shape):
    """Whether the contract lets a plan run a shape, said another way than ``every_plan`` says it."""
    if plan.kernel == "prefill":
        return plan.head_tiles in prefill_tiles(shape.num_heads, shape.chunks) and plan.num_splits == 1
    resolved = resolve_splits(shape.chunks, plan.num_splits)
    return (
        plan.head_tiles in decode_tiles(shape.num_heads)
        and resolved == (plan.num_splits, plan.chunks_per_block)
        and plan.chunks_per_block <= 16
    )


def listed(value):
    return value if isinstance(value, list) else [value]


@settings(deadline=None, max_examples=300)
@given(shapes, plans, limits | st.none())
def test_laws_of_points(shape_section, plan_section, limit):
    """No duplicates, every plan runs, every axis and the constraint hold, and nothing that fits is left out."""
    sections = {"shapes": shape_section, "plans": plan_section} | ({"constraint": limit} if limit else {})
    try:
        found = points(**sections)
    except SpecError as error:
        assert "no point" in str(error)
        return
    assert len({point.shape for point in found}) == len(found)
    for point in found:
        assert point.plans
        assert len(set(point.plans)) == len(point.plans)
        for axis, values in shape_section.items():
            value = getattr(point.shape, axis)
            assert value in listed(values) or (axis == "extra_page_size" and point.shape.extra_topk == 0)
        for plan in point.plans:
            assert runs(plan, point.shape)
            assert limit is None or _holds(limit, point.shape, plan)
    assert sum(len(point.plans) for point in found) == len(_expected(shape_section, plan_section, limit))


def _holds(limit, shape, plan):
    names = {axis: getattr(shape, axis) for axis in ("num_tokens", "num_heads", "topk", "extra_topk", "sink", "chunks")}
    return eval(limit, {}, names | {"num_splits": plan.num_splits})


def _expected(shape_section, plan_section, limit):
    """The (shape, plan) pairs, by trying everything."""
    pairs = set()
    axes = {axis: listed(values) for axis, values in shape_section.items()}
    options = {name: listed(values) for name, values in sorted(plan_section.get("options", {}).items())}
    for values in itertools.product(*axes.values()):
        named = dict(zip(axes, values, strict=True))
        if not named.get("extra_topk"):
            named["extra_page_size"] = 64
        shape = Shape(**named)
        for plan in every_plan(shape):
            kept = plan.kernel in listed(plan_section.get("kernels", ["decode", "prefill"]))
            tiles, splits = plan_section.get("head_tiles", "all"), plan_section.get("splits", "all")
            kept &= tiles == "all" or plan.head_tiles in listed(tiles)
            asked = [resolve_splits(shape.chunks, n)[0] for n in ([] if splits == "all" else listed(splits))]
            kept &= plan.kernel == "prefill" or splits == "all" or plan.num_splits in asked
            if kept and (limit is None or _holds(limit, shape, plan)):
                for chosen in itertools.product(*options.values()):
                    pairs.add((shape, plan, tuple(json.dumps(value) for value in chosen)))
    return pairs


def test_every_distinct_plan_by_default():
    """With nothing said about plans, a point compares every plan that can run its shape."""
    (point,) = points(shapes={"num_tokens": 3, "num_heads": 64, "topk": 512})
    assert point.shape == Shape(3, 64, 512)
    assert point.plans == tuple(every_plan(point.shape))
    assert {plan.head_tiles for plan in point.plans if plan.kernel == "prefill"} == {1, 2, 4}


def test_requests_collapse_to_the_plans_they_resolve_to():
    """Requests for 5, 6 and 7 splits of 8 chunks are all the plan of 4 splits: it is measured once."""
    (point,) = points(
        shapes={"num_tokens": 1, "num_heads": 16, "topk": 512}, plans={"kernels": "decode", "splits": [4, 5, 6, 7, 300]}
    )
    assert point.plans == (Plan("decode", 1, 4, 2), Plan("decode", 1, 8, 1))


def test_too_few_splits_are_left_out_where_others_serve():
    """One split cannot hold 32 chunks; the shapes it can run still use it."""
    found = points(shapes={"num_tokens": 1, "num_heads": 16, "topk": [64, 2048]}, plans={"splits": [1, 2]})
    assert [[str(plan) for plan in point.plans] for point in found] == [
        ["decode/t1/s1x1", "prefill/t1"],
        ["decode/t1/s2x16"],
    ]


def test_prefill_is_left_out_where_it_cannot_run():
    """Eight heads, or more than 16 chunks, leave decode alone."""
    found = points(shapes={"num_tokens": 1, "num_heads": [8, 16], "topk": [1024, 1152]})
    kernels = {(p.shape.num_heads, p.shape.topk): {plan.kernel for plan in p.plans} for p in found}
    assert kernels == {
        (8, 1024): {"decode"},
        (8, 1152): {"decode"},
        (16, 1024): {"decode", "prefill"},
        (16, 1152): {"decode"},
    }


def test_extra_page_size_means_nothing_without_an_extra_cache():
    """Shapes that differ only in the page size of a cache they lack are one shape."""
    found = points(
        shapes={"num_tokens": 1, "num_heads": 8, "topk": 64, "extra_topk": [0, 64], "extra_page_size": [16, 32]}
    )
    assert [(p.shape.extra_topk, p.shape.extra_page_size) for p in found] == [(0, 64), (64, 16), (64, 32)]


def test_options_are_sorted_text():
    """Build options reach the plans as (name, text) pairs in the order of their names."""
    (point,) = points(
        shapes={"num_tokens": 1, "num_heads": 8, "topk": 64},
        plans={"options": {"stages": [2, 3], "qk": "bf16", "async": True}},
    )
    assert [plan.options for plan in point.plans] == [
        (("async", "true"), ("qk", "bf16"), ("stages", "2")),
        (("async", "true"), ("qk", "bf16"), ("stages", "3")),
    ]


def test_coarse_num_tokens_first():
    """All combinations at the ends of num_tokens come before any in between; the order is the spec's otherwise."""
    found = points(shapes={"num_tokens": {"from": 1, "to": 9}, "num_heads": [64, 16], "topk": 64})
    assert [p.shape.num_tokens for p in found[::2]] == [1, 9, 5, 3, 7, 2, 4, 6, 8]
    assert [p.shape.num_heads for p in found] == [64, 16] * 9


@settings(deadline=None)
@given(st.sets(st.integers(1, 500), min_size=1, max_size=40).map(sorted))
def test_spread_covers_early(values):
    """A spread is a permutation, and its first 2^k + 1 values leave gaps of at most 1/2^k of the indices."""
    order = spread(values)
    assert sorted(order) == values
    for k in range(6):
        seen = sorted(values.index(value) for value in order[: 2**k + 1])
        assert max((b - a for a, b in itertools.pairwise(seen)), default=0) <= -(-(len(values) - 1) // 2**k)


@pytest.mark.parametrize(
    ("given_range", "values"),
    [
        ({"from": 3, "to": 6}, [3, 4, 5, 6]),
        ({"from": 5, "to": 5}, [5]),
        ({"from": 1, "to": 16, "per_octave": 1}, [1, 2, 4, 8, 16]),
        ({"from": 1, "to": 100, "per_octave": 2}, [1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 100]),
        ({"from": 6, "to": 7, "per_octave": 64}, [6, 7]),
    ],
)
def test_ranges(given_range, values):
    """A range holds every integer, or so many per doubling, and always both of its ends."""
    found = points(shapes={"num_tokens": given_range, "num_heads": 8, "topk": 64})
    assert sorted(p.shape.num_tokens for p in found) == values


@settings(deadline=None)
@given(st.integers(1, 400), st.integers(0, 3000), st.integers(1, 64))
def test_ranges_are_even(first, width, per_octave):
    """Neighbours of a range are at most one step of the octave apart, give or take the rounding."""
    last = first + width
    found = points(
        shapes={"num_tokens": {"from": first, "to": last, "per_octave": per_octave}, "num_heads": 8, "topk": 1}
    )
    values = sorted(p.shape.num_tokens for p in found)
    assert (values[0], values[-1]) == (first, last)
    assert all(b <= a * 2 ** (1 / per_octave) + 1.5 for a, b in itertools.pairwise(values))


def test_a_constraint_on_plans_drops_plans():
    """A constraint that names num_splits keeps the shape and drops the plans that break it."""
    spec = parse_spec(BASE + "constraint: num_tokens * num_splits <= 4\n", "test.yaml")
    most = {p.shape.num_tokens: max(plan.num_splits for plan in p.plans) for p in spec.points()}
    assert most == {1: 4, 4: 1}
    assert len(distinct_splits(8)) == 5


def test_a_sample_is_some_of_the_points_in_their_order_drawn_by_the_seed():
    """A sample keeps the order of the points; the seed decides which, and it is no stretch of them."""
    text = BASE.replace("[1, 4]", "{from: 1, to: 50}")
    every = parse_spec(text, "test.yaml").points()
    drawn = [parse_spec(f"{text}seed: {seed}\nsample: 20\n", "test.yaml").points() for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    for points in drawn:
        places = [every.index(point) for point in points]
        assert places == sorted(set(places))
        assert len(places) == 20
        assert places != list(range(places[0], places[0] + 20))
    assert parse_spec(f"{text}sample: 100\n", "test.yaml").points() == every


@settings(deadline=None, max_examples=150)
@given(shapes, plans, limits | st.none(), st.integers(1, 45), st.data())
def test_the_domain_of_a_spec_holds_its_points_and_their_neighbours(shape_section, plan_section, limit, tokens, data):
    """``point_at`` gives every listed point, and any other num_tokens in the range as if it had been listed."""
    sections = {"shapes": shape_section, "plans": plan_section} | ({"constraint": limit} if limit else {})
    try:
        spec = parse_spec(as_yaml({"version": 1, "backend": "cpu", **sections}), "test.yaml")
    except SpecError:
        return
    assert all(spec.point_at(point.shape) == point for point in spec.points())
    near = replace(data.draw(st.sampled_from(spec.points())).shape, num_tokens=tokens)
    found, given_tokens = spec.point_at(near), listed(shape_section["num_tokens"])
    if not min(given_tokens) <= tokens <= max(given_tokens):
        assert found is None
        return
    alone = {name: getattr(near, name) for name in Shape.__dataclass_fields__ if name != "extra_page_size"}
    expected = _expected(alone, plan_section, limit)
    assert len(found.plans if found else ()) == len(expected)
    assert found is None or found.shape == near


def test_what_is_outside_the_axes_is_outside_the_domain():
    """Another value of any axis but num_tokens, or a shape that a constraint excludes, has no point."""
    spec = parse_spec(BASE + "constraint: num_tokens * num_heads <= 128\n", "test.yaml")
    shape = Shape(2, 16, 512)
    assert spec.point_at(shape).plans == tuple(every_plan(shape))
    others = {"num_heads": 32, "topk": 64, "extra_topk": 64, "page_size": 1, "lengths": True, "sink": True}
    assert all(spec.point_at(replace(shape, **{name: value})) is None for name, value in others.items())
    assert spec.point_at(Shape(3, 64, 512)) is None
    assert spec.point_at(Shape(5, 16, 512)) is None
    divided = parse_spec(BASE + "constraint: 8 / (2 * num_tokens - 5) != 1\n", "test.yaml")
    assert divided.point_at(Shape(3, 16, 512)) is not None
    divided = parse_spec(BASE + "constraint: 8 / (num_tokens - 2) != 1\n", "test.yaml")
    assert divided.point_at(Shape(2, 16, 512)) is None
