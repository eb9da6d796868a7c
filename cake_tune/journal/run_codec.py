"""``run.json`` as JSON values and back; what does not fit is named, with what was expected and what came."""

import math
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any, TypeVar

from cake_tune.errors import JournalError
from cake_tune.journal.run_info import RunInfo
from cake_tune.planner.shape import Device
from cake_tune.planner.table import KernelIdentity

VERSION = 1
"""Version of ``run.json``; a reader refuses every other one."""

OPTIONAL = frozenset({"search", "weights"})
"""Fields that are left out of the file where they are empty."""

MOST_SHOWN = 60
"""Characters of a value in a message."""

T = TypeVar("T")


def info_to_json(info: RunInfo) -> dict[str, Any]:
    """``info`` as a JSON object."""
    held = {"version": VERSION, **asdict(info)}
    return {name: value for name, value in held.items() if value or name not in OPTIONAL}


def info_from_json(value: object) -> RunInfo:
    """The provenance that a JSON value holds; ``JournalError`` names the first field that does not fit."""
    given = _mapping("run", value)
    version = given.pop("version", None)
    if version != VERSION:
        raise JournalError(f"version: expected {VERSION}, got {_shown(version)}")
    checked = {name: check(name, given[name]) for name, check in _CHECKS.items() if name in given}
    return _made(RunInfo, "", given | checked)


def _made(kind: Callable[..., T], path: str, given: dict[str, Any]) -> T:
    """An object of a dataclass with exactly the fields given."""
    known = {field.name for field in fields(kind)}  # type: ignore[arg-type]
    if unknown := sorted(given.keys() - known):
        raise JournalError(f"{path}{unknown[0]}: unknown field; known ones: {', '.join(sorted(known))}")
    if missing := sorted(known - OPTIONAL - given.keys()):
        raise JournalError(f"{path}{missing[0]}: expected a value, found none")
    return kind(**given)


def _shown(value: object) -> str:
    """``value`` as a message shows it: its beginning, where it is long."""
    text = repr(value)
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + "..."


def _mapping(path: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise JournalError(f"{path}: expected an object with string keys, got {_shown(value)}")
    return dict(value)


def _text(path: str, value: object) -> str:
    if not isinstance(value, str):
        raise JournalError(f"{path}: expected a string, got {_shown(value)}")
    return value


def _count(path: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise JournalError(f"{path}: expected an integer >= 0, got {_shown(value)}")
    return value


def _band(path: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1:
        raise JournalError(f"{path}: expected a fraction or null, got {_shown(value)}")
    return float(value)


def _device(path: str, value: object) -> Device:
    given = _mapping(path, value)
    for name, check in (("name", _text), ("arch", _text), ("num_sms", _count), ("l2_bytes", _count)):
        if name in given:
            check(f"{path}.{name}", given[name])
    return _made(Device, f"{path}.", given)


def _kernel(path: str, value: object) -> KernelIdentity:
    given = {name: _text(f"{path}.{name}", item) for name, item in _mapping(path, value).items()}
    return _made(KernelIdentity, f"{path}.", given)


def _protocol(path: str, value: object) -> dict[str, float | int | str]:
    given = _mapping(path, value)
    for name, item in given.items():
        if isinstance(item, bool) or not isinstance(item, str | int | float) or not _finite(item):
            raise JournalError(f"{path}.{name}: expected a number or a string, got {_shown(item)}")
    return given


def _finite(item: str | float) -> bool:
    return isinstance(item, str) or math.isfinite(item)


def _host(path: str, value: object) -> dict[str, str]:
    return {name: _text(f"{path}.{name}", item) for name, item in _mapping(path, value).items()}


def _weights(path: str, value: object) -> dict[int, float]:
    given = {}
    for name, weight in _mapping(path, value).items():
        if not name.isascii() or not name.isdecimal():
            raise JournalError(f"{path}: expected num_tokens as keys, got {name!r}")
        if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight < math.inf:
            raise JournalError(f"{path}.{name}: expected a finite number >= 0, got {_shown(weight)}")
        given[int(name)] = float(weight)
    return given


def _search(path: str, value: object) -> dict[str, float]:
    given = _mapping(path, value)
    for name, number in given.items():
        if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < math.inf:
            raise JournalError(f"{path}.{name}: expected a finite number >= 0, got {_shown(number)}")
    return given


_CHECKS: dict[str, Callable[[str, object], object]] = {
    "device": _device,
    "kernel": _kernel,
    "backend": _text,
    "sweep": _text,
    "spec_text": _text,
    "spec_path": _text,
    "protocol": _protocol,
    "tie_band": _band,
    "tool_version": _text,
    "started": _text,
    "host": _host,
    "in_force": _text,
    "weights": _weights,
    "search": _search,
}
