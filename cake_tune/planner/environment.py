"""The table that ``CAKE_TUNE_TABLE`` names, without asking the system on every look-up."""

import os
from functools import lru_cache
from time import monotonic

from cake_tune.errors import TableError
from cake_tune.planner.table import PlannerTable, load_table

ENVIRONMENT = "CAKE_TUNE_TABLE"

LOOK_SECONDS = 0.5
"""How long an answer holds: reading the variable and the file's date costs more than a look-up in the table."""


class _Known:
    """What the last look found."""

    table: PlannerTable | None = None
    until = 0.0


def environment_table() -> PlannerTable | None:
    """The table at the path in ``CAKE_TUNE_TABLE``; None where that is unset or empty.

    A changed variable, or a changed file, is seen within half a second. ``TableError`` at every call, never another
    table, while the file cannot be read.
    """
    now = monotonic()
    if now >= _Known.until:
        _Known.table = _look()
        _Known.until = now + LOOK_SECONDS
    return _Known.table


def forget_environment() -> None:
    """Look at the variable and its file at the next call."""
    _Known.until = 0.0


def _look() -> PlannerTable | None:
    path = os.environ.get(ENVIRONMENT)
    if not path:
        return None
    try:
        stat = os.stat(path)  # noqa: PTH116  (a Path costs more than the call)
        return _table_at(path, stat.st_mtime_ns, stat.st_size)
    except OSError as error:
        raise TableError(f"{ENVIRONMENT}: {path}: cannot be read: {error.strerror or error}") from error
    except TableError as error:
        raise TableError(f"{ENVIRONMENT}: {error}") from error


@lru_cache(maxsize=8)
def _table_at(path: str, mtime_ns: int, size: int) -> PlannerTable:
    return load_table(path)
