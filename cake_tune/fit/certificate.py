"""How good a table is: the regret of what users get from it, on measured shapes and on held-out ones."""

from collections.abc import Iterable, Iterator

import numpy as np

from cake_tune.fit.overrides import plan_of, verdict
from cake_tune.fit.regret import summarise
from cake_tune.fit.rules import fit_rules
from cake_tune.fit.samples import Samples
from cake_tune.planner.rules import Rules
from cake_tune.planner.shape import Plan
from cake_tune.planner.table import Certificate, PlannerTable, Regret

_LEAST_GROUPS = 3
_MOST_FOLDS = 8


def table_plans(samples: Samples, table: PlannerTable, points: Iterable[int]) -> Iterator[tuple[int, Plan]]:
    """Each of ``points`` with the answer of ``table``, which is the measured device's.

    Where one kernel alone was raced, the table is asked for that kernel.
    """
    for point in points:
        yield point, plan_of(table, samples, point, table.device.num_sms, samples.kernel_alone(point))


def table_regrets(samples: Samples, table: PlannerTable, points: Iterable[int] | None = None) -> list[float]:
    """Regret, as a fraction, of ``table_plans`` at each point; at all of them where ``points`` is None."""
    asked = range(len(samples)) if points is None else points
    return [verdict(samples, point, plan).regret for point, plan in table_plans(samples, table, asked)]


def certify(samples: Samples, table: PlannerTable, start: Rules) -> Certificate:
    """The certificate of ``table``; ``start`` is where the fits of the held-out folds begin."""
    own = summarise(table_regrets(samples, table))
    assert own is not None, "samples are never empty"
    return Certificate(own.points, own.mean, own.p95, own.worst, _held_out(samples, table, start))


def _held_out(samples: Samples, table: PlannerTable, start: Rules) -> Regret | None:
    """Regret of rules alone on groups of (num_heads, topk, extra_topk) that their fit did not see.

    Each group is left out once, alone up to eight groups, several at a time beyond; None with fewer than three groups.
    """
    groups = [np.arange(points.start, points.stop) for _, points in samples.groups()]
    if len(groups) < _LEAST_GROUPS:
        return None
    folds = min(len(groups), _MOST_FOLDS)
    regrets: list[float] = []
    for fold in range(folds):
        seen = np.concatenate([points for i, points in enumerate(groups) if i % folds != fold])
        rules = fit_rules(samples.take(seen), start, table.device.num_sms)
        blind = PlannerTable(
            device=table.device,
            kernel=table.kernel,
            provenance=table.provenance,
            calibrated_topks=table.calibrated_topks,
            rules=rules,
        )
        for points in groups[fold::folds]:
            regrets += table_regrets(samples, blind, points.tolist())
    return summarise(regrets)
