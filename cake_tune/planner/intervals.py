"""Find the interval of num_tokens that holds a shape: one dictionary step, then a bisection."""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar


class Interval(Protocol):
    """An inclusive interval of num_tokens for one (num_heads, topk, extra_topk)."""

    @property
    def num_heads(self) -> int: ...  # noqa: D102
    @property
    def topk(self) -> int: ...  # noqa: D102
    @property
    def extra_topk(self) -> int: ...  # noqa: D102
    @property
    def min_tokens(self) -> int: ...  # noqa: D102
    @property
    def max_tokens(self) -> int: ...  # noqa: D102


Entry = TypeVar("Entry", bound=Interval)


class Intervals(Generic[Entry]):
    """Sorted entries that do not overlap, found in O(log n) without allocating."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._by_shape: dict[tuple[int, int, int], tuple[list[int], list[Entry]]] = {}
        for entry in entries:
            shape = (entry.num_heads, entry.topk, entry.extra_topk)
            ends, held = self._by_shape.setdefault(shape, ([], []))
            ends.append(entry.max_tokens)
            held.append(entry)

    def find(self, num_tokens: int, num_heads: int, topk: int, extra_topk: int) -> Entry | None:
        """The entry that holds the shape, or None."""
        found = self._by_shape.get((num_heads, topk, extra_topk))
        if found is None:
            return None
        ends, held = found
        position = bisect_left(ends, num_tokens)
        if position == len(ends) or held[position].min_tokens > num_tokens:
            return None
        return held[position]
