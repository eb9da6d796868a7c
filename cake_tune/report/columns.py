"""The columns of ``measurements.csv``: name, meaning and value of each, in one place."""

from collections.abc import Callable
from dataclasses import dataclass

from cake_tune.journal.record import PlanRow, PointRecord
from cake_tune.journal.run import RunInfo
from cake_tune.planner.shape import scratch_bytes

RECORD_BYTES = 384
"""Bytes of one cached token."""
HEAD_BYTES = 1024
"""Bytes of one head's query, and of its output: 512 BF16 values."""

Value = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Cell:
    """What a value is taken from: one plan's row at one point of a run, and the point's fastest time."""

    info: RunInfo
    record: PointRecord
    row: PlanRow
    best_us: float | None


@dataclass(frozen=True, slots=True)
class Column:
    """One column: units are in the name, ``meaning`` is its documentation."""

    name: str
    meaning: str
    value: Callable[[Cell], Value]
    of_point: bool = False
    """Whether all plans of a point share the value."""


def bandwidth_gbps(cell: Cell) -> float | None:
    """Gigabytes per second of the bytes that the call must move at full lengths; None without a time."""
    shape, time = cell.record.shape, cell.row.median_us
    if not time:
        return None
    gathered = shape.num_tokens * (shape.topk + shape.extra_topk) * RECORD_BYTES
    dense = 2 * shape.num_tokens * shape.num_heads * HEAD_BYTES
    return (gathered + dense) / time / 1e3


def regret_pct(cell: Cell) -> float | None:
    """Per cent lost to the fastest plan of the point; None without a time."""
    if cell.row.median_us is None or cell.best_us is None:
        return None
    return 100 * (cell.row.median_us / cell.best_us - 1)


COLUMNS = (
    Column("num_tokens", "query tokens of the call, T", lambda c: c.record.shape.num_tokens, of_point=True),
    Column("num_heads", "query heads, H", lambda c: c.record.shape.num_heads, of_point=True),
    Column("topk", "candidates per token in the main cache", lambda c: c.record.shape.topk, of_point=True),
    Column(
        "extra_topk",
        "candidates per token in the extra cache; 0: none",
        lambda c: c.record.shape.extra_topk,
        of_point=True,
    ),
    Column("page_size", "tokens per page of the main cache", lambda c: c.record.shape.page_size, of_point=True),
    Column(
        "extra_page_size", "tokens per page of the extra cache", lambda c: c.record.shape.extra_page_size, of_point=True
    ),
    Column("lengths", "whether per-token valid lengths were passed", lambda c: c.record.shape.lengths, of_point=True),
    Column("sink", "whether an attention sink was passed", lambda c: c.record.shape.sink, of_point=True),
    Column("kernel", "decode or prefill", lambda c: c.row.plan.kernel),
    Column("head_tiles", "tiles of 16 heads per block", lambda c: c.row.plan.head_tiles),
    Column("num_splits", "splits of the candidates, as resolved", lambda c: c.row.plan.num_splits),
    Column("chunks_per_block", "chunks of 64 candidates per block", lambda c: c.row.plan.chunks_per_block),
    Column(
        "options",
        "build options of the kernel, name=value, separated by semicolons",
        lambda c: ";".join(f"{name}={value}" for name, value in c.row.plan.options),
    ),
    Column("status", "ok, tied, pruned (left the race), or what went wrong with the plan", lambda c: c.row.status),
    Column("median_us", "reported time of one call in microseconds; empty: not measured", lambda c: c.row.median_us),
    Column(
        "spread_pct",
        "median absolute deviation of the plan's visits, per cent of its time",
        lambda c: None if c.row.spread is None else 100 * c.row.spread,
    ),
    Column("race_visits", "visits in the race", lambda c: len(c.row.visits)),
    Column("confirm_visits", "fresh visits behind the reported time; 0: not confirmed", lambda c: len(c.row.confirm)),
    Column("regret_pct", "per cent of `median_us` above the least of the point", regret_pct),
    Column("is_best", "whether the protocol chose the plan", lambda c: c.row.plan == c.record.best),
    Column("is_tied", "whether the plan is in the chosen plan's tie set", lambda c: c.row.plan in c.record.tied),
    Column("is_in_force", "whether the plan was in force before", lambda c: c.row.plan == c.record.incumbent),
    Column(
        "bandwidth_GBps",
        "cache records, queries and outputs that the call must move at full lengths, over its time",
        bandwidth_gbps,
    ),
    Column(
        "scratch_bytes",
        "upper bound of the split scratch; 0 for a plan without splits",
        lambda c: _scratch(c) if c.row.plan.num_splits > 1 else 0,
    ),
    Column(
        "tie_band_pct",
        "times within this many per cent count as equal",
        lambda c: 100 * c.record.tie_band,
        of_point=True,
    ),
    Column("point_status", "status of the whole point", lambda c: c.record.status, of_point=True),
    Column("regime", "cold or warm caches", lambda c: c.record.regime, of_point=True),
    Column("started", "UTC time at which the point began", lambda c: c.record.started, of_point=True),
    Column("backend", "what ran it", lambda c: c.info.backend, of_point=True),
    Column("device", "device name", lambda c: c.info.device.name, of_point=True),
    Column("arch", "device architecture; cpu and simulated are no GPU", lambda c: c.info.device.arch, of_point=True),
    Column("num_sms", "multiprocessors, or worker threads on a CPU", lambda c: c.info.device.num_sms, of_point=True),
    Column(
        "kernel_identity", "hash of kernel sources and build options", lambda c: c.info.kernel.identity, of_point=True
    ),
    Column(
        "relative_error",
        "largest error that the correctness gate found, relative to the reference; empty: the plan never passed it",
        lambda c: c.row.relative_error,
    ),
    Column("error", "what failed", lambda c: c.row.error or c.record.error),
)


def _scratch(cell: Cell) -> int:
    shape = cell.record.shape
    return scratch_bytes(shape.num_tokens, shape.num_heads, shape.topk, shape.extra_topk)
