"""Making something as large as the memory allows: halved until it fits, never below what is needed."""

from collections.abc import Callable
from typing import TypeVar

Made = TypeVar("Made")


def as_large_as_fits(make: Callable[[int], Made], wanted: int, least: int) -> Made:
    """``make(size)`` for the first of ``wanted``, a half of it, a quarter... that fits, and for ``least`` at last.

    ``make`` says by ``MemoryError`` that a size does not fit; where ``least`` does not, that error is passed on.
    """
    size = max(wanted, least)
    while True:
        try:
            return make(size)
        except MemoryError:
            if size == least:
                raise
        size = max(size // 2, least)
