"""Records as JSON text and back: one compact object per point, stable key order, NaN written as null."""

import json
import math
from functools import lru_cache
from typing import Any, cast, get_args

import orjson

from cake_tune.errors import JournalError
from cake_tune.journal.record import PlanRow, PointRecord, Status
from cake_tune.planner.shape import Kernel, Plan, Shape

VERSION = 1
"""Version of the journal's lines; a reader refuses every other one."""

OPTIONAL = {"gpu": str, "audits": str, "twins": bool}
"""Fields of a record, with their types, that are left out of its line where they hold their default."""

OPTIONAL_VISITS = ("visit_means", "visit_mads", "confirm_means", "confirm_mads")
"""The same of a row: one number or null per visit."""


def record_to_json(record: PointRecord) -> str:
    """``record`` as one line of compact JSON (ASCII, no line break); a time that is not finite becomes null."""
    fields = {
        "v": VERSION,
        "key": record.key,
        "shape": _shape_to_json(record.shape),
        "status": record.status,
        "best": _plan_to_json(record.best),
        "tied": [_plan_to_json(plan) for plan in record.tied],
        "incumbent": _plan_to_json(record.incumbent),
        "tie_band": record.tie_band,
        "rounds": record.rounds,
        "regime": record.regime,
        "started": record.started,
        "seconds": record.seconds,
        "error": record.error,
        "audit": {name: _finite(value) for name, value in record.audit.items()},
        **{name: value for name in OPTIONAL if (value := getattr(record, name))},
        "rows": [_row_to_json(row) for row in record.rows],
    }
    return json.dumps(fields, separators=(",", ":"), allow_nan=False)


def record_from_json(text: str) -> PointRecord:
    """The record that ``text`` holds; ``JournalError`` says what does not fit (JSON, version, fields)."""
    try:
        fields = _parsed(text)
        if fields["v"] != VERSION:
            raise JournalError(
                f"journal line: expected version {VERSION}, got {fields['v']!r}: "
                "another version of cake-tune wrote it; read it with that one, or move the file away"
            )
        return PointRecord(
            key=fields["key"],
            shape=Shape(**fields["shape"]),
            status=_status(fields["status"]),
            rows=tuple(_row_from_json(row) for row in fields["rows"]),
            best=_plan_from_json(fields["best"]),
            tied=tuple(_plan(plan) for plan in fields["tied"]),
            incumbent=_plan_from_json(fields["incumbent"]),
            tie_band=fields["tie_band"],
            rounds=fields["rounds"],
            regime=fields["regime"],
            started=fields["started"],
            seconds=fields["seconds"],
            error=fields["error"],
            audit={name: math.nan if value is None else value for name, value in fields["audit"].items()},
            **{name: _optional(name, kind, fields[name]) for name, kind in OPTIONAL.items() if name in fields},
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, JournalError):
            raise
        raise JournalError(f"journal line: expected one point record, got {text[:80]!r} ({error!r})") from error


def _parsed(text: str) -> Any:
    """``text`` by the parser that takes a quarter of the time; what that one refuses, by the one that knows it all."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text)


def _finite(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else value


_STATUSES: tuple[Status, ...] = get_args(Status)


def _status(value: Any) -> Status:
    if value not in _STATUSES:
        raise JournalError(f"status: expected one of {', '.join(_STATUSES)}, got {value!r}")
    return cast(Status, value)


def _optional(name: str, kind: type, value: Any) -> Any:
    if type(value) is not kind:
        raise JournalError(f"{name}: expected a value of type {kind.__name__}, got {value!r}")
    return value


def _shape_to_json(shape: Shape) -> dict[str, Any]:
    return {name: getattr(shape, name) for name in Shape.__dataclass_fields__}


def _plan_to_json(plan: Plan | None) -> dict[str, Any] | None:
    if plan is None:
        return None
    fields: dict[str, Any] = {
        "kernel": plan.kernel,
        "head_tiles": plan.head_tiles,
        "num_splits": plan.num_splits,
        "chunks_per_block": plan.chunks_per_block,
    }
    return fields | ({"options": dict(plan.options)} if plan.options else {})


def _plan_from_json(fields: dict[str, Any] | None) -> Plan | None:
    return None if fields is None else _plan(fields)


def _plan(fields: dict[str, Any]) -> Plan:
    options = fields.get("options")
    named = tuple(sorted(options.items())) if options else ()
    return _known_plan(fields["kernel"], fields["head_tiles"], fields["num_splits"], fields["chunks_per_block"], named)


@lru_cache(maxsize=4096)
def _known_plan(
    kernel: Kernel, head_tiles: int, num_splits: int, chunks_per_block: int, options: tuple[tuple[str, str], ...]
) -> Plan:
    """One object for each plan: a journal names a few hundred of them a million times."""
    return Plan(kernel, head_tiles, num_splits, chunks_per_block, options)


def _row_to_json(row: PlanRow) -> dict[str, Any]:
    return {
        "plan": _plan_to_json(row.plan),
        "status": row.status,
        "median_us": _finite(row.median_us),
        "spread": _finite(row.spread),
        "visits": [_finite(visit) for visit in row.visits],
        "confirm": [_finite(visit) for visit in row.confirm],
        "relative_error": _finite(row.relative_error),
        "error": row.error,
        **{name: [_finite(each) for each in given] for name in OPTIONAL_VISITS if (given := getattr(row, name))},
    }


def _row_from_json(fields: dict[str, Any]) -> PlanRow:
    return PlanRow(
        _plan(fields["plan"]),
        _status(fields["status"]),
        fields["median_us"],
        fields["spread"],
        tuple(fields["visits"]),
        tuple(fields["confirm"]),
        fields["error"],
        fields.get("relative_error"),
        **{name: tuple(fields[name]) for name in OPTIONAL_VISITS if name in fields},
    )
