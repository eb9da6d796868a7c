"""The spec as the rest of the tool sees it: plain, frozen, validated."""

from dataclasses import dataclass, field

from cake_tune.measure.protocol import Protocol
from cake_tune.planner.shape import Plan, Shape


@dataclass(frozen=True, slots=True)
class Point:
    """One shape with all the plans to compare on it, each of which can run it; plans in the order of ``Plan``."""

    shape: Shape
    plans: tuple[Plan, ...]


@dataclass(frozen=True, slots=True)
class Spec:
    """A validated sweep spec.

    ``time_budget_seconds`` bounds the whole sweep (None: no bound). ``text`` is the spec as read and ``path`` where
    it came from, for the record of the run.
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

    def points(self) -> list[Point]:
        """Every point of the sweep, without duplicates, coarse in num_tokens first.

        The order lets a sweep that stops early cover its range: all combinations of the other axes at the smallest
        num_tokens, then at the largest, then at the middle, and so on by halving.
        """
        return list(self.expanded)
