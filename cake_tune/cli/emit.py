"""``cake-tune emit``: write a run's table, as JSON or as code, or prove that a committed one is what the run gives."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cake_tune.cli.arguments import chosen
from cake_tune.cli.opened_run import opened_run, tell_partial
from cake_tune.errors import UsageError

if TYPE_CHECKING:
    from cake_tune.planner.table import PlannerTable


def emit(
    run: Annotated[
        Path | None,
        typer.Argument(metavar="RUN", help="A run directory, such as results/<device>/<sweep>.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write. [default: RUN/table.json, RUN/planner.py; stdout with --table]"
        ),
    ] = None,
    form: Annotated[
        str,
        typer.Option(
            "--format",
            metavar="json|python",
            help="json: the table. python: a planner module that needs nothing else.",
        ),
    ] = "json",
    table: Annotated[
        Path | None,
        typer.Option("--table", metavar="FILE", help="Instead of RUN, a table file to write as --format python."),
    ] = None,
    install: Annotated[
        bool,
        typer.Option("--install", help="Also make it this user's table for the device and backend."),
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit 4 unless the file is what RUN, or FILE, gives.")
    ] = False,
) -> None:
    """Write the planner table that a run's journal gives, or a planner module with its rules and their evidence."""
    form = chosen("--format", form, ("json", "python"))
    if (run is None) == (table is None):
        raise UsageError("RUN, --table: expected one of them")
    if install and (check or form == "python"):
        raise UsageError("--install: expected without --check and --format python, which install nothing")
    if table is not None:
        _emit_file(table, output, form, check=check)
    elif run is not None:
        _emit_run(run, output, form, install=install, check=check)


def _emit_file(table: Path, output: Path | None, form: str, *, check: bool) -> None:
    from cake_tune.export import check_module, planner_source
    from cake_tune.planner.table import load_table

    if form != "python":
        raise UsageError("--table: expected with --format python: the file is a table already")
    if check and output is None:
        raise UsageError("--check: expected with --output, the module to check against the table")
    loaded = load_table(table)
    if output is None:
        typer.echo(planner_source(loaded), nl=False)
    elif check:
        check_module(loaded, output)
        typer.echo(f"{output}: is what {table} gives")
    else:
        _write_module(loaded, output)


def _emit_run(run: Path, output: Path | None, form: str, *, install: bool, check: bool) -> None:
    from cake_tune.fit import check_table, table_of_run
    from cake_tune.planner.registry import install_table
    from cake_tune.planner.table import save_table
    from cake_tune.report.findings import spec_points
    from cake_tune.report.notes import Notes

    with opened_run(run) as directory:
        path = output or (directory.table if form == "json" else directory.path / "planner.py")
        if check and form == "json":
            check_table(directory, path)
            typer.echo(f"{path}: is what {directory.journal} gives")
        elif check:
            check_table(directory, directory.table)
            _emit_file(directory.table, path, form, check=True)
        else:
            notes, info = Notes(), directory.read_info()
            table = table_of_run(directory, notes)
            if form == "python":
                _write_module(table, path)
            else:
                save_table(table, path)
                typer.echo(f"{path}: {_words(table)}")
            if install:
                kernels = " with FlashInfer's kernels" if table.backend == "flashinfer" else ""
                typer.echo(f"{install_table(table)}: now answers for {table.device.name}{kernels}")
            tell_partial(run, info, spec_points(info, notes.shapes))


def _write_module(table: "PlannerTable", path: Path) -> None:
    from cake_tune._files import whole_file
    from cake_tune.export import planner_source

    with whole_file(path) as file:
        file.write(planner_source(table))
    typer.echo(f"{path}: planner module of {_words(table)}")


def _words(table: "PlannerTable") -> str:
    from cake_tune.sweep.words import counted

    return f"{table.label}, {counted(len(table.exceptions), 'exception')}"
