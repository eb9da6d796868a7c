"""The YAML reader: values, their places, and what it refuses."""

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from spec_strategies import FULL, as_yaml, values

from cake_tune.spec.problems import Position, Problem, Problems
from cake_tune.spec.reader import MAX_BYTES, decode, read_tree
from cake_tune.spec.tree import inside, known_path, place, plain


def test_positions_of_values_and_keys():
    """A value knows its own place and that of its key, counted from one."""
    tree, problems = read_tree("a: 1\nb:\n  c: [10, {d: x}]\n")
    assert problems == []
    assert plain(tree) == {"a": 1, "b": {"c": [10, {"d": "x"}]}}
    path = ("b", "c", 1, "d")
    assert place(tree, Problem("", path)) == (3, 15)
    assert place(tree, Problem("", path, at_key=True)) == (3, 12)
    assert place(tree, Problem("", ("b", "c", 7))) == (3, 6)


def test_paths_step_over_what_is_not_in_the_document():
    """Labels of a validator between the keys do not hide the place."""
    tree, _ = read_tree("a:\n  b: [1, 2]\n")
    assert known_path(tree, ("a", "<form>", "b", "<list>", 1)) == ("a", "b", 1)


@pytest.mark.parametrize(
    ("text", "offset", "position"),
    [
        ("c: topk < 3\n", 5, (1, 9)),
        ("c: 'topk < 3'\n", 5, (1, 10)),
        ('c: "topk < 3"\n', 8, (1, 13)),
        ("c: topk\n   < 3\n", 5, (2, 4)),
        ("c: |\n  topk\n  < 3\n", 5, (3, 3)),
        ("c: >-  # comment\n\n    topk\n    < 3\n", 6, (4, 5)),
        ("- c: >-\n    ab\n    cd\n", 3, (3, 5)),
        ('c: "\\x61 < 3"\n', 2, (1, 4)),
        ("c: ''\n", 0, (1, 4)),
    ],
)
def test_place_inside_a_string(text, offset, position):
    """A character of a string is found in the file, whatever the string's style; with escapes, the string itself."""
    tree, _ = read_tree(text)
    node = tree.value[0].value["c"] if isinstance(tree.value, list) else tree.value["c"]
    assert inside(node, offset) == position


@settings(deadline=None)
@given(st.lists(st.text("abc<=()", min_size=1, max_size=6), min_size=1, max_size=8), st.sampled_from("|>"))
def test_every_word_of_a_block_is_found(words, style):
    """Each word of a folded or literal block is at its line and column."""
    text = f"c: {style}\n" + "".join(f"    {word}\n" for word in words)
    tree, _ = read_tree(text)
    node, offset = tree.value["c"], 0
    for line, word in enumerate(words, start=2):
        offset = node.value.index(word, offset)
        assert inside(node, offset) == Position(line, 5)
        offset += len(word)


@settings(deadline=None)
@given(st.dictionaries(st.text("abcxyz", min_size=1, max_size=5), values, min_size=1, max_size=4))
def test_reads_what_json_writes(document):
    """A document written as JSON is read back as it was; a null is reported as a missing value."""
    tree, problems = read_tree(as_yaml(document))
    assert repr(plain(tree)) == repr(document)
    assert all("a value is missing" in problem.message for problem in problems)
    assert bool(problems) == ("None" in repr([*_leaves(document)]))


def _leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _leaves(item)
    else:
        yield value if value is None else ""


def test_agrees_with_pyyaml_where_the_versions_agree():
    """The full example means the same to PyYAML, which reads it as YAML 1.1."""
    tree, problems = read_tree(FULL)
    assert problems == []
    assert plain(tree) == yaml.safe_load(FULL)


def test_byte_order_mark_and_line_ends():
    """A byte-order mark is dropped and every line end counts as one."""
    assert decode(b"\xef\xbb\xbfa: 1\r\nb: 2\rc: 3\n") == "a: 1\nb: 2\nc: 3\n"


def test_too_large_a_file_is_not_read():
    """Size is judged before anything is parsed."""
    with pytest.raises(Problems) as error:
        decode(b"#" * (MAX_BYTES + 1))
    assert "too large" in error.value.problems[0].message


def test_deep_nesting_stops_early():
    """Nesting far beyond any recursion limit is one problem with its place."""
    with pytest.raises(Problems) as error:
        read_tree("a: " + "[" * 100_000)
    (problem,) = error.value.problems
    assert (problem.position, problem.message) == ((1, 19), "nested too deeply: expected at most 16 levels")
