"""Arguments that several commands share."""

import os
from pathlib import Path
from typing import Annotated

import typer

from cake_tune.errors import UsageError

RunArgument = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="A run directory, such as results/<device>/<sweep>.", show_default=False),
]


def check_writable(option: str, directory: Path) -> None:
    """``UsageError`` where files could not be written into ``directory``: before the work, rather than after it."""
    there = next(place for place in (directory, *directory.absolute().parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise UsageError(f"{option}: expected a directory that can be written, got {directory}")
