"""Ways to choose plans, and what each loses at the measured shapes."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cake_tune.fit.answers import Verdicts, answers_of, table_answers, verdicts
from cake_tune.fit.regret import summarise
from cake_tune.fit.samples import Samples
from cake_tune.planner.shape import Plan
from cake_tune.planner.table import PlannerTable, Regret


@dataclass(frozen=True)
class Policy:
    """A way to choose plans, and what it loses at each measured shape (fractions, at least one).

    ``untimed`` is at how many of them its plan has no time, and counts as the slowest plan there.
    """

    name: str
    regrets: tuple[float, ...]
    untimed: int

    @property
    def timed(self) -> bool:
        """Whether its plan has a time at any shape; else its regrets say nothing."""
        return self.untimed < len(self.regrets)

    @property
    def summary(self) -> Regret:
        """Mean, 95th percentile and worst."""
        found = summarise(self.regrets)
        assert found is not None, "policies without shapes are left out"
        return found


def policy_of(name: str, samples: Samples, plans: Iterable[tuple[int, Plan]]) -> Policy | None:
    """The policy that uses these plans at these points; None without any."""
    held = list(plans)
    if not held:
        return None
    points = np.array([point for point, _ in held], dtype=np.int64)
    return _judged(name, verdicts(samples, answers_of(samples, [plan for _, plan in held]), points))


def table_policy(name: str, samples: Samples, table: PlannerTable) -> Policy:
    """The policy that asks ``table``, the measured device's; where one kernel alone was raced, for that kernel."""
    return _judged(name, verdicts(samples, table_answers(samples, table, alone=True)))


def _judged(name: str, found: Verdicts) -> Policy:
    return Policy(name, tuple(found.regret.tolist()), int((~found.timed).sum()))


def best_fixed(samples: Samples) -> Policy | None:
    """The one (kernel, head_tiles, num_splits) that loses least, of those with a time at four of five points or more.

    Where it has none, the point's slowest plan counts. None if no plan is measured that widely.
    """
    _, least = samples.best()
    slowest = np.fmax.reduceat(samples.log_time, samples.start[:-1])
    owner = np.repeat(np.arange(len(samples)), np.diff(samples.start))
    kinds: dict[tuple[str, int, int], list[int]] = {}
    for i, plan in enumerate(samples.plans):
        if not plan.options:
            kinds.setdefault((plan.kernel, plan.head_tiles, plan.num_splits), []).append(i)
    policies = []
    for (kernel, tiles, splits), members in kinds.items():
        rows = np.flatnonzero(np.isin(samples.plan, members) & np.isfinite(samples.log_time))
        if len(rows) >= 0.8 * len(samples):
            times = slowest.copy()
            times[owner[rows]] = samples.log_time[rows]
            regrets = np.expm1(times - least)
            name = f"always {kernel}, {tiles} head tile{'s' * (tiles > 1)}"
            name += f", {splits} split{'s' * (splits > 1)}" if kernel == "decode" else ""
            untimed = len(samples) - len(np.unique(owner[rows]))
            policies.append(Policy(f"best fixed plan ({name})", tuple(regrets.tolist()), untimed))
    return min(policies, key=lambda policy: (policy.summary.mean, policy.name), default=None)
