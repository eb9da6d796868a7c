"""Unquoted scalars mean what YAML 1.2's core schema says."""

import math

import pytest

from cake_tune.spec.scalars import resolve_scalar


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("NULL", None),
        ("true", True),
        ("FALSE", False),
        ("0", 0),
        ("-12", -12),
        ("+12", 12),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("1.", 1.0),
        (".5", 0.5),
        ("-1e3", -1000.0),
        ("1e999", math.inf),
        (".inf", math.inf),
        ("-.INF", -math.inf),
    ],
)
def test_core_schema_values(text, value):
    """Each form of the core schema gives its value and its type."""
    resolved = resolve_scalar(text)
    assert resolved == value
    assert type(resolved) is type(value)


def test_nan():
    """Not-a-number is a float."""
    assert math.isnan(resolve_scalar(".nan"))


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "no",
        "on",
        "off",
        "y",
        "tRUE",
        "1:30",
        "12:30:45",
        "2024-01-01",
        "1_000",
        "0b11",
        "<<",
        "=",
        "1 2",
        "٣",
        "++1",
    ],
)
def test_what_only_yaml_1_1_converts_stays_text(text):
    """Booleans, times, dates and numbers that only YAML 1.1 knows are strings."""
    assert resolve_scalar(text) == text


@pytest.mark.parametrize("text", ["9" * 41, "0x" + "f" * 60, "0o" + "7" * 60])
def test_integers_without_end_are_refused(text):
    """An integer of thousands of digits never reaches Python's converter."""
    with pytest.raises(ValueError, match=text[:10]):
        resolve_scalar(text)
