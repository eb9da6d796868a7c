"""Which constants of the rules a fit moved, by their place in the table's JSON."""

import json
from typing import Any, NamedTuple

from cake_tune.planner.codec import to_json
from cake_tune.planner.rules import Rules


class Moved(NamedTuple):
    """One constant, or one whole entry of a list, as JSON text; empty where it is absent."""

    constant: str
    before: str
    after: str


def moved_constants(before: Rules, after: Rules) -> list[Moved]:
    """Every constant that differs, in the table's order; a list of another length is shown entry by entry."""
    return list(_differences("", to_json(before), to_json(after)))


def _differences(path: str, before: Any, after: Any) -> list[Moved]:
    if before == after:
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        keys = list(dict.fromkeys([*before, *after]))
        return [
            moved
            for key in keys
            for moved in _differences(f"{path}.{key}" if path else key, before.get(key), after.get(key))
        ]
    if _is_entries(before) and _is_entries(after):
        if len(before) == len(after):
            pairs = zip(before, after, strict=True)
            return [moved for i, pair in enumerate(pairs) for moved in _differences(f"{path}[{i}]", *pair)]
        dropped = [Moved(path, _text(entry), "") for entry in before if entry not in after]
        return dropped + [Moved(path, "", _text(entry)) for entry in after if entry not in before]
    return [Moved(path, _text(before), _text(after))]


def _is_entries(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, dict) for entry in value)


def _text(value: Any) -> str:
    return "" if value is None else json.dumps(value)
