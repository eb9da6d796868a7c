"""The constants of a cost model as they stand in an emitted module."""

from cake_tune.export.conditions import WIDTH
from cake_tune.planner.cost import MANY_SPLITS, CostModel


def constants(model: CostModel) -> list[tuple[str, float, str]]:
    """Name, value and meaning of what all kernels have in common. Times in microseconds."""
    return [
        ("LAUNCH_US", model.launch_us, "every call"),
        ("GATHER_US", model.gather_us, "a chunk's share of the memory, per running CTA"),
        ("REREAD", model.reread, "the share of that for further head blocks"),
        ("MERGE_US", model.merge_us, "every call that splits"),
        ("MERGE_BATCH", model.merge_batch, "splits that the merge reads in one step"),
        ("MERGE_STEP_US", model.merge_step_us, "per step begun"),
        ("MERGE_ROW_US", model.merge_row_us, "per split, token and head"),
        *(_pairs(model.pair_us) if model.pair_us is not None else ()),
        ("WAVE_SHARE", model.wave_share, "of the time that rounds up to whole waves"),
        ("SHARPNESS", model.sharpness, "of the change from compute- to memory-bound"),
    ]


def _pairs(pair_us: float) -> list[tuple[str, float, str]]:
    return [
        ("PAIR_US", pair_us, "two splits merged by a pair of CTAs"),
        ("MANY_SPLITS", MANY_SPLITS, "splits from which on pairs of them are merged so"),
    ]


def cost_lines(model: CostModel) -> list[str]:
    """The entries of a dict from (kernel, head_tiles) to what a CTA of it costs."""
    lines = []
    for cost in model.kernels:
        key = f'("{cost.kernel}", {cost.head_tiles})'
        values = f"{cost.heads_per_block}, {cost.blocks_per_sm}, {cost.block_us}, {cost.chunk_us}, {cost.crowding}"
        line = f"    {key}: _Cost({values}),"
        lines += [line] if len(line) <= WIDTH else [f"    {key}: _Cost(", f"        {values}", "    ),"]
    return lines
