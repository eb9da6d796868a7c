"""From times to a choice: the tie set, which of it to take, and when a new plan may replace the one in force."""

import math
from collections.abc import Iterable

from cake_tune.measure.protocol import Protocol
from cake_tune.measure.statistics import paired_log_ratios, upper_bound
from cake_tune.measure.track import Tracks, distance
from cake_tune.planner.shape import Plan, simplest


def tie_set(tracks: Tracks, best: Plan, band: float) -> tuple[Plan, ...]:
    """The plans that are at most ``band`` slower than ``best``, which is one of them, sorted.

    Measured by the rounds in common, not by who survived: which of two equal plans a sequential test drops is chance.
    """
    usable = (plan for plan, track in tracks.items() if not track.failed)
    return tuple(sorted(plan for plan in usable if distance(tracks, plan, best) <= band))


def preferred(tied: Iterable[Plan], in_force: Plan | None) -> Plan:
    """Which of equally fast plans to take: the one in force, else the simplest."""
    candidates = list(tied)
    if in_force in candidates and in_force is not None:
        return in_force
    return simplest(candidates)


def runner_up(tracks: Tracks, choice: Plan) -> Plan | None:
    """The fastest plan beside ``choice``, whether or not it survived; None if there is no other with a time."""
    others = [plan for plan, track in tracks.items() if plan != choice and track.visits and not track.failed]
    return min(others, key=lambda plan: distance(tracks, plan, choice), default=None)


def differ(tracks: Tracks, one: Plan, other: Plan, band: float) -> bool:
    """Whether two confirmed plans are told apart: by more than ``band``, or so that the 95 % bound is beyond it."""
    ratios = paired_log_ratios(tracks[one].confirm, tracks[other].confirm)
    slower, faster = upper_bound(ratios) < -band, upper_bound([-ratio for ratio in ratios]) < -band
    return abs(distance(tracks, one, other)) > band or slower or faster


def confirmed(
    tracks: Tracks, choice: Plan, *, rival: Plan | None, in_force: Plan | None, band: float, protocol: Protocol
) -> Plan | None:
    """The plan that the fresh rounds of the confirmation speak for.

    ``choice`` stands unless ``rival`` is faster by more than ``band`` in the fresh rounds; and the plan in force stands
    unless the upper 95 % bound of the other's ratio to it is below ``1 - replace_gain``. None if none of them lasted.
    """
    lasting = [plan for plan in (choice, rival, in_force) if plan is not None and not tracks[plan].failed]
    if not lasting:
        return None
    best = lasting[0]
    if rival in lasting and rival is not None and distance(tracks, rival, best) < -band:
        best = rival
    if in_force in lasting and in_force is not None and best != in_force:
        ratios = paired_log_ratios(tracks[best].confirm, tracks[in_force].confirm)
        if upper_bound(ratios) >= math.log1p(-protocol.replace_gain):
            return in_force
    return best
