"""Ways to select a plan from visits: the race of this tool, and what other tuners do.

A selector sees nothing but visits, so that it runs alike on a device, on a simulated one and on recorded visits.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean, median
from typing import Literal, Protocol

from cake_tune.errors import UsageError
from cake_tune.measure.protocol import Protocol as MeasuringProtocol
from cake_tune.measure.race import race
from cake_tune.measure.visit import Visit
from cake_tune.planner.shape import Plan

Visitor = Callable[[Plan], Visit]
Order = Literal["rounds", "bursts"]
"""How a selector visits. rounds: every plan in turn, again and again, so that what drifts is common to a round.
bursts: all visits of one plan, then all of the next, as tuners without rounds do."""

KNOWN = "race, confirm, argmin:N, argmin:N:mean or argmin:N:median with N >= 1"


@dataclass(frozen=True, slots=True)
class Contest:
    """What is to be selected from: ``plans`` (at least one), that in force among them (or None), the tie band as a
    fraction, the protocol, what visits a plan, and the source of every random draw.
    """

    plans: Sequence[Plan]
    in_force: Plan | None
    band: float
    protocol: MeasuringProtocol
    visit: Visitor
    rng: Random


class Selector(Protocol):
    """One way to select."""

    @property
    def name(self) -> str:
        """As ``parse_selector`` reads it."""

    @property
    def order(self) -> Order:
        """How it visits."""

    def select(self, contest: Contest) -> Plan | None:
        """The selected plan; None if no plan could be."""


@dataclass(frozen=True, slots=True)
class Argmin:
    """The plan whose ``visits`` visits in a row have the least mean; ``statistic`` is what stands for one visit.

    Nothing is repeated, compared in pairs, or kept because it was in force.
    """

    visits: int
    statistic: Literal["mean", "median"] = "mean"
    order: Order = "bursts"

    @property
    def name(self) -> str:
        """``argmin:3:mean``."""
        return f"argmin:{self.visits}:{self.statistic}"

    def select(self, contest: Contest) -> Plan | None:
        """Visit one plan after the other in a drawn order; a plan with a visit that gave nothing is left out."""
        plans = list(contest.plans)
        contest.rng.shuffle(plans)
        times: dict[Plan, float] = {}
        for plan in plans:
            values = [self._value(contest.visit(plan)) for _ in range(self.visits)]
            if all(math.isfinite(value) for value in values):
                times[plan] = fmean(values)
        return min(times, key=lambda plan: (times[plan], plan), default=None)

    def _value(self, visit: Visit) -> float:
        return visit.median_us if self.statistic == "median" else mean_of(visit)


@dataclass(frozen=True, slots=True)
class Race:
    """What a sweep does: the race, its confirmation, and the plan in force kept unless another is surely faster."""

    name: str = "race"
    order: Order = "rounds"

    def select(self, contest: Contest) -> Plan | None:
        """``measure.race`` to its end, without a time budget."""
        return race(
            contest.plans,
            contest.visit,
            in_force=contest.in_force,
            protocol=contest.protocol,
            band=contest.band,
            rng=contest.rng,
        ).best


@dataclass(frozen=True, slots=True)
class BestConfirmed:
    """The race, and of the plans that it confirms simply the fastest: no ties, nothing kept because it was in force."""

    name: str = "confirm"
    order: Order = "rounds"

    def select(self, contest: Contest) -> Plan | None:
        """The least median of the confirmation rounds."""
        tracks = race(
            contest.plans,
            contest.visit,
            in_force=contest.in_force,
            protocol=contest.protocol,
            band=contest.band,
            rng=contest.rng,
        ).tracks
        times = {plan: median(track.confirm) for plan, track in tracks.items() if track.confirm and not track.failed}
        return min(times, key=lambda plan: (times[plan], plan), default=None)


def parse_selector(text: str) -> Selector:
    """``race``, ``confirm``, ``argmin:3``, ``argmin:3:median``; ``UsageError`` for anything else."""
    name, *options = text.strip().split(":")
    if name == "race" and not options:
        return Race()
    if name == "confirm" and not options:
        return BestConfirmed()
    if name == "argmin" and options and options[0].isdecimal() and int(options[0]) >= 1:
        if options[1:] in ([], ["mean"]):
            return Argmin(int(options[0]))
        if options[1:] == ["median"]:
            return Argmin(int(options[0]), "median")
    raise UsageError(f"policy: expected {KNOWN}, got {text!r}")


def mean_of(visit: Visit) -> float:
    """The mean over the samples of ``visit`` where it is known, else their median."""
    return visit.mean_us if math.isfinite(visit.mean_us) else visit.median_us
