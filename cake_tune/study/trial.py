"""Selectors put to the test: the same points again and again, by regret, winner flips, and visits spent."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from cake_tune.fit.regret import summarise
from cake_tune.measure.protocol import Protocol
from cake_tune.measure.visit import Visit
from cake_tune.planner.shape import Plan, Shape
from cake_tune.planner.table import Regret
from cake_tune.study.selectors import Contest, Order, Selector, Visitor

APART = 0.01
"""Two selected plans whose times differ by more than this fraction are a costly flip."""
REPLAYS = 20


@dataclass(frozen=True, slots=True)
class Trial:
    """One point to select at.

    ``times`` are the microseconds by which a selection is judged: the truth where it is known, else what was reported;
    every plan of ``plans`` has one. ``visits`` makes the visitor of one independent repetition, for a selector that
    visits in the given order; on a device without a memory it may ignore the order. ``means``: its visits have means.
    ``rounds``: recorded rounds that visits are drawn from, None on a device.
    """

    shape: Shape
    plans: tuple[Plan, ...]
    in_force: Plan | None
    band: float
    protocol: Protocol
    times: Mapping[Plan, float]
    visits: Callable[[Order, Random], Visitor]
    means: bool = True
    rounds: int | None = None

    @property
    def best_us(self) -> float:
        """The least of ``times``."""
        return min(self.times.values())

    def regret(self, plan: Plan) -> float:
        """What ``plan`` loses to the fastest, as a fraction."""
        return self.times[plan] / self.best_us - 1


@dataclass(frozen=True, slots=True)
class Played:
    """What one selector selected at one trial, once per repetition (None: nothing), and the visits of all of them."""

    trial: Trial
    selected: tuple[Plan | None, ...]
    visits: int

    @property
    def regrets(self) -> list[float]:
        """One per repetition that selected a plan."""
        return [self.trial.regret(plan) for plan in self.selected if plan is not None]

    @property
    def pairs(self) -> list[tuple[Plan, Plan]]:
        """Independent repetitions two by two, where both selected a plan."""
        both = zip(self.selected[::2], self.selected[1::2], strict=False)
        return [(one, other) for one, other in both if one is not None and other is not None]

    @property
    def flips(self) -> int:
        """Pairs that selected different plans."""
        return sum(one != other for one, other in self.pairs)

    @property
    def costly_flips(self) -> int:
        """Pairs that selected plans whose times differ by more than ``APART``."""
        times = self.trial.times
        return sum(abs(math.log(times[one] / times[other])) > math.log1p(APART) for one, other in self.pairs)


@dataclass(frozen=True, slots=True)
class Score:
    """A selector over all trials.

    ``regret`` is over every point and repetition (None if nothing was ever selected), ``flips`` and ``costly_flips``
    are shares of the pairs of independent repetitions, ``visits`` the mean number of visits per point, ``undecided``
    the repetitions that selected nothing.
    """

    selector: str
    regret: Regret | None
    flips: float
    costly_flips: float
    visits: float
    undecided: int
    played: tuple[Played, ...]


def score(
    selectors: Iterable[Selector], trials: Sequence[Trial], *, replays: int = REPLAYS, seed: int = 0
) -> list[Score]:
    """Let each selector select at each trial, ``replays`` times independently.

    Deterministic: a repetition draws from its number, ``seed`` and the shape alone, so that neither the other trials
    nor the other selectors change it.
    """
    return [
        _scored(selector.name, [play(selector, trial, replays, seed) for trial in trials]) for selector in selectors
    ]


def play(selector: Selector, trial: Trial, replays: int, seed: int = 0) -> Played:
    """One selector at one trial."""
    selected, spent = [], 0
    for number in range(replays):
        rng = Random(f"{seed} {number} {trial.shape}")
        visit = trial.visits(selector.order, rng)

        def counted(plan: Plan, visit: Visitor = visit) -> Visit:
            nonlocal spent
            spent += 1
            return visit(plan)

        contest = Contest(trial.plans, trial.in_force, trial.band, trial.protocol, counted, rng)
        selected.append(selector.select(contest))
    return Played(trial, tuple(selected), spent)


def _scored(name: str, played: list[Played]) -> Score:
    pairs = sum(len(each.pairs) for each in played)
    repetitions = sum(len(each.selected) for each in played)
    return Score(
        selector=name,
        regret=summarise([regret for each in played for regret in each.regrets]),
        flips=sum(each.flips for each in played) / max(1, pairs),
        costly_flips=sum(each.costly_flips for each in played) / max(1, pairs),
        visits=sum(each.visits for each in played) / max(1, repetitions),
        undecided=sum(each.selected.count(None) for each in played),
        played=tuple(played),
    )
