"""The spec as the rest of the tool sees it: plain, frozen, validated."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from cake_tune.measure.protocol import Protocol
from cake_tune.planner.shape import Plan, Shape

Method = Literal["exhaustive", "adaptive"]
"""Which points a sweep measures: all that its spec lists, or only those that a table needs."""


@dataclass(frozen=True, slots=True)
class Point:
    """One shape with all the plans to compare on it, each of which can run it; plans in the order of ``Plan``."""

    shape: Shape
    plans: tuple[Plan, ...]


@dataclass(frozen=True, slots=True)
class Search:
    """How the points are chosen.

    ``refine``: new num_tokens are measured around each crossover until its ends are close. ``regret``: the mean regret
    that an adaptive search may leave, as a fraction.
    """

    method: Method = "exhaustive"
    refine: bool = False
    regret: float = 0.003


@dataclass(frozen=True, slots=True)
class Spec:
    """A validated sweep spec.

    ``time_budget_seconds`` bounds the whole sweep (None: no bound). ``text`` is the spec as read and ``path`` where
    it came from, for the record of the run. ``weights`` is the workload that it names, as (num_tokens, weight),
    ascending; empty without one. ``domain`` gives the point of any shape within the spec's axes (see ``point_at``).
    """

    name: str
    backend: str
    protocol: Protocol = field(default_factory=Protocol)
    seed: int = 0
    time_budget_seconds: float | None = None
    description: str = ""
    text: str = field(default="", repr=False)
    path: str = ""
    expanded: tuple[Point, ...] = field(default=(), repr=False)
    search: Search = field(default_factory=Search)
    weights: tuple[tuple[int, float], ...] = ()
    domain: Callable[[Shape], Point | None] | None = field(default=None, repr=False, compare=False)

    def points(self) -> list[Point]:
        """Every point of the sweep, without duplicates, coarse in num_tokens first.

        The order lets a sweep that stops early cover its range: all combinations of the other axes at the smallest
        num_tokens, then at the largest, then at the middle, and so on by halving.
        """
        return list(self.expanded)

    def point_at(self, shape: Shape) -> Point | None:
        """The point of a shape that need not be listed, with the plans that the spec allows on it.

        None where the shape is outside the spec: an axis without that value (of num_tokens the range counts), or a
        constraint that excludes it.
        """
        if self.domain is not None:
            return self.domain(shape)
        return next((point for point in self.expanded if point.shape == shape), None)
