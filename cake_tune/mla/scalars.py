"""The numbers of a call: integers and factors of any numeric type, made plain, with what is none of them refused."""

import operator
from numbers import Integral, Real

from torch import Tensor

from cake_tune.errors import ContractError

FACTOR_LIMIT = 2.0**127
"""Factors stay below it, so that float32 holds them, times log2(e) too."""


def as_integer(value: object) -> int | None:
    """``value`` as an int where it is an integer of any type, bool aside; else None."""
    if type(value) is int:
        return value
    return operator.index(value) if isinstance(value, Integral) and not isinstance(value, bool) else None


def check_integer(name: str, value: int) -> int:
    """``value`` as an int; ``ContractError`` unless it is an integer of at least 1."""
    number = as_integer(value)
    if number is None or number < 1:
        raise _unfit(name, "an integer >= 1", value)
    return number


def check_factor(name: str, value: float) -> float:
    """``value`` as a float; ``ContractError`` unless it is a finite real number of any type, bool aside."""
    if type(value) is not float:
        if not isinstance(value, Real) or isinstance(value, bool):
            raise _unfit(name, "a real number", value)
        try:
            value = float(value)
        except OverflowError:
            raise _unfit(name, _FINITE, value) from None
    if not -FACTOR_LIMIT < value < FACTOR_LIMIT:  # NaN too
        raise _unfit(name, _FINITE, value)
    return value


_FINITE = "a finite number below 2^127"


def _unfit(name: str, expected: str, value: object) -> ContractError:
    got = type(value).__name__ if isinstance(value, Tensor) else repr(value)
    return ContractError(f"{name}: expected {expected}, got {got}")
