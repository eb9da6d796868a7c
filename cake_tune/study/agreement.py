"""Whether two sweeps of the same points agree: each one's choice, judged by the other's measurements."""

from collections.abc import Mapping
from dataclasses import dataclass

from cake_tune.planner.shape import Plan, Shape
from cake_tune.study.points import MeasuredPoint

WITHIN = 0.01
"""A choice agrees if it is at most this much slower than the other sweep's fastest plan, by the other's times."""


@dataclass(frozen=True, slots=True)
class Side:
    """One sweep's choice at one point, judged by the other.

    ``loss`` is what it loses to the other's fastest plan, ``behind`` what it loses to the other's choice (negative: it
    is faster), both as fractions by the other's times. ``timed``: the other has a time of it; else the slowest plan
    measured there stands in, and it agrees with nothing. ``kept``: it is the plan that was in force before.
    """

    choice: Plan | None
    loss: float
    behind: float
    timed: bool
    kept: bool

    @property
    def agrees(self) -> bool:
        """Whether it is within ``WITHIN`` of the other's fastest plan."""
        return self.timed and self.loss <= WITHIN

    @property
    def agrees_with_choice(self) -> bool:
        """Whether it is within ``WITHIN`` of the other's choice, which may be slower than its fastest."""
        return self.timed and self.behind <= WITHIN


@dataclass(frozen=True, slots=True)
class Compared:
    """One point that both sweeps measured. ``first`` is the first sweep's choice by the second's times."""

    shape: Shape
    first: Side
    second: Side

    @property
    def agrees(self) -> bool:
        """Whether each one's choice is as good as the other's fastest plan, by the other's measurements."""
        return self.first.agrees and self.second.agrees

    @property
    def agrees_with_choices(self) -> bool:
        """Whether each one's choice is as good as the other's choice, by the other's measurements."""
        return self.first.agrees_with_choice and self.second.agrees_with_choice

    @property
    def flipped(self) -> bool:
        """Whether they chose different plans."""
        return self.first.choice != self.second.choice

    @property
    def loss(self) -> float:
        """The larger of the two losses."""
        return max(self.first.loss, self.second.loss)


@dataclass(frozen=True, slots=True)
class Agreement:
    """Every common point, and how many only one of the two sweeps has."""

    points: tuple[Compared, ...]
    only_first: int
    only_second: int

    @property
    def agreeing(self) -> int:
        """Common points that agree."""
        return sum(point.agrees for point in self.points)

    @property
    def agreeing_with_choices(self) -> int:
        """Common points that agree when each choice is held against the other's choice."""
        return sum(point.agrees_with_choices for point in self.points)

    @property
    def untimed(self) -> int:
        """Common points at which a choice has no time in the other sweep."""
        return sum(not (point.first.timed and point.second.timed) for point in self.points)

    @property
    def flips(self) -> int:
        """Common points with different choices."""
        return sum(point.flipped for point in self.points)

    @property
    def kept(self) -> int:
        """Points that disagree over plans in force alone: every choice that loses too much is one."""
        return sum(all(side.kept for side in (each.first, each.second) if not side.agrees) for each in self.disagreeing)

    @property
    def disagreeing(self) -> list[Compared]:
        """The points that do not agree, the largest loss first."""
        found = [point for point in self.points if not point.agrees]
        return sorted(found, key=lambda point: (-point.loss, point.shape))


def agreement(first: Mapping[Shape, MeasuredPoint], second: Mapping[Shape, MeasuredPoint]) -> Agreement:
    """Compare two sweeps point by point; symmetric but for the names of the sides."""
    common = sorted(first.keys() & second.keys())
    return Agreement(
        tuple(
            Compared(shape, _side(first[shape], second[shape]), _side(second[shape], first[shape])) for shape in common
        ),
        len(first) - len(common),
        len(second) - len(common),
    )


def _side(chooser: MeasuredPoint, judge: MeasuredPoint) -> Side:
    choice = chooser.choice
    if choice is None:
        return Side(None, 0.0, 0.0, timed=False, kept=False)
    loss = judge.regret(choice)
    held = 0.0 if judge.choice is None else judge.regret(judge.choice)
    kept = choice == chooser.in_force
    return Side(choice, loss, (1 + loss) / (1 + held) - 1, timed=choice in judge.times, kept=kept)
