"""Where a table answers with a plan that has a time: what it may call measured."""

from collections.abc import Iterator
from typing import get_args

from cake_tune.fit.answers import table_answers, verdicts
from cake_tune.fit.samples import Samples
from cake_tune.planner.shape import Kernel
from cake_tune.planner.table import PlannerTable, Region


def regions_of(samples: Samples, table: PlannerTable) -> Iterator[Region]:
    """Where ``table``, exceptions included, answers with a plan that has a time in ``samples``."""
    timed = {kernel: verdicts(samples, table_answers(samples, table, kernel)).timed for kernel in get_args(Kernel)}
    for group, points in samples.groups():
        tokens = samples.num_tokens[points.start : points.stop]
        decode, prefill = (
            tuple(tokens[timed[kernel][points.start : points.stop]].tolist()) for kernel in ("decode", "prefill")
        )
        if decode or prefill:
            yield Region(*group, decode=decode, prefill=prefill)
