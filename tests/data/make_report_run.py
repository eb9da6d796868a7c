"""Write ``report-run/``, the small synthetic run of the report's tests, with the table and report it must give.

The times are seeded and synthetic, and labelled as such.

python tests/data/make_report_run.py
"""

import math
import random
import shutil
from dataclasses import asdict, replace
from pathlib import Path

from cake_tune.fit.run import table_of_run
from cake_tune.journal.journal import Journal
from cake_tune.journal.record import PlanRow, PointRecord
from cake_tune.journal.run import RunDirectory, RunInfo
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.lookup import decide
from cake_tune.planner.registry import shipped_tables
from cake_tune.planner.shape import Device, Plan, Shape, every_plan, simplest
from cake_tune.planner.table import FAMILY, KernelIdentity, save_table
from cake_tune.report import write_report

SEED = 20
BAND = 0.01
KEPT = 21
"""The point whose plan in force is kept although it measures slower, because its times are wild."""
TOKENS = (1, 2, 4, 6, 8, 16, 32)
GROUPS = ((16, 128, 0), (16, 512, 0), (64, 512, 0), (64, 512, 128), (8, 512, 0))
IN_FORCE = next(table for table in shipped_tables() if table.device.num_sms == 48)
INFO = RunInfo(
    device=Device("Synthetic CPU", "cpu", 4, 33554432),
    kernel=KernelIdentity(FAMILY, "synthetic-1"),
    backend="cpu",
    sweep="synthetic-times",
    spec_text="# synthetic\n",
    spec_path="sweeps/synthetic-times.yaml",
    protocol=asdict(Protocol()),
    tie_band=BAND,
    tool_version="0.1.0",
    started="2025-03-01T09:00:00+00:00",
    host={"note": "synthetic times, from tests/data/make_report_run.py"},
    in_force=IN_FORCE.label,
)


def true_us(shape: Shape, plan: Plan) -> float:
    """Waves of blocks over four workers, a cost per split, and a prefill that costs more to start and less to run."""
    blocks = shape.num_tokens * math.ceil(shape.num_heads / (16 * plan.head_tiles)) * plan.num_splits
    waves = math.ceil(blocks / INFO.device.num_sms)
    if plan.kernel == "prefill":
        return 60 + waves * 9 * plan.chunks_per_block * (0.7 + 0.3 * plan.head_tiles)
    merge = 4 + 0.8 * shape.num_tokens * plan.num_splits if plan.num_splits > 1 else 0
    return 20 + waves * (4 + 11 * plan.chunks_per_block * (0.62 + 0.38 * plan.head_tiles)) + merge


def measured(shape: Shape, plan: Plan, drift: list[float], rng: random.Random) -> PlanRow:
    time = true_us(shape, plan)
    visits = [round(time * each * math.exp(rng.gauss(0, 0.004)), 3) for each in drift]
    ordered = sorted(visits[6:])
    return PlanRow(
        plan,
        "ok",
        median_us=ordered[3],
        spread=0.004,
        visits=tuple(visits[:6]),
        confirm=tuple(visits[6:]),
        relative_error=0.0021,
    )


def wild(row: PlanRow, rows: list[PlanRow]) -> PlanRow:
    """``row`` at 4 % more than the fastest of the other ``rows``, and in one round of four faster than that."""
    fastest = min(
        (each for each in rows if each.plan != row.plan and each.median_us is not None), key=lambda each: each.median_us
    )
    ratios = (0.97, 1.12, 0.99, 1.05, 1.04, 1.09, 1.03)
    confirm = tuple(round(fastest.median_us * ratio, 3) for ratio in ratios)
    return replace(row, median_us=sorted(confirm)[3], spread=0.04, confirm=confirm)


def point(number: int, shape: Shape) -> PointRecord:
    rng = random.Random(SEED + number)
    drift = [math.exp(rng.gauss(0, 0.01)) for _ in range(13)]
    rows = [measured(shape, plan, drift, rng) for plan in every_plan(shape) if plan.num_splits in (1, 2, 4, 8)]
    kernels = {row.plan.kernel for row in rows}
    in_force = decide(
        IN_FORCE,
        num_tokens=shape.num_tokens,
        num_heads=shape.num_heads,
        topk=shape.topk,
        extra_topk=shape.extra_topk,
        num_sms=INFO.device.num_sms,
        kernel=next(iter(kernels)) if len(kernels) == 1 else None,
    ).plan
    if number == 9:
        rows[0] = PlanRow(rows[0].plan, "wrong", error="relative error 0.31 above 0.0125")
    if number == 15:
        rows[1] = PlanRow(rows[1].plan, "crashed", error="worker ended with signal 11 | see its log")
    if number == KEPT:
        rows = [wild(row, rows) if row.plan == in_force else row for row in rows]
    fastest = min(row.median_us for row in rows if row.median_us is not None)
    tied = tuple(row.plan for row in rows if row.median_us is not None and row.median_us <= fastest * (1 + BAND))
    best = in_force if in_force in tied or number == KEPT else simplest(tied)
    if best not in tied:
        tied = (best,)
    return PointRecord(
        key=f"{INFO.origin}-{number:03d}",
        shape=shape,
        status="tied" if len(tied) > 1 else "ok",
        rows=tuple(rows),
        best=best,
        tied=tied,
        incumbent=in_force,
        tie_band=BAND,
        rounds=6,
        started=f"2025-03-01T09:{number:02d}:00+00:00",
        seconds=1.5,
    )


def main() -> None:
    run = RunDirectory(Path(__file__).parent / "report-run")
    run.write_info(INFO)
    save_table(IN_FORCE, run.in_force)
    run.journal.unlink(missing_ok=True)
    shapes = [Shape(t, *group) for group in GROUPS for t in TOKENS]
    with Journal(run.journal) as journal:
        for number, shape in enumerate(shapes):
            journal.append(point(number, shape))
        lost = Shape(64, 64, 512)
        journal.append(
            PointRecord(
                f"{INFO.origin}-lost",
                lost,
                "timeout",
                rows=(),
                started="2025-03-01T10:00:00+00:00",
                error="no answer in 120 s",
            )
        )
    save_table(table_of_run(run), run.table)
    write_report(run)
    shutil.rmtree(run.plots)
    run.journal.with_name(f".{run.journal.name}.lock").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
