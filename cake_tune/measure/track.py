"""What is known of the plans of one point while they race, and how two of them compare."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from cake_tune.measure.statistics import location, paired_log_ratios
from cake_tune.measure.visit import Visit
from cake_tune.planner.shape import Plan


@dataclass(slots=True)
class Track:
    """One plan's medians, in microseconds, index = round: in the race, and in the confirmation.

    ``raced`` and ``confirming`` are the same visits whole. ``left`` says how the plan left the race: "pruned" (beaten)
    or the status of the visit that gave nothing.
    """

    visits: list[float] = field(default_factory=list)
    confirm: list[float] = field(default_factory=list)
    raced: list[Visit] = field(default_factory=list)
    confirming: list[Visit] = field(default_factory=list)
    left: Literal["pruned", "unstable", "invalid"] | None = None
    error: str | None = None

    @property
    def failed(self) -> bool:
        """True if a visit gave nothing: the plan must not be chosen."""
        return self.left in ("unstable", "invalid")

    def record(self, visit: Visit, into: list[float]) -> None:
        """Append the visit's median to ``into`` (one of the two lists); a visit without one ends the plan's race."""
        into.append(visit.median_us)
        (self.confirming if into is self.confirm else self.raced).append(visit)
        if visit.status != "ok":
            self.left, self.error = visit.status, visit.reason


Tracks = dict[Plan, Track]


def distance(tracks: Tracks, plan: Plan, base: Plan) -> float:
    """Paired log ratio of ``plan`` to ``base``: positive if ``plan`` is slower.

    From the confirmation if both were confirmed, else from the rounds of the race that both have; infinite if they
    have none in common.
    """
    if plan == base:
        return 0.0
    ours, theirs = tracks[plan], tracks[base]
    ratios = paired_log_ratios(ours.confirm, theirs.confirm) or paired_log_ratios(ours.visits, theirs.visits)
    return location(ratios) if ratios else math.inf


def leader(tracks: Tracks, plans: Iterable[Plan]) -> Plan:
    """The fastest of ``plans`` (at least one), which all have the same rounds behind them."""
    candidates = list(plans)
    base = candidates[0]
    return min(candidates, key=lambda plan: distance(tracks, plan, base))
