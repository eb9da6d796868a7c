"""Constraints mean what they mean in Python, and nothing else can be said in them."""

import re
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spec_strategies import environments, expressions

from cake_tune.spec.constraint import MAX_LENGTH, NAMES, parse_constraint
from cake_tune.spec.tokens import ConstraintError

SHAPE = dict.fromkeys(NAMES, 1) | {"num_tokens": 4, "topk": 512, "sink": True, "lengths": False}


@settings(deadline=None, max_examples=400)
@given(expressions, environments)
def test_agrees_with_python(text, names):
    """Every expression of the grammar has the value that Python gives it over exact numbers."""
    exact = re.sub(r"\b(\d+)\b", r"Fraction(\1)", text)
    numbers = {name: value if isinstance(value, bool) else Fraction(value) for name, value in names.items()}
    try:
        wanted = eval(exact, {"Fraction": Fraction}, numbers)
    except ZeroDivisionError:
        with pytest.raises(ConstraintError, match="division by zero"):
            parse_constraint(text).holds(names)
    else:
        assert parse_constraint(text).holds(names) is wanted


@settings(deadline=None)
@given(st.text("num_tokens sink<=>!+-*/%()[],0123and or not in.\"'", max_size=30) | st.text(max_size=20))
def test_any_text_is_a_constraint_or_an_error_inside_it(text):
    """Whatever the text, the outcome is a constraint or an error at one of its characters."""
    try:
        constraint = parse_constraint(text)
    except ConstraintError as error:
        assert 0 <= error.offset <= len(text)
    else:
        assert constraint.names <= set(NAMES)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 < num_tokens <= 4 < topk", True),
        ("num_tokens in [1, 2 * 2]", True),
        ("topk not in [128, 512]", False),
        ("not sink or num_tokens == 4", True),
        ("-7 // 2 == -4 and -7 % 2 == 1", True),
        ("1 / 3 + 1 / 3 + 1 / 3 == 1", True),
        ("(topk / 64) * 64 == topk", True),
        ("not (lengths and 1 // 0 == 1)", True),
        ("2 - 1 - 1 == 0 and 8 / 4 / 2 == 1", True),
    ],
)
def test_examples(text, value):
    """Chaining, membership, floor division, exact fractions, short circuits and associativity."""
    assert parse_constraint(text).holds(SHAPE) is value


@pytest.mark.parametrize(
    ("text", "offset", "message"),
    [
        ("topk <", 6, "expected a name, an integer or (, got the end"),
        ("topk < 5 5", 9, 'expected an operator or the end, got "5"'),
        ("topk in 5", 8, 'expected "[", got "5"'),
        ("topk in []", 9, 'expected a name, an integer or (, got "]"'),
        ("topk not 5", 9, 'expected "in", got "5"'),
        ("(topk < 5", 9, 'expected ")", got the end'),
        ("topk == 1 or topk", 13, "or takes a comparison or a flag, got a number"),
        ("not topk", 4, "not takes a comparison or a flag, got a number"),
        ("sink == lengths", 0, "== takes a number, got a truth"),
        ("1 + (topk < 2) < 3", 4, "+ takes a number, got a truth"),
        ("topk in [sink]", 9, "a list takes a number, got a truth"),
        ("-sink == 1", 1, "- takes a number, got a truth"),
        ("splits < 4", 0, 'unknown name "splits" (did you mean "num_splits"?)'),
        ("and < 4", 0, 'expected a name, an integer or (, got "and"'),
        ("topk = 4", 5, 'cannot read "=": write =='),
        ("topk < 4 || sink", 9, 'cannot read "|": write or'),
        ("!sink", 0, 'cannot read "!": write not'),
        ("topk < 1e3", 8, 'expected an operator or the end, got "e3"'),
        ("topk.real < 3", 4, 'cannot read "."'),
        ("num_tokens < \u0664", 13, 'cannot read "\u0664"'),
        ("num_tokens < \u200b4", 13, 'cannot read "\\u200b"'),
    ],
)
def test_errors_say_where_and_what(text, offset, message):
    """Each error names what was expected and stands at the character where it went wrong."""
    with pytest.raises(ConstraintError) as error:
        parse_constraint(text)
    assert (error.value.offset, str(error.value)) == (offset, message)


@pytest.mark.parametrize("text", ["(" * 51 + "sink" + ")" * 51, "not " * 51 + "sink", "-" * 51 + "1 < 2"])
def test_nesting_is_bounded(text):
    """Nesting cannot exhaust the stack."""
    with pytest.raises(ConstraintError, match="nested too deeply"):
        parse_constraint(text)


def test_length_is_bounded_and_long_chains_evaluate():
    """The longest chain that is allowed evaluates without recursion; a longer text is refused."""
    chain = "+1" * (MAX_LENGTH // 2 - 4)
    assert parse_constraint(f"0{chain} > 5").holds(SHAPE)
    with pytest.raises(ConstraintError, match="too long"):
        parse_constraint(f"0{chain}{chain} > 5")


def test_plan_names_make_it_about_plans():
    """Only a constraint that names a part of the plan is about plans."""
    assert parse_constraint("num_tokens * num_splits < 9").about_plans
    assert not parse_constraint("num_tokens * chunks < 9 and sink").about_plans
