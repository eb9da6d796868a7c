"""Pydantic's findings in this tool's words: what was expected, what came, and what was probably meant."""

import re
from collections.abc import Iterable
from typing import Any

from pydantic_core import ErrorDetails

from cake_tune.spec.measure_model import Measure
from cake_tune.spec.models import Document, Plans, SearchOptions, Shapes, TokenRange
from cake_tune.spec.problems import KeyPath, Problem, did_you_mean, quoted
from cake_tune.spec.scalars import resolve_scalar
from cake_tune.spec.tree import Node, known_path

_KINDS = {
    "int_type": "an integer",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "a string",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "too_short": "at least one value",
}
_BOUNDS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
_SECTIONS: dict[str, Iterable[str]] = {
    "": [field.alias or name for name, field in Document.model_fields.items()],
    "shapes": list(Shapes.model_fields),
    "plans": list(Plans.model_fields),
    "search": list(SearchOptions.model_fields),
    "measure": list(Measure.model_fields),
}
_RANGE = [field.alias or name for name, field in TokenRange.model_fields.items()]


def explain(error: ErrorDetails, tree: Node) -> Problem:
    """The problem for one of pydantic's errors, with its path in the document."""
    context: dict[str, Any] = error.get("ctx", {})
    kind, last = error["type"], error["loc"][-1] if error["loc"] else ""
    path = known_path(tree, error["loc"])
    if kind == "problem":
        path = (*path, context["key"]) if "key" in context else path
        return Problem(context["message"], path, offset=context.get("offset"))
    if kind == "missing":
        return Problem("required key is missing", (*path, str(last)), at_key=True)
    if kind == "extra_forbidden":
        return Problem(_unknown(path), path, at_key=True)
    wanted = _expected(kind, context, error["msg"])
    hint = _hint(kind, context, error["input"]) or _range_hint(path, error["input"])
    message = f"expected {wanted}, got {describe(error['input'])}{hint}"
    return Problem(message, path, at_key=last == "[key]")


def describe(value: object) -> str:
    """A value as a message shows it."""
    if isinstance(value, str):
        return f"the string {quoted(value)}"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if isinstance(value, dict):
        return "a mapping"
    if value is None:
        return "nothing"
    return str(value).lower()


def _expected(kind: str, context: dict[str, Any], fallback: str) -> str:
    if kind == "expected":
        return str(context["expected"])
    if kind == "literal_error":
        return f"one of {', '.join(_choices(context))}"
    if kind == "string_too_long":
        return f"at most {context['max_length']} characters"
    for bound, sign in _BOUNDS.items():
        if bound in context:
            return (
                f"a value {sign} {context[bound]:g}"
                if isinstance(context[bound], float)
                else f"a value {sign} {context[bound]}"
            )
    return _KINDS.get(kind) or f"something else ({fallback})"


def _hint(kind: str, context: dict[str, Any], value: object) -> str:
    """What was probably meant."""
    if isinstance(value, str) and _choices(context):
        return did_you_mean(value, _choices(context), cutoff=0.75)
    if kind in ("int_type", "float_type") and isinstance(value, str):
        number = resolve_scalar(value[:40])
        if isinstance(number, int if kind == "int_type" else (int, float)) and not isinstance(number, bool):
            return ": remove the quotes"
    if kind == "int_type" and isinstance(value, float) and value.is_integer():
        return f": write {int(value)}"
    if kind == "bool_type" and str(value).lower() in ("yes", "no", "on", "off", "y", "n", "1", "0", "true", "false"):
        return ": write true or false"
    return ""


def _range_hint(path: KeyPath, value: object) -> str:
    match = re.fullmatch(r"(\d{1,9})\s*(?:\.\.+|-|to)\s*(\d{1,9})", str(value), re.ASCII)
    return f": write {{from: {match[1]}, to: {match[2]}}}" if match and "num_tokens" in path else ""


def _choices(context: dict[str, Any]) -> list[str]:
    """The words that the error lists: pydantic's own quoted in a text, ours as they are."""
    return list(context.get("words", ())) or re.findall(r"'([^']*)'", context.get("expected", ""))


def _unknown(path: KeyPath) -> str:
    """The message for a key that its section does not know."""
    *above, key = path
    word = str(key)
    section = str(above[0]) if above else ""
    known = _RANGE if len(above) > 1 else list(_SECTIONS.get(section, ()))
    home = next((name for name, keys in _SECTIONS.items() if word in keys), None)
    close = did_you_mean(word, known, cutoff=0.6 if home is None else 0.9)
    if home is not None:
        where = f"under {home}" if home else "at the top level"
        return f"unknown key here{close}; {word} belongs {where}" if close else f"unknown key here: it belongs {where}"
    if close:
        return f"unknown key{close}"
    return f"unknown key; known keys: {', '.join(known)}"
