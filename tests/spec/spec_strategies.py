"""Texts and values for the spec tests: a valid spec, things to break it with, and constraint expressions."""

import json
import math

from hypothesis import strategies as st

BASE = """\
version: 1
backend: cpu
shapes:
  num_tokens: [1, 4]
  num_heads: [16, 64]
  topk: 512
"""

FULL = """\
# yaml-language-server: $schema=schema.json
version: 1
name: full
description: Every key once.
backend: cuda
seed: 7
time_budget: 1.5h
shapes:
  num_tokens: {from: 1, to: 32, per_octave: 2}
  num_heads: [8, 16, 64]
  topk: [128, 512, 1152]
  extra_topk: [0, 128]
  page_size: [1, 64]
  extra_page_size: [32, 64]
  lengths: [false, true]
  sink: true
plans:
  kernels: [decode, prefill]
  head_tiles: [1, 2]
  splits: [1, 2, 3, 4, 8]
  options:
    stages: [2, 3]
    qk: bf16
constraint:
  - num_tokens * num_heads <= 1024 and (page_size == 64 or not lengths)
  - >-
    num_splits <= 4 or
    num_tokens < 8
sample: 500
search:
  method: adaptive
  refine: true
  regret: 0.01
measure:
  regime: warm
  samples: 5
  alpha: 0.1
"""

scalars = st.none() | st.booleans() | st.integers(-3, 3000) | st.floats() | st.text(max_size=8)
values = st.recursive(
    scalars
    | st.sampled_from(["all", "yes", "0x10", "1e3", "10m", "decode", "adaptive", 10**25, "1 < 2", "topk <= sink"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)
"""What YAML can hold at one place, right or wrong."""


def as_yaml(value: object) -> str:
    """The value in YAML's flow style, on one line: JSON, but for the floats that JSON lacks."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {as_yaml(child)}" for key, child in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(as_yaml, value)) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    return json.dumps(value)


_names = st.sampled_from(["num_tokens", "num_heads", "topk", "extra_topk", "page_size", "chunks", "num_splits"])
_numbers = st.recursive(
    _names | st.integers(0, 70).map(str),
    lambda inner: (
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner).map(" ".join)
        | inner.map("({})".format)
        | st.tuples(st.sampled_from(["-", "+"]), inner).map("".join)
    ),
    max_leaves=6,
)
_comparison = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
_relations = (
    st.tuples(_numbers, _comparison, _numbers).map(" ".join)
    | st.tuples(_numbers, _comparison, _numbers, _comparison, _numbers).map(" ".join)
    | st.tuples(_numbers, st.sampled_from([" in", " not in"]), st.lists(_numbers, min_size=1, max_size=3)).map(
        lambda parts: f"{parts[0]}{parts[1]} [{', '.join(parts[2])}]"
    )
    | st.sampled_from(["lengths", "sink"])
)
expressions = st.recursive(
    _relations,
    lambda inner: (
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(" ".join)
        | inner.map("({})".format)
        | inner.map("not {}".format)
    ),
    max_leaves=6,
)
"""Constraints of the grammar, valid by construction."""

environments = st.fixed_dictionaries(
    {
        "num_tokens": st.integers(1, 300),
        "num_heads": st.sampled_from([8, 16, 64, 128]),
        "topk": st.integers(1, 2048),
        "extra_topk": st.integers(0, 256),
        "page_size": st.integers(1, 128),
        "chunks": st.integers(1, 36),
        "num_splits": st.integers(1, 16),
        "lengths": st.booleans(),
        "sink": st.booleans(),
    }
)
"""Values for the names in ``expressions``."""
