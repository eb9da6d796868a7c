"""YAML → validated sweep spec → points. See ``sweeps/`` for examples and ``sweeps/schema.json`` for every key.

Loads neither torch nor pandas.
"""

from cake_tune.spec.load import load_spec, parse_spec
from cake_tune.spec.schema import json_schema
from cake_tune.spec.sweep_spec import Point, Search, Spec

__all__ = ["Point", "Search", "Spec", "json_schema", "load_spec", "parse_spec"]
