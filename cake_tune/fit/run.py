"""Fit a run's directory: the table its journal gives, and the proof that a committed table is that one."""

from itertools import zip_longest
from pathlib import Path

from cake_tune.errors import JournalError, TableError, WrongResultError
from cake_tune.fit.table import build_table
from cake_tune.journal.run import RunDirectory
from cake_tune.planner.table import PlannerTable, load_table, table_text


def table_of_run(run: RunDirectory) -> PlannerTable:
    """The table that the journal of ``run`` gives, fitted from the table that was in force (``in-force.json``).

    Both lie in the run, so that it gives the same table on every machine. ``UndecidedError`` when the journal holds no
    usable time, ``TableError`` without the table in force.
    """
    info, in_force = run.read_info(), load_table(run.in_force)
    return build_table(run.read_records(), info, in_force)


def check_table(run: RunDirectory, path: Path) -> None:
    """Raise ``WrongResultError``, naming the first line that differs, unless ``path`` is what the journal gives.

    A damaged journal proves nothing: ``JournalError``.
    """
    load_table(path)
    try:
        held = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise TableError(f"{path}: cannot be read: {error.strerror or error}") from error
    given = table_text(table_of_run(run)).splitlines()
    if run.messages:
        raise JournalError(f"{run.messages[0]}; a damaged journal proves nothing about {path}")
    for number, (there, here) in enumerate(zip_longest(held, given), start=1):
        if there != here:
            raise WrongResultError(
                f"{path}:{number}: expected what {run.journal} gives, {_shown(here)}, got {_shown(there)}"
            )


def _shown(line: str | None) -> str:
    return "the end of the file" if line is None else repr(line.strip())
