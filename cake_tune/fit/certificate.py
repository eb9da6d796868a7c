"""How good a table is: the regret of what users get from it, on measured shapes and on held-out ones."""

from collections.abc import Iterable, Iterator

from cake_tune.fit.answers import table_answers, verdicts
from cake_tune.fit.overrides import plan_of
from cake_tune.fit.regret import summarise
from cake_tune.fit.samples import Samples
from cake_tune.planner.shape import Plan
from cake_tune.planner.table import Certificate, PlannerTable


def table_plans(samples: Samples, table: PlannerTable, points: Iterable[int]) -> Iterator[tuple[int, Plan]]:
    """Each of ``points`` with the answer of ``table``, which is the measured device's.

    Where one kernel alone was raced, the table is asked for that kernel.
    """
    for point in points:
        yield point, plan_of(table, samples, point, table.device.num_sms, samples.kernel_alone(point))


def table_regrets(samples: Samples, table: PlannerTable, points: Iterable[int] | None = None) -> list[float]:
    """Regret, as a fraction, of ``table_plans`` at each point; at all of them where ``points`` is None."""
    regrets = verdicts(samples, table_answers(samples, table, alone=True)).regret.tolist()
    return regrets if points is None else [regrets[point] for point in points]


def certify(samples: Samples, table: PlannerTable) -> Certificate:
    """The certificate of ``table``: its regret where it was fitted, and that of its ``outside`` on left-out groups."""
    own = summarise(table_regrets(samples, table))
    assert own is not None, "samples are never empty"
    outside = table.outside
    held_out = None
    if outside is not None:
        held_out = next(score.groups for score in outside.scores if score.method == outside.groups)
    return Certificate(own.points, own.mean, own.p95, own.worst, held_out)
