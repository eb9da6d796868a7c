"""What is wrong with a spec, and where: problems are collected, placed in the file, and raised as one error."""

import difflib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from cake_tune.errors import SpecError

KeyPath = tuple[str | int, ...]
"""Keys and list indices from the root of the document to a value."""

MOST_SHOWN = 100
"""Problems spelled out in one message; the rest is counted."""


class Position(NamedTuple):
    """A place in the file; lines and columns count from 1, columns in characters."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong at ``path``.

    ``position`` is set where it is known at once; otherwise it follows from the path: the place of the value, or of
    its key (``at_key``), or of character ``offset`` of its text (a constraint).
    """

    message: str
    path: KeyPath = ()
    position: Position | None = None
    offset: int | None = None
    at_key: bool = False


class Problems(Exception):  # noqa: N818 - it carries several errors to the place that knows the file's name
    """Problems that leave nothing to go on with."""

    def __init__(self, problems: Iterable[Problem]):
        super().__init__()
        self.problems = tuple(problems)


def spec_error(name: str, problems: Iterable[Problem]) -> SpecError:
    """One ``SpecError`` with a line ``file:line:column: path: message`` per problem, in the order of the file."""
    lines = {_line(name, problem): None for problem in sorted(problems, key=lambda problem: problem.position or (1, 1))}
    shown = list(lines)[:MOST_SHOWN]
    if len(lines) > MOST_SHOWN:
        shown.append(f"{name}: and {len(lines) - MOST_SHOWN} more problems")
    return SpecError("\n".join(shown))


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """`` (did you mean "…"?)`` with the known word closest to ``word``, or nothing where none is close."""
    close = difflib.get_close_matches(word[:80].lower(), list(known), n=1, cutoff=cutoff)
    return f" (did you mean {quoted(close[0])}?)" if close else ""


def quoted(text: str) -> str:
    """The text in double quotes, shortened to fit a message, with escapes for what cannot be printed."""
    short = json.dumps(text if len(text) <= 60 else text[:57] + "...", ensure_ascii=False)
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in short)


def path_text(path: KeyPath) -> str:
    """A path as it reads in a message: ``shapes.num_tokens[2]``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            word = step if re.fullmatch(r"[\w-]{1,60}", step, re.ASCII) else quoted(step)
            text += f".{word}" if text else word
    return text


def _line(name: str, problem: Problem) -> str:
    line, column = problem.position or (1, 1)
    path = f"{path_text(problem.path)}: " if problem.path else ""
    return f"{name}:{line}:{column}: {path}{problem.message}"
