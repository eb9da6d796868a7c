"""Which shapes were measured: each kernel's points, and the hull around them inside which the rules interpolate."""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from math import log
from typing import NamedTuple, Protocol

from cake_tune.planner.shape import Kernel


class Measured(Protocol):
    """The measured num_tokens of one (num_heads, topk, extra_topk), ascending."""

    @property
    def num_heads(self) -> int: ...  # noqa: D102
    @property
    def topk(self) -> int: ...  # noqa: D102
    @property
    def extra_topk(self) -> int: ...  # noqa: D102
    @property
    def decode(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def prefill(self) -> tuple[int, ...]: ...  # noqa: D102


class Coverage:
    """Measured points, found in O(log n) without allocating."""

    def __init__(self, entries: Iterable[Measured]) -> None:
        self._num_tokens: dict[tuple[Kernel, int, int, int], tuple[int, ...]] = {}
        for entry in entries:
            shape = (entry.num_heads, entry.topk, entry.extra_topk)
            self._num_tokens["decode", *shape] = entry.decode
            self._num_tokens["prefill", *shape] = entry.prefill
        self._hulls: dict[Kernel, Hull | None] = {"decode": self._hull("decode"), "prefill": self._hull("prefill")}

    def holds(self, kernel: Kernel, num_tokens: int, num_heads: int, topk: int, extra_topk: int) -> bool:
        """Whether exactly this shape was measured with ``kernel``."""
        found = self._num_tokens.get((kernel, num_heads, topk, extra_topk), ())
        position = bisect_left(found, num_tokens)
        return position < len(found) and found[position] == num_tokens

    def has_point(self, num_tokens: int, num_heads: int, topk: int, extra_topk: int) -> bool:
        """Whether exactly this shape was measured with any kernel."""
        shape = (num_tokens, num_heads, topk, extra_topk)
        return self.holds("decode", *shape) or self.holds("prefill", *shape)

    def has_group(self, num_heads: int, topk: int, extra_topk: int) -> bool:
        """Whether any num_tokens of this (num_heads, topk, extra_topk) was measured."""
        return ("decode", num_heads, topk, extra_topk) in self._num_tokens

    def nearest_group(self, num_heads: int, topk: int, extra_topk: int) -> tuple[int, int, int] | None:
        """The measured (num_heads, topk, extra_topk) nearest by heads, then by candidates, both as ratios.

        The smaller of two as near; None when nothing was measured.
        """

        def apart(group: tuple[int, int, int]) -> tuple[float, float, float, tuple[int, int, int]]:
            heads, main, extra = group
            return (
                abs(log(heads / num_heads)),
                abs(log((main + extra) / (topk + extra_topk))),
                abs(extra - extra_topk),
                group,
            )

        groups = ((heads, main, extra) for _, heads, main, extra in self._num_tokens)
        return min(groups, key=apart, default=None)

    def surrounds(self, kernel: Kernel, num_tokens: int, num_heads: int, topk: int, extra_topk: int) -> bool:
        """Whether the shape lies inside the hull of those measured with ``kernel``."""
        hull = self._hulls[kernel]
        return hull is not None and hull.holds(num_tokens, num_heads, topk, extra_topk)

    def _hull(self, kernel: Kernel) -> "Hull | None":
        found = [
            (shape, num_tokens) for (of, *shape), num_tokens in self._num_tokens.items() if of == kernel and num_tokens
        ]
        if not found:
            return None
        heads, topks, extra_topks = zip(*(shape for shape, _ in found), strict=True)
        ends = [end for _, num_tokens in found for end in (num_tokens[0], num_tokens[-1])]
        return Hull(_span(ends), _span(heads), _span(topks), _span(extra_topks))


class Hull(NamedTuple):
    """The smallest box of num_tokens, num_heads, topk and extra_topk around some shapes."""

    num_tokens: range
    num_heads: range
    topk: range
    extra_topk: range

    def holds(self, num_tokens: int, num_heads: int, topk: int, extra_topk: int) -> bool:
        """Whether the box holds a shape."""
        return (
            num_tokens in self.num_tokens
            and num_heads in self.num_heads
            and topk in self.topk
            and extra_topk in self.extra_topk
        )


def _span(values: Sequence[int]) -> range:
    return range(min(values), max(values) + 1)
