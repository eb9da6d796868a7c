"""Strict JSON for frozen dataclasses: unknown keys, missing keys and wrong types are errors that name their path.

Two readings keep the files small: a ``Share`` is written ``"n/d"``, and a field is left out when it holds its default
and that default is empty (None, zero, an empty text or list).
"""

import json
import re
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from cake_tune.errors import TableError
from cake_tune.planner.rules import Share

T = TypeVar("T")

MAX_NUMBER = 1e300
"""Larger numbers, infinity among them, mean nothing in a table."""


def to_json(value: Any) -> Any:
    """JSON value of a dataclass, its keys in field order."""
    if isinstance(value, Share):
        return str(value)
    if is_dataclass(value):
        held = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: to_json(item) for field, item in held if item or item != field.default}
    if isinstance(value, tuple):
        return [to_json(item) for item in value]
    return value


def from_json(kind: type[T], value: object, path: str = "$") -> T:
    """The ``kind`` that ``value`` holds; ``TableError`` names the JSON path of what does not fit."""
    read: T = _read(kind, value, path)
    return read


def parse_json(text: str) -> object:
    """Parse JSON text; repeated keys and non-finite numbers are refused."""
    try:
        value: object = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise TableError(f"line {error.lineno}, column {error.colno}: not JSON: {error.msg}") from None
    except RecursionError:
        raise TableError("not a table: nested too deeply") from None
    return value


def render_json(value: Any, indent: str = "") -> str:
    """JSON text with one key of an object, and one object of a list, per line."""
    inner = indent + "  "
    if isinstance(value, dict) and value:
        lines = [f"{inner}{json.dumps(key)}: {render_json(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        lines = [inner + json.dumps(item, ensure_ascii=False, allow_nan=False) for item in value]
        return "[\n" + ",\n".join(lines) + f"\n{indent}]"
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _read(kind: Any, value: object, path: str) -> Any:
    origin = get_origin(kind)
    if kind is Share:
        return _read_share(value, path)
    if is_dataclass(kind):
        return _read_dataclass(kind, value, path)
    if origin is tuple:
        return _read_tuple(get_args(kind), value, path)
    if origin is UnionType:
        # Only "something or None" occurs.
        (inner,) = (choice for choice in get_args(kind) if choice is not NoneType)
        return None if value is None else _read(inner, value, path)
    if origin is Literal:
        choices = get_args(kind)
        return value if value in choices else _refuse(path, "one of " + ", ".join(map(json.dumps, choices)), value)
    if kind is float:
        # A bool is no number here, and an int may be too large for one.
        if type(value) not in (int, float) or not abs(value) <= MAX_NUMBER:  # type: ignore[arg-type]
            _refuse(path, "a number", value)
        return float(value)  # type: ignore[arg-type]
    # type(), not isinstance: True is an int to Python, but not to a table.
    return value if type(value) is kind else _refuse(path, _KINDS[kind], value)


def _read_dataclass(kind: Any, value: object, path: str) -> Any:
    if not isinstance(value, dict):
        _refuse(path, "an object", value)
    known, hints = _known_fields(kind)
    for key in value:
        if key not in known:
            raise TableError(f"{path}.{key}: unknown key; expected one of {', '.join(known)}")
    for name, field in known.items():
        if name not in value and field.default is MISSING:
            raise TableError(f"{path}.{name}: missing")
    read = {key: _read(hints[key], item, f"{path}.{key}") for key, item in value.items()}
    try:
        return kind(**read)
    except TableError as error:
        raise TableError(f"{path}: {error}") from None


def _read_tuple(kinds: tuple[Any, ...], value: object, path: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        _refuse(path, "a list", value)
    if kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(value)
    elif len(kinds) != len(value):
        _refuse(path, f"a list of {len(kinds)}", value)
    return tuple(_read(kind, item, f"{path}[{i}]") for i, (kind, item) in enumerate(zip(kinds, value, strict=True)))


def _read_share(value: object, path: str) -> Share:
    match = re.fullmatch(r"([0-9]{1,9})/([0-9]{1,9})", value) if isinstance(value, str) else None
    if match is None or int(match[2]) == 0:
        _refuse(path, 'a share of num_sms such as "2/3"', value)
    return Share(int(match[1]), int(match[2]))


_KINDS = {int: "an integer", float: "a number", str: "a text"}


@cache
def _known_fields(kind: type) -> tuple[dict[str, Field[Any]], dict[str, Any]]:
    return {field.name: field for field in fields(kind)}, get_type_hints(kind)


def _refuse(path: str, expected: str, value: object) -> NoReturn:
    shown = json.dumps(value, default=str)
    raise TableError(f"{path}: expected {expected}, got {shown if len(shown) <= 60 else shown[:57] + '...'}")


def _refuse_constant(name: str) -> NoReturn:
    raise TableError(f"not JSON: {name} is not a number")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) != len(pairs):
        keys = [key for key, _ in pairs]
        raise TableError(f"repeated key {next(key for key in keys if keys.count(key) > 1)!r}")
    return read
