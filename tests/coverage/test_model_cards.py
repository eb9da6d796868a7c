"""Model cards: the shipped ones say what they rest on, and a wrong one says where it is wrong."""

import re

import pytest

from cake_tune.coverage.load import MODELS, load_card, model_names, parse_card
from cake_tune.errors import CardError, UsageError

GOOD = """\
version: 1
model: Toy
heads: 32
attention:
  - {layers: window, topk: 128}
capture_sizes: [1, {from: 4, to: 12, step: 4}, 8]
"""


def test_the_models_of_the_issue_are_there():
    assert model_names() == ["deepseek-v4-flash", "deepseek-v4-flash-dspark", "deepseek-v4.1-flash"]
    topks = {name: {each.topk for each in load_card(name).attention} for name in model_names()}
    assert topks == {
        "deepseek-v4-flash": {128},
        "deepseek-v4-flash-dspark": {192},
        "deepseek-v4.1-flash": {128, 1152},
    }


@pytest.mark.parametrize("name", model_names())
def test_every_shipped_card_cites_where_its_facts_come_from(name):
    text = (MODELS / f"{name}.yaml").read_text(encoding="utf-8")
    comment = text[: text.index("version: 1")]
    assert all(line.startswith("#") for line in comment.splitlines())
    assert re.search(r"pull request \d+|issue \d+|\.py\b", comment)
    card = load_card(name)
    assert card.heads == 64
    assert card.num_tokens == sorted(set(card.num_tokens))


def test_capture_sizes_are_values_and_steps_each_once_ascending():
    assert parse_card(GOOD.encode(), "toy.yaml").num_tokens == [1, 4, 8, 12]


def test_a_card_of_ones_own_is_read_from_its_file(tmp_path):
    path = tmp_path / "toy.yaml"
    path.write_text(GOOD)
    assert load_card(str(path)).model == "Toy"


@pytest.mark.parametrize(
    ("line", "wrong", "message"),
    [
        (1, "version: 2", "1:10: version: expected 1, got 2"),
        (2, "modle: Toy", '2:1: modle: unknown key (did you mean "model"?)'),
        (2, "model: ''", "2:8: model: expected a text of up to 40 characters, got"),
        (3, "heads: '32'", '3:8: heads: expected an integer, got the string "32": remove the quotes'),
        (3, "heads: 0", "3:8: heads: expected a value >= 1, got 0"),
        (3, "heads: 32\nheads: 64", "4:1: heads: duplicate key, first given on line 3"),
        (5, "  - {layers: a, topk: 0}", "5:23: attention[0].topk: expected a value >= 1, got 0"),
        (5, "  - {layers: a, topkk: 1}", '5:17: attention[0].topkk: unknown key (did you mean "topk"?)'),
        (5, "  - &a {layers: a, topk: 1}", "5:5: attention[0]: anchors are not used in cards: remove it"),
        (5, "  - {layers: a, topk: 1}\n" * 17, "5:3: attention: expected at most 16 kinds of layers, got a list"),
        (6, "capture_sizes: []", "6:16: capture_sizes: expected at least one value, got an empty list"),
        (6, "capture_sizes: [x]", '6:17: capture_sizes[0]: expected an integer, got the string "x"'),
        (6, "capture_sizes: [{from: 4, to: 2, step: 1}]", "6:31: capture_sizes[0].to: expected an integer >= from (4)"),
        (6, "capture_sizes: [{from: 4, to: 8}]", "6:17: capture_sizes[0].step: required key is missing"),
        (
            6,
            "capture_sizes: [{from: 1, to: 999, step: 1}]",
            "6:16: capture_sizes: expected at most 200 sizes, got a list",
        ),
    ],
)
def test_a_wrong_card_is_one_error_with_every_place(line, wrong, message):
    lines = GOOD.splitlines()
    lines[line - 1] = wrong
    with pytest.raises(CardError) as caught:
        parse_card("\n".join(lines).encode(), "toy.yaml")
    assert f"toy.yaml:{message}" in str(caught.value)


def test_all_problems_come_at_once():
    with pytest.raises(CardError) as caught:
        parse_card(b"version: 1\nheads: a\nattention: [{layers: x}]\n", "toy.yaml")
    assert [line.split(": ", 1)[0] for line in str(caught.value).splitlines()] == [
        "toy.yaml:1:1",
        "toy.yaml:1:1",
        "toy.yaml:2:8",
        "toy.yaml:3:13",
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "toy.yaml:1:1: the file is empty: a card starts with version: 1"),
        (b"a: [", "toy.yaml:1:5: not valid YAML"),
        (b"- 1\n", "toy.yaml:1:1: expected a mapping"),
        (b"\xff\xfe", "toy.yaml:1:1: the file is not UTF-8"),
        (
            GOOD.encode() + b"---\nversion: 1\n",
            "toy.yaml:7:1: a second document starts here: expected one card per file",
        ),
    ],
)
def test_what_is_no_card_at_all_says_so(data, message):
    with pytest.raises(CardError) as caught:
        parse_card(data, "toy.yaml")
    assert str(caught.value).startswith(message)


def test_an_unknown_name_lists_the_known_ones_and_an_absent_file_is_named(tmp_path):
    with pytest.raises(
        UsageError, match=r"--model: expected deepseek-v4-flash, .*did you mean \"deepseek-v4-flash\"\?"
    ):
        load_card("deepseek-v4-flush")
    with pytest.raises(CardError, match=r"absent\.yaml: cannot read the card: No such file"):
        load_card(str(tmp_path / "absent.yaml"))
