"""A table with as many exceptions as asked for, and shapes to look up in it."""

from dataclasses import replace
from typing import Any

from cake_tune.planner.registry import nearest_published
from cake_tune.planner.shape import HEAD_COUNTS, Plan, num_chunks, resolve_splits
from cake_tune.planner.table import Override, PlannerTable


def table_of(exceptions: int) -> tuple[PlannerTable, list[dict[str, Any]]]:
    """The published table of 188 multiprocessors with ``exceptions`` intervals of 8 tokens, and the shapes inside."""
    each, found = -(-exceptions // (len(HEAD_COUNTS) * 16)), []
    for heads in HEAD_COUNTS:
        for topk in range(64, 64 * 17, 64):
            chunks = num_chunks(topk)
            for i in range(each):
                plan = Plan("decode", 1, *resolve_splits(chunks, 1 + i % 4))
                found.append(Override(heads, topk, 0, 1 + 8 * i, 8 + 8 * i, plan, 0.05))
    table = replace(nearest_published(188), exceptions=tuple(found[:exceptions]))
    shapes = [
        {"num_tokens": one.min_tokens + offset, "num_heads": one.num_heads, "topk": one.topk}
        for one in table.exceptions
        for offset in range(8)
    ]
    return table, shapes
