"""The tree of a spec: values that know their place in the file."""

from dataclasses import dataclass
from typing import cast

from cake_tune.spec.problems import KeyPath, Position, Problem
from cake_tune.spec.scalars import Scalar


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place: a scalar, a list of nodes, or a mapping of nodes.

    ``key`` is the place of the key that holds the value; ``source`` the text of a string as written in the file.
    """

    value: "Scalar | list[Node] | dict[str, Node]"
    start: Position
    key: Position | None = None
    source: str = ""


def plain(node: Node) -> object:
    """The tree as ordinary lists, dicts and scalars."""
    if isinstance(node.value, dict):
        return {key: plain(child) for key, child in node.value.items()}
    if isinstance(node.value, list):
        return [plain(child) for child in node.value]
    return node.value


def known_path(root: Node, path: KeyPath) -> KeyPath:
    """The longest part of ``path`` that is in the document, stepping over what is not (a validator's own labels)."""
    known: list[str | int] = []
    node = root
    for step in path:
        child: Node | None = None
        if isinstance(node.value, dict) and isinstance(step, str):
            child = node.value.get(step)
        elif isinstance(node.value, list) and isinstance(step, int) and step < len(node.value):
            child = node.value[step]
        if child is not None:
            known.append(step)
            node = child
    return tuple(known)


def place(root: Node, problem: Problem) -> Position:
    """Where in the file a problem is; a path that is not in the document counts as the closest place above it."""
    node = root
    for step in known_path(root, problem.path):
        node = cast("Node", node.value[step])  # type: ignore[index]
    if problem.position is not None:
        return problem.position
    if problem.offset is not None:
        return inside(node, problem.offset)
    return node.key or node.start if problem.at_key else node.start


def inside(node: Node, offset: int) -> Position:
    """The place of character ``offset`` of a string's value.

    Folding and indentation change only white space, so the other characters of value and source match one by one;
    where they do not (escapes), the place is that of the string.
    """
    if not isinstance(node.value, str):
        return node.start
    source, skipped = node.source, 0
    if source[:1] in ("|", ">"):
        skipped = source.find("\n") + 1
    elif source[:1] in ("'", '"'):
        source, skipped = source[:-1], 1
    inked = [place for place in range(skipped, len(source)) if not source[place].isspace()]
    if [source[place] for place in inked] != [char for char in node.value if not char.isspace()]:
        return node.start
    wanted = sum(not char.isspace() for char in node.value[:offset])
    if not inked:
        return node.start
    place = inked[wanted] if wanted < len(inked) else inked[-1] + 1
    line, column = end_of(source[:place])
    return Position(node.start.line + line - 1, column if line > 1 else node.start.column + column - 1)


def end_of(text: str) -> Position:
    """The place just after a text that starts a file."""
    return Position(text.count("\n") + 1, len(text) - (text.rfind("\n") + 1) + 1)
