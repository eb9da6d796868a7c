"""``cake-tune emit``: write the planner table of a run, or prove that a committed one is what its journal gives."""

from pathlib import Path
from typing import Annotated

import typer

from cake_tune.cli.arguments import RunArgument
from cake_tune.cli.opened_run import opened_run
from cake_tune.errors import UsageError


def emit(
    run: RunArgument,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Table file. [default: RUN/table.json]")] = None,
    install: Annotated[bool, typer.Option("--install", help="Also make it this user's table for the device.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 4 unless the table is the journal's.")
    ] = False,
) -> None:
    """Write the planner table that a run's journal gives."""
    from cake_tune.fit import check_table, table_of_run
    from cake_tune.planner.registry import install_table
    from cake_tune.planner.table import save_table
    from cake_tune.sweep.words import counted

    if check and install:
        raise UsageError("--install: expected without --check, which writes nothing")
    with opened_run(run) as directory:
        path = output or directory.table
        if check:
            check_table(directory, path)
            typer.echo(f"{path}: is what {directory.journal} gives")
            return
        table = table_of_run(directory)
        save_table(table, path)
        typer.echo(f"{path}: {table.label}, {counted(len(table.exceptions), 'exception')}")
        if install:
            typer.echo(f"{install_table(table)}: now answers for {table.device.name}")
