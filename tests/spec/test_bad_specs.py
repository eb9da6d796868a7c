"""A corpus of malformed specs: each one's whole message is kept beside it."""

import re
from pathlib import Path

import pytest

from cake_tune.errors import SpecError
from cake_tune.spec import load_spec, parse_spec

CORPUS = Path(__file__).parents[1] / "data" / "specs" / "bad"
BAD = sorted(CORPUS.glob("*.yaml"))


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_message(path):
    """The message names every problem with its place, as the file beside the spec says."""
    with pytest.raises(SpecError) as error:
        parse_spec(path.read_bytes(), path.name)
    assert f"{error.value}\n" == path.with_suffix(".txt").read_text()


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_form(path):
    """Each line of a message is file:line:column: …, inside the file, in the file's order; the exit code is 2."""
    with pytest.raises(SpecError) as error:
        load_spec(path)
    places = []
    for line in str(error.value).splitlines():
        match = re.fullmatch(rf"{re.escape(str(path))}:(\d+):(\d+): (\S.*)", line)
        assert match, line
        places.append((int(match[1]), int(match[2])))
    assert places == sorted(places)
    assert places[-1][0] <= path.read_bytes().count(b"\n") + 1
    assert error.value.exit_code == 2


def test_corpus_is_complete():
    """The corpus is as large as promised, and no message is left over from a spec that is gone."""
    assert len(BAD) >= 40
    assert {path.stem for path in BAD} == {path.stem for path in CORPUS.glob("*.txt")}


@pytest.mark.parametrize(
    ("name", "reason"),
    [("missing.yaml", "No such file or directory"), (".", "Is a directory"), ("nul\0.yaml", "embedded null byte")],
)
def test_unreadable_files(tmp_path, name, reason):
    """A file that cannot be read is the same kind of error, with the system's reason."""
    with pytest.raises(SpecError, match=f"cannot read the spec: {reason}"):
        load_spec(f"{tmp_path}/{name}")


def test_too_large_file(tmp_path):
    """A huge file is refused after reading no more of it than the limit."""
    path = tmp_path / "huge.yaml"
    path.write_bytes(b"# " + b"x" * 10_000_000)
    with pytest.raises(SpecError, match="the file is too large: expected at most 256 KiB"):
        load_spec(path)


def test_the_list_of_problems_is_cut():
    """A thousand problems give a hundred lines and their number."""
    text = "version: 1\nbackend: cpu\nshapes:\n  num_heads: 16\n  topk: 64\n  num_tokens: [" + "x, " * 1000 + "]\n"
    with pytest.raises(SpecError) as error:
        parse_spec(text, "many.yaml")
    lines = str(error.value).splitlines()
    assert len(lines) == 101
    assert lines[-1] == "many.yaml: and 900 more problems"
