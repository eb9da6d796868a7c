"""Arguments that several commands share."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from cake_tune.errors import UsageError

Word = TypeVar("Word", bound=str)

MOST_DIGITS = 19
"""Longer numbers count nothing."""

RunArgument = Annotated[
    Path,
    typer.Argument(metavar="RUN", help="A run directory, such as results/<device>/<sweep>.", show_default=False),
]


def check_writable(option: str, directory: Path) -> None:
    """``UsageError`` where files could not be written into ``directory``: before the work, rather than after it."""
    there = next(place for place in (directory, *directory.absolute().parents) if place.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise UsageError(f"{option}: expected a directory that can be written, got {directory}")


def check_file(option: str, path: Path) -> None:
    """``UsageError`` where the file ``path`` could not be written, whose directory is not made: before the work."""
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise UsageError(f"{option}: expected a file in a directory that can be written, got {path}")


def chosen(option: str, given: str, words: Sequence[Word], hint: str = "") -> Word:
    """The one of ``words`` that ``given`` is; ``UsageError`` lists them and says which was probably meant.

    ``hint`` takes the place of that guess.
    """
    for word in words:
        if word == given:
            return word
    from cake_tune.spec.problems import did_you_mean

    expected = f"{', '.join(words[:-1])} or {words[-1]}"
    raise UsageError(f"{option}: expected {expected}, got {given!r}{hint or did_you_mean(given, words)}")


def listed(option: str, given: Iterable[str]) -> list[str]:
    """The values of an option that may be repeated, and each time hold several with commas between them."""
    values = [value.strip() for text in given for value in text.split(",")]
    if "" in values:
        raise UsageError(f"{option}: expected values with commas between them, got {','.join(given)!r}")
    return values


def listed_integers(option: str, given: Iterable[str]) -> list[int]:
    """The integers of such an option."""
    values = listed(option, given)
    for value in values:
        if not (value.isascii() and value.removeprefix("-").isdecimal() and len(value) < MOST_DIGITS):
            raise UsageError(f"{option}: expected integers, with commas between them or repeated, got {value!r}")
    return [int(value) for value in values]
