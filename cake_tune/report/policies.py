"""Ways to choose plans, and what each loses at the measured shapes."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cake_tune.fit.answers import Answers, Verdicts, answers_of, table_answers, verdicts
from cake_tune.fit.regret import summarise
from cake_tune.fit.samples import Bools, Samples
from cake_tune.planner.shape import Kernel, Plan, Shape
from cake_tune.planner.table import PlannerTable, Regret
from cake_tune.report.fixed import Request, requests_of, resolved


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
    """The one (kernel, head_tiles, num_splits) that loses least on average, resolved at every shape as the op does.

    Of those that any plan with a time makes; None if only plans with build options have times.
    """
    timed = np.unique(samples.plan[np.isfinite(samples.log_time)])
    requests = requests_of(samples.plans[i] for i in timed.tolist())
    found = [(request, verdicts(samples, _fixed_answers(samples, request))) for request in requests]
    if not found:
        return None
    request, best = min(found, key=lambda each: float(each[1].regret.sum()))
    return _judged(f"best fixed plan ({request})", best)


def _fixed_answers(samples: Samples, request: Request) -> Answers:
    """What ``request`` comes to at every point; where one kernel alone was raced, of that kernel."""
    decode_rows = samples.is_kernel("decode")
    decodes, prefills = (np.logical_or.reduceat(rows, samples.start[:-1]) for rows in (decode_rows, ~decode_rows))
    index = {plan: i for i, plan in enumerate(samples.plans)}
    answers = Answers(np.full(len(samples), -1, dtype=np.int64), np.zeros(len(samples), dtype=np.bool_))
    for (heads, topk, extra_topk), points in samples.groups():
        shape = Shape(1, heads, topk, extra_topk)
        decode, prefill = (raced[points.start : points.stop] for raced in (decodes, prefills))
        cases: tuple[tuple[Kernel | None, Bools], ...] = (
            (None, decode & prefill),
            ("decode", decode & ~prefill),
            ("prefill", prefill & ~decode),
        )
        for alone, here in cases:
            plan = resolved(request, shape, alone)
            at = points.start + np.flatnonzero(here)
            answers.plan[at], answers.decodes[at] = index.get(plan, -1), plan.kernel == "decode"
    return answers
