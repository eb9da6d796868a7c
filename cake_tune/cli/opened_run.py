"""A run directory as the commands open it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from cake_tune.journal.run import RunDirectory
    from cake_tune.journal.run_info import RunInfo


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


def tell_partial(path: Path, info: "RunInfo", points: tuple[int, int] | None) -> None:
    """Say on stderr that the sweep behind the run at ``path`` is partial, where it is.

    ``points``: how many of its spec's points have a record, and how many it lists (None: not known). An adaptive search
    that has ended leaves points out, and says by itself how many.
    """
    if points is None or points[0] >= points[1] or info.search_ended:
        return
    typer.echo(
        f"{path}: the {'search' if info.search else 'sweep'} is partial: {points[0]} of the {points[1]} points of "
        f"{info.spec_path} have records; the same sweep command "
        f"{'goes on with it' if info.search else 'measures the rest'}",
        err=True,
    )
