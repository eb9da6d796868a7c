"""A device that is not there: plans with known times, seen through drift, noise and spikes, all from a seed."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from cake_tune.measure.visit import Visit
from cake_tune.planner.shape import Plan

DECODE = {splits: Plan("decode", 1, splits, 16 // splits) for splits in (1, 2, 4, 8, 16)}
PREFILL = Plan("prefill", 1, 1, 16)
PLANS = [*DECODE.values(), PREFILL]


@dataclass
class SyntheticDevice:
    """Callable as the visitor of a race. ``log`` holds the plans in the order of their visits."""

    true_us: Mapping[Plan, float]
    seed: int = 0
    noise: float = 0.01
    drift: float = 0.0
    spikes: float = 0.0
    log: list[Plan] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._rng = Random(self.seed)

    def __call__(self, plan: Plan) -> Visit:
        self.log.append(plan)
        time = self.true_us[plan] * math.exp(self._rng.gauss(0, self.noise))
        time *= 1 + self.drift * math.sin(len(self.log) / 40)
        if self._rng.random() < self.spikes:
            time *= self._rng.uniform(1.5, 4)
        return Visit(time)

    def rounds(self, plans: int, count: int) -> list[list[Plan]]:
        """The first ``count`` rounds of the log, each of ``plans`` visits."""
        return [self.log[number * plans : (number + 1) * plans] for number in range(count)]


def failing(
    device: Callable[[Plan], Visit], plan: Plan, after: int, status: str = "unstable"
) -> Callable[[Plan], Visit]:
    """``device``, but from its visit number ``after`` on (from 0), ``plan`` gives nothing."""
    seen = 0

    def visit(visited: Plan) -> Visit:
        nonlocal seen
        if visited != plan:
            return device(visited)
        seen += 1
        return device(visited) if seen <= after else Visit(math.nan, status, "on purpose")

    return visit
