"""Fit a run's directory: the table its journal gives, and the proof that a committed table is that one."""

from concurrent.futures import Executor
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

from cake_tune.errors import JournalError, TableError, WrongResultError
from cake_tune.fit.collect import Collector
from cake_tune.fit.samples import Samples
from cake_tune.fit.table import table_of_samples
from cake_tune.journal.fill import Taker, fill
from cake_tune.journal.run import RunDirectory, RunInfo
from cake_tune.journal.second import second_process
from cake_tune.planner.table import PlannerTable, load_table, table_text


def table_of_run(run: RunDirectory, *others: Taker) -> PlannerTable:
    """The table that the journal of ``run`` gives, fitted from the table that was in force (``in-force.json``).

    Both lie in the run, so that it gives the same table on every machine. ``others`` are shown the records on the way.
    ``UndecidedError`` when the journal holds no usable time, ``TableError`` without the table in force.
    """
    info, in_force = run.read_info(), load_table(run.in_force)
    with second_process(run) as second:
        return table_of_samples(samples_of_run(run, info, *others, second=second), info, in_force, second)


def samples_of_run(run: RunDirectory, info: RunInfo, *others: Taker, second: Executor | None = None) -> Samples:
    """The samples of the run's journal; ``others`` are shown its records on the way, whether they can be used or not.

    The process ``second``, if there is one, shares the work. ``UndecidedError`` when no record holds a usable time.
    """
    collector = Collector()
    fill(run, [collector, *others], second)
    return replace(collector.samples(), workload=tuple(sorted(info.weights.items())))


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
