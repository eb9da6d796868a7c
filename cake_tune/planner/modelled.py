"""Plans for shapes that were not measured: the cheapest by the cost model, or the exception of the nearest shape."""

from collections.abc import Iterator

from cake_tune.planner.cost import CostModel
from cake_tune.planner.rules import DEFAULT_MAX_SPLITS
from cake_tune.planner.shape import (
    MAX_CHUNKS_PER_BLOCK,
    Kernel,
    Plan,
    decode_tiles,
    distinct_splits,
    prefill_tiles,
    resolve_splits,
)
from cake_tune.planner.table import Override, PlannerTable


def cheapest(
    model: CostModel,
    num_tokens: int,
    num_heads: int,
    chunks: int,
    num_sms: int,
    *,
    kernel: Kernel | None = None,
    head_tiles: int | None = None,
    max_splits: int = DEFAULT_MAX_SPLITS,
) -> Plan | None:
    """The plan of ``kernel`` and ``head_tiles`` (None: any) with the least time by ``model``, the simplest of equals.

    None where none of those can run, or none was ever timed.
    """
    tokens = max(num_tokens, 1)
    best, least = None, float("inf")
    # Fewest splits first, so that of equal times the simplest stays.
    for plan in _plans(num_heads, chunks, kernel, head_tiles, max_splits):
        time = model.us(tokens, num_heads, chunks, plan, num_sms)
        if time < least:
            best, least = plan, time
    return best


def carried(table: PlannerTable, num_tokens: int, num_heads: int, topk: int, extra_topk: int) -> Override | None:
    """The exception at ``num_tokens`` of the measured (num_heads, topk, extra_topk) nearest to this one."""
    group = table.coverage.nearest_group(num_heads, topk, extra_topk)
    return None if group is None else table.override_index.find(num_tokens, *group)


def resolved(plan: Plan, num_heads: int, chunks: int) -> Plan | None:
    """``plan`` of another shape as this one runs it: the same kernel, tiles and splits. None where it cannot."""
    if plan.kernel == "prefill":
        available = plan.head_tiles in prefill_tiles(num_heads, chunks)
        return Plan("prefill", plan.head_tiles, 1, chunks, plan.options) if available else None
    splits, cpb = resolve_splits(chunks, plan.num_splits)
    if plan.head_tiles not in decode_tiles(num_heads) or cpb > MAX_CHUNKS_PER_BLOCK:
        return None
    return Plan("decode", plan.head_tiles, splits, cpb, plan.options)


def _plans(
    num_heads: int, chunks: int, kernel: Kernel | None, head_tiles: int | None, max_splits: int
) -> Iterator[Plan]:
    if kernel != "decode":
        for tiles in prefill_tiles(num_heads, chunks):
            if head_tiles in (None, tiles):
                yield Plan("prefill", tiles, 1, chunks)
    if kernel != "prefill":
        for splits, cpb in distinct_splits(chunks):
            for tiles in decode_tiles(num_heads):
                if splits <= max_splits and head_tiles in (None, tiles):
                    yield Plan("decode", tiles, splits, cpb)
