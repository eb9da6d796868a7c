"""The race between the plans of one point (protocol steps 6 to 8), as a function of whatever visits a plan."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from cake_tune.measure.choose import confirmed, preferred, runner_up, tie_set
from cake_tune.measure.kim_nelson import KimNelson
from cake_tune.measure.order import VisitOrder
from cake_tune.measure.protocol import Protocol
from cake_tune.measure.track import Track, Tracks, distance, leader
from cake_tune.measure.visit import Visit
from cake_tune.planner.shape import Plan

Visitor = Callable[[Plan], Visit]


@dataclass(frozen=True, slots=True)
class RaceResult:
    """How the race ended: every plan's track, the choice, and its tie set (``best`` included; empty without one)."""

    tracks: Tracks
    best: Plan | None
    tied: tuple[Plan, ...]
    rounds: int


def race(
    plans: Sequence[Plan],
    visit: Visitor,
    *,
    in_force: Plan | None,
    protocol: Protocol,
    band: float,
    rng: Random,
    out_of_time: Callable[[], bool] = lambda: False,
) -> RaceResult:
    """Race ``plans`` (distinct, at least one) and choose.

    ``in_force`` is one of ``plans`` or None. ``band`` is the run's tie band as a fraction. ``out_of_time`` is asked
    after each complete round and ends the race, not the confirmation.
    """
    tracks: Tracks = {plan: Track() for plan in plans}
    order = VisitOrder(rng)
    alive, rounds = list(plans), 0
    test = _Elimination(protocol, band)
    while len(alive) > 1 and rounds < protocol.max_rounds and not (rounds and out_of_time()):
        for plan in order.next_round(_running(alive, in_force, tracks)):
            tracks[plan].record(visit(plan), tracks[plan].visits)
        rounds += 1
        alive = test.still_in(tracks, [plan for plan in alive if not tracks[plan].failed], rounds)
    if not alive:
        return RaceResult(tracks, None, (), rounds)
    choice = preferred(tie_set(tracks, leader(tracks, alive), band), in_force)
    rival = runner_up(tracks, choice)
    _confirm(tracks, {choice, rival, in_force}, visit, VisitOrder(rng), protocol.confirm_rounds)
    best = confirmed(tracks, choice, rival=rival, in_force=in_force, band=band, protocol=protocol)
    return RaceResult(tracks, best, () if best is None else tie_set(tracks, best, band), rounds)


class _Elimination:
    """Drops plans: far behind after the early rounds, then by the Kim-Nelson test."""

    def __init__(self, protocol: Protocol, band: float) -> None:
        self._early_rounds = protocol.early_rounds
        self._margin = math.log1p(protocol.early_margin)
        self._test = KimNelson[Plan](delta=band, alpha=protocol.alpha, first_rounds=protocol.kn_rounds)

    def still_in(self, tracks: Tracks, alive: list[Plan], rounds: int) -> list[Plan]:
        """Those of ``alive``, none of which has failed, that stay in the race; marks the others as pruned."""
        staying = self._test.observe({plan: math.log(tracks[plan].visits[-1]) for plan in alive})
        if staying and rounds >= self._early_rounds:
            ahead = leader(tracks, staying)
            staying = [plan for plan in staying if distance(tracks, plan, ahead) <= self._margin]
        for plan in alive:
            if plan not in staying:
                tracks[plan].left = "pruned"
        return staying


def _running(alive: list[Plan], in_force: Plan | None, tracks: Tracks) -> list[Plan]:
    """Who is visited: those alive, and the plan in force to the very end, beaten or not."""
    if in_force is None or in_force in alive or tracks[in_force].failed:
        return alive
    return [*alive, in_force]


def _confirm(tracks: Tracks, wanted: Iterable[Plan | None], visit: Visitor, order: VisitOrder, rounds: int) -> None:
    """Fresh rounds of the few plans that matter: a winner's times in its own race are biased low."""
    plans = sorted(plan for plan in wanted if plan is not None and not tracks[plan].failed)
    for _ in range(rounds):
        for plan in order.next_round(plans):
            if not tracks[plan].failed:
                tracks[plan].record(visit(plan), tracks[plan].confirm)
