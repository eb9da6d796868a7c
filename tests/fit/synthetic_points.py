"""Points whose truth is known: times made from a rule set, with noise common to a round and noise of each visit."""

import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from cake_tune.journal.record import PlanRow, PointRecord
from cake_tune.journal.run import RunInfo
from cake_tune.planner.rules import Rules
from cake_tune.planner.shape import Device, Plan, Shape, every_plan
from cake_tune.planner.table import FAMILY, KernelIdentity, PlannerTable, Provenance

TimeOf = Callable[[Shape, Plan], float]

POWERS = (1, 2, 4, 8, 16, 32, 64, 128)


def simulated(num_sms: int) -> Device:
    return Device("synthetic device", "simulated", num_sms)


def table_of(rules: Rules, num_sms: int, kind: str = "published") -> PlannerTable:
    return PlannerTable(
        device=simulated(num_sms),
        kernel=KernelIdentity(FAMILY, "synthetic"),
        provenance=Provenance(kind=kind, source="test"),
        calibrated_topks=(128, 512),
        rules=rules,
    )


def info_of(num_sms: int) -> RunInfo:
    return RunInfo(
        device=simulated(num_sms),
        kernel=KernelIdentity(FAMILY, "synthetic"),
        backend="synthetic",
        sweep="known-truth",
        spec_text="",
        spec_path="known-truth.yaml",
        protocol={"regime": "cold"},
        tie_band=0.01,
        tool_version="0",
        started="2025-01-01T00:00:00Z",
    )


def following(rules: Rules, num_sms: int, kernel_step: float = 0.05) -> TimeOf:
    """Times whose optimum is exactly what ``rules`` decide: other plans lose 5 % per doubling of splits away from it,
    8 % for other head tiles, and the other kernel ``kernel_step`` per octave of distance from the threshold."""

    def time_of(shape: Shape, plan: Plan) -> float:
        t, h = shape.num_tokens, shape.num_heads
        base = 10.0 * (1 + t * h * shape.chunks / num_sms / 64)
        if plan.kernel == "decode":
            tiles = rules.head_tiles(t, h, shape.chunks, num_sms)
            splits, _ = rules.splits(t, h, shape.chunks, num_sms, max_splits=16, head_tiles=tiles)
            lost = 0.05 * abs(math.log2(plan.num_splits / splits)) + 0.08 * (plan.head_tiles != tiles)
        else:
            lost = 0.08 * (plan.head_tiles != rules.prefill_tiles(t, h, shape.topk, shape.extra_topk))
        if plan.kernel != rules.kernel(t, h, shape.topk, shape.extra_topk):
            lost += kernel_step * (0.5 + abs(math.log2(t / 10)))
        return base * math.exp(lost)

    return time_of


def record_of(
    shape: Shape, times: Iterable[tuple[Plan, float]], *, noise: float = 0.0, seed: int = 0, **fields: object
) -> PointRecord:
    """A point with 12 confirmed rounds of every plan; ``noise`` is the relative deviation of one visit.

    The tie band is what the protocol's A/A run would find at such noise.
    """
    generator = np.random.default_rng([seed, *shape_numbers(shape)])
    drift = generator.normal(0, 2 * noise, 12)
    rows = []
    for plan, time in times:
        visits = time * np.exp(drift + generator.normal(0, noise, 12))
        rows.append(
            PlanRow(plan, "ok", median_us=float(np.median(visits)), spread=noise, confirm=tuple(visits.tolist()))
        )
    band = min(max(2 * 1.96 * math.sqrt(2) * noise / math.sqrt(12), 0.005), 0.02)
    measured = {"tie_band": band, "rounds": 12, "started": "2025-01-02T03:04:05Z"} | fields
    return PointRecord(key=f"{shape}", shape=shape, status="ok", rows=tuple(rows), **measured)


def shape_numbers(shape: Shape) -> tuple[int, ...]:
    return shape.num_tokens, shape.num_heads, shape.topk, shape.extra_topk, shape.page_size


def records_of(
    time_of: TimeOf,
    tokens: Iterable[int] = POWERS,
    heads: Iterable[int] = (16, 32, 64, 128),
    topks: Iterable[int] = (128, 512, 1024),
    noise: float = 0.0,
    seed: int = 0,
) -> Iterator[PointRecord]:
    tokens, topks = tuple(tokens), tuple(topks)
    for h in heads:
        for topk in topks:
            for t in tokens:
                shape = Shape(t, h, topk)
                plans = [plan for plan in every_plan(shape) if plan.num_splits <= 16]
                yield record_of(shape, [(plan, time_of(shape, plan)) for plan in plans], noise=noise, seed=seed)
