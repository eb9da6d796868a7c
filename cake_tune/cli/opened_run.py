"""A run directory as the commands open it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from cake_tune.journal.run import RunDirectory


@contextmanager
def opened_run(path: Path) -> Iterator["RunDirectory"]:
    """The run at ``path``; in the end, what its journal lost is told on stderr, whether or not the command succeeds."""
    from cake_tune.journal.run import RunDirectory

    run = RunDirectory(path)
    try:
        yield run
    finally:
        for text in run.messages:
            typer.echo(f"warning: {text}", err=True)
