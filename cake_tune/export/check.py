"""The proof that a committed planner module is what its table gives."""

from itertools import zip_longest
from pathlib import Path

from cake_tune.errors import UsageError, WrongResultError
from cake_tune.export.python_planner import planner_source
from cake_tune.planner.table import PlannerTable


def check_module(table: PlannerTable, path: Path) -> None:
    """Raise ``WrongResultError``, naming the first line that differs, unless ``path`` holds the module of ``table``.

    ``UsageError`` for a file that cannot be read.
    """
    try:
        held = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error
    for number, (there, here) in enumerate(zip_longest(held, planner_source(table).splitlines()), start=1):
        if there != here:
            raise WrongResultError(f"{path}:{number}: expected {_shown(here)}, got {_shown(there)}")


def _shown(line: str | None) -> str:
    return "the end of the file" if line is None else repr(line.strip())
