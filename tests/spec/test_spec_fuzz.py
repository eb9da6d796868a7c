"""Whatever is in the file, the outcome is a spec or a ``SpecError`` that says where."""

import re

import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st
from spec_strategies import BASE, FULL, as_yaml, values

from cake_tune.errors import SpecError
from cake_tune.spec import parse_spec

LINE = re.compile(r"fuzz\.yaml:(\d+):(\d+): \S.*|fuzz\.yaml: and \d+ more problems")
INK = st.text("\t\n :,-[]{}#&*!|>'\"%@`0123456789abcxyz_.~?=<\\\u00e9\u2028\x00\ufeff", max_size=6) | st.text(
    max_size=3
)


def outcome(text):
    """Parse; a failure must be well formed and print anywhere."""
    try:
        spec = parse_spec(text, "fuzz.yaml")
    except SpecError as error:
        lines = str(error).split("\n")
        assert all(LINE.fullmatch(line) and line.isprintable() for line in lines), lines
    else:
        assert spec.points()


@settings(deadline=None, max_examples=300)
@given(st.sampled_from([BASE, FULL]), st.lists(st.tuples(st.integers(0, 900), st.integers(0, 12), INK), max_size=4))
def test_edited_text(text, edits):
    """Pieces of a valid spec deleted, inserted and overwritten."""
    for place, length, ink in edits:
        start = place % (len(text) + 1)
        text = text[:start] + ink + text[start + length :]
    outcome(text)


@settings(deadline=None, max_examples=150)
@given(st.sampled_from([BASE, FULL]), st.data())
def test_moved_lines(text, data):
    """Lines swapped, doubled and re-indented."""
    lines = text.splitlines()
    chosen = data.draw(st.lists(st.integers(0, len(lines) - 1), min_size=1, max_size=2 * len(lines)))
    indents = data.draw(st.lists(st.integers(-2, 2), min_size=len(chosen), max_size=len(chosen)))
    moved = [
        " " * max(indent, 0) + lines[index][max(-indent, 0) :] for index, indent in zip(chosen, indents, strict=True)
    ]
    outcome("\n".join(moved))


def paths(value, path=()):
    """Every place of a document."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in items:
        yield from paths(child, (*path, key))


def replaced(document, path, value):
    """The document with another value at one place."""
    if not path:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[path[0]] = replaced(copy[path[0]], path[1:], value)
    return copy


DOCUMENT = yaml.safe_load(FULL)


@settings(deadline=None, max_examples=400)
@given(st.lists(st.tuples(st.sampled_from(sorted(paths(DOCUMENT), key=str)), values), min_size=1, max_size=2))
@example([(("seed",), 10**30)])
@example([(("time_budget",), float("nan"))])
@example([(("plans", "options"), {"[key]": [{}]})])
@example([(("name",), "\ud800")])
@example([(("shapes", "num_tokens"), {"from": {}, "to": []})])
def test_other_values(edits):
    """Any value at any place, including where a mapping or a list is expected."""
    document = DOCUMENT
    for path, value in edits:
        if path in set(paths(document)):
            document = replaced(document, path, value)
    outcome(as_yaml(document))


@settings(deadline=None, max_examples=200)
@given(st.binary(max_size=60) | st.binary(max_size=20).map(lambda tail: BASE.encode() + tail))
def test_bytes(data):
    """Bytes that are no text at all."""
    outcome(data)


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=60))
def test_text(text):
    """Text that is no spec at all."""
    outcome(text)
