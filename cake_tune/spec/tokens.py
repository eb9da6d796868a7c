"""The words and symbols of a constraint, each with its place in the text."""

import re
from typing import Literal, NamedTuple

from cake_tune.spec.problems import quoted

_TOKEN = re.compile(r"\s*(?:(?P<number>\d+)|(?P<word>[A-Za-z_]\w*)|(?P<symbol>//|[<>=!]=|[-+*/%<>()\[\],]))", re.ASCII)


class ConstraintError(ValueError):
    """A constraint that cannot be read or evaluated, with the ``offset`` of the character it is about."""

    def __init__(self, message: str, offset: int):
        super().__init__(message)
        self.offset = offset


class Token(NamedTuple):
    """One of them; the last token of a text is its end, or "unreadable" with what to say about the character."""

    kind: Literal["number", "word", "symbol", "end", "unreadable"]
    text: str
    offset: int


def tokens(text: str) -> list[Token]:
    """The tokens of a text, up to its end or to a character that starts none."""
    found: list[Token] = []
    end = len(text.rstrip())
    place = 0
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None:
            offset = place + len(text[place:]) - len(text[place:].lstrip())
            message = f"cannot read {quoted(text[offset])}{_spelling(text[offset:])}"
            return [*found, Token("unreadable", message, offset)]
        kind: Literal["number", "word", "symbol"] = (
            "number" if match["number"] else "word" if match["word"] else "symbol"
        )
        found.append(Token(kind, match[kind], match.start(kind)))
        place = match.end()
    found.append(Token("end", "", end))
    return found


def _spelling(rest: str) -> str:
    for wrong, right in (("&", "and"), ("|", "or"), ("!", "not"), ("=", "==")):
        if rest.startswith(wrong):
            return f": write {right}"
    return ""
