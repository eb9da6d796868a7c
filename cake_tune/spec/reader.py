"""YAML text → tree.

A spec is one plain document. What would let it mean more than it shows is refused: anchors, aliases and merge keys (so
no expansion can blow up), tags, directives, second documents, duplicate keys, keys that are not strings.
"""

from typing import Any

import yaml

from cake_tune.spec.problems import KeyPath, Position, Problem, Problems, quoted
from cake_tune.spec.scalars import Scalar, resolve_scalar
from cake_tune.spec.tree import Node, end_of

MAX_BYTES = 256 * 1024
"""Largest spec read: far above any real one, and small enough to parse in a second or two."""

MAX_DEPTH = 16
"""Deepest nesting of lists and mappings; the format itself needs 4."""


def decode(data: bytes) -> str:
    """The text of a spec file, without byte-order mark and with line feeds as line ends; raises ``Problems``."""
    if len(data) > MAX_BYTES:
        raise Problems([Problem(f"the file is too large: expected at most {MAX_BYTES // 1024} KiB")])
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Problems([Problem("the file is not UTF-8: it starts with the byte-order mark of UTF-16 or UTF-32")])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", "replace")
        message = f"the file is not UTF-8: byte 0x{data[error.start]:02x} cannot be decoded"
        raise Problems([Problem(message, position=end_of(before))]) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_tree(text: str, what: str = "spec") -> tuple[Node, list[Problem]]:
    """The document's tree, with the problems that still leave a tree; raises ``Problems`` where there is none.

    ``what`` is what messages call the document.
    """
    problems: list[Problem] = []
    try:
        return _Reader(text, problems, what).document(), problems
    except yaml.YAMLError as error:
        raise Problems([*problems, _syntax_problem(error, text)]) from None


class _Reader:
    """Builds the tree from PyYAML's events, which come one by one: deep nesting stops before it costs anything."""

    def __init__(self, text: str, problems: list[Problem], what: str):
        self.text = text
        self.what = what
        self.problems = problems
        self.loader = yaml.SafeLoader(text)  # checks the characters; raises at the first that YAML forbids

    def next(self) -> Any:
        """The next event; PyYAML converts an escape of a character beyond Unicode unchecked."""
        try:
            event: Any = self.loader.get_event()  # type: ignore[no-untyped-call]
        except (ValueError, OverflowError):
            message = "not valid YAML: an escape or a number is out of range"
            raise Problems([*self.problems, Problem(message, position=_position(self.loader.get_mark()))]) from None
        return event

    def document(self) -> Node:
        self.next()  # the start of the stream
        start = self.next()
        if not isinstance(start, yaml.DocumentStartEvent):
            raise Problems([Problem(f"the file is empty: a {self.what} starts with version: 1")])
        if start.version or start.tags:
            self.report(f"directives are not used in {self.what}s: remove this line", start)
        root = self.node(self.next(), ())
        self.next()  # the end of the document
        following = self.next()
        if not isinstance(following, yaml.StreamEndEvent):
            self.report(f"a second document starts here: expected one {self.what} per file", following)
        return root

    def node(self, event: Any, path: KeyPath, key: Position | None = None) -> Node:
        start = _position(event.start_mark)
        if isinstance(event, yaml.AliasEvent):
            self.report(f"aliases are not used in {self.what}s: write the value out", event, path)
            return Node(None, start, key)
        if getattr(event, "anchor", None) is not None:
            self.report(f"anchors are not used in {self.what}s: remove it", event, path)
        if isinstance(event, yaml.ScalarEvent):
            return self.scalar(event, path, key)
        if len(path) >= MAX_DEPTH:
            message = f"nested too deeply: expected at most {MAX_DEPTH} levels"
            raise Problems([*self.problems, Problem(message, position=start)])
        if event.tag is not None:
            self.report(f"tags are not used in {self.what}s: remove it", event, path)
        if isinstance(event, yaml.SequenceStartEvent):
            items: list[Node] = []
            while not isinstance(item := self.next(), yaml.SequenceEndEvent):
                items.append(self.node(item, (*path, len(items))))
            return Node(items, start, key)
        return Node(self.mapping(path), start, key)

    def mapping(self, path: KeyPath) -> dict[str, Node]:
        children: dict[str, Node] = {}
        while not isinstance(event := self.next(), yaml.MappingEndEvent):
            key = self.node(event, path)
            label = key.value
            if not isinstance(label, str):
                self.report("a key must be a string", event, path)
                self.node(self.next(), (*path, "?"))
                continue
            child = self.node(self.next(), (*path, label), key.start)
            if label in children:
                self.report(f"duplicate key, first given on line {_key_line(children[label])}", event, (*path, label))
            else:
                children[label] = child
        return children

    def scalar(self, event: Any, path: KeyPath, key: Position | None) -> Node:
        start = _position(event.start_mark)
        source = self.text[event.start_mark.index : event.end_mark.index]
        value: Scalar = event.value
        if event.tag is not None:
            self.report(f"tags are not used in {self.what}s: remove it", event, path)
        elif event.style is None:
            try:
                value = resolve_scalar(event.value)
            except ValueError:
                self.report(f"the number {quoted(event.value)} is too long", event, path)
        if value is None:
            self.report("a value is missing: give one, or remove the key", event, path)
        if isinstance(value, str) and not value.isascii():
            # JSON writes such characters as two halves: join them, and replace a half that stands alone.
            value = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return Node(value, start, key, source)

    def report(self, message: str, event: Any, path: KeyPath = ()) -> None:
        self.problems.append(Problem(message, path, _position(event.start_mark)))


def _syntax_problem(error: Any, text: str) -> Problem:
    if isinstance(error, yaml.reader.ReaderError):
        message = f"not valid YAML: the character U+{ord(text[error.position]):04X} is not allowed"
        return Problem(message, position=end_of(text[: error.position]))
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    reason = " ".join(str(getattr(error, "problem", None) or getattr(error, "context", None) or error).split())
    context = str(getattr(error, "context", None) or "")
    if "\\t" in reason:
        reason = "a tab is not allowed here: use spaces"
    elif reason.startswith("expected <block end>"):
        reason = "the indentation does not fit the lines above"
    elif context.startswith(("while parsing a flow", "while scanning a quoted")):
        opening = context.removeprefix("while parsing ").removeprefix("while scanning ")
        reason = f"{reason} ({opening} starts on line {_position(error.context_mark).line})"
    return Problem(f"not valid YAML: {reason}", position=_position(mark) if mark else None)


def _position(mark: Any) -> Position:
    return Position(mark.line + 1, mark.column + 1)


def _key_line(node: Node) -> int:
    return (node.key or node.start).line
