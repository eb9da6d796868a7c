"""Workload files: read from the spec's folder, and refused with the line that is wrong."""

import re

import pytest
from spec_strategies import BASE

from cake_tune.errors import SpecError
from cake_tune.spec import load_spec, parse_spec


def spec_with(folder, text: str | bytes):
    (folder / "load.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    path = folder / "weighted.yaml"
    path.write_text(f"{BASE}weights: load.csv\n")
    return load_spec(path)


@pytest.mark.parametrize(
    "text",
    [
        "num_tokens,weight\n64,0.5\n1,120\n",
        "\ufeffnum_tokens, weight\r\n64, .5\r\n\r\n1, 1.2e2\r\n",
        'num_tokens,weight\n"64","0.5"\n1,120',
    ],
)
def test_pairs_come_ascending_however_the_file_is_written(tmp_path, text):
    assert spec_with(tmp_path, text).weights == ((1, 120.0), (64, 0.5))


def test_a_workload_can_be_left_alone():
    """For whoever asks for the points of a text and has only the text."""
    text = f"{BASE}weights: absent.csv\n"
    assert parse_spec(text, "a.yaml", workload=False).points() == parse_spec(BASE, "a.yaml").points()
    with pytest.raises(SpecError, match=r"cannot read \"absent.csv\""):
        parse_spec(text, "a.yaml")


def test_a_spec_without_a_workload_has_no_weights():
    assert parse_spec(BASE, "a.yaml").weights == ()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", '1: expected the line num_tokens,weight, got ""'),
        ("tokens,weight\n1,1\n", '1: expected the line num_tokens,weight, got "tokens,weight"'),
        ("num_tokens,weight\n", " expected a weight above 0, got none"),
        ("num_tokens,weight\n4,0\n", " expected a weight above 0, got none"),
        ("num_tokens,weight\n4\n", "2: expected 2 values, got 1"),
        ("num_tokens,weight\n1,1\n0,1\n", '3: num_tokens: expected an integer from 1 to 1048576, got "0"'),
        ("num_tokens,weight\n1.5,1\n", '2: num_tokens: expected an integer from 1 to 1048576, got "1.5"'),
        ("num_tokens,weight\n\u0661,1\n", '2: num_tokens: expected an integer from 1 to 1048576, got "\u0661"'),
        ("num_tokens,weight\n1048577,1\n", '2: num_tokens: expected an integer from 1 to 1048576, got "1048577"'),
        ("num_tokens,weight\n4,-1\n", '2: weight: expected a finite number >= 0, got "-1"'),
        ("num_tokens,weight\n4,inf\n", '2: weight: expected a finite number >= 0, got "inf"'),
        ("num_tokens,weight\n4,many\n", '2: weight: expected a finite number >= 0, got "many"'),
        ("num_tokens,weight\n4,1\n8,1\n4,2\n", "4: num_tokens 4 has a weight already"),
        (b"num_tokens,weight\n\xff,1\n", " expected CSV in UTF-8: 'utf-8' codec can't decode"),
        ('num_tokens,weight\n"4,1\n', " expected CSV in UTF-8: unexpected end of data"),
        ("num_tokens,weight\n" + "#" * (1 << 20), " expected at most 1 MiB"),
    ],
)
def test_what_is_wrong_is_told_at_the_key_with_the_line_of_the_file(tmp_path, text, said):
    with pytest.raises(SpecError, match=rf"weighted\.yaml:7:10: weights: load\.csv:{re.escape(said)}"):
        spec_with(tmp_path, text)


def test_a_folder_is_no_workload(tmp_path):
    (tmp_path / "weighted.yaml").write_text(f"{BASE}weights: .\n")
    with pytest.raises(SpecError, match=r'weights: cannot read "\.": Is a directory'):
        load_spec(tmp_path / "weighted.yaml")
