"""A journal of any size, as a sweep would have left it: made-up times, the rounds and statuses of a real race.

``python benchmarks/scale_journal.py DIRECTORY [--rows N]`` writes a run directory of about ``N`` rows, which are the
lines of its ``measurements.csv``: one plan of one point each. The same ``N`` gives the same bytes.
"""

import argparse
import itertools
import math
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np

from cake_tune.journal.codec import record_to_json
from cake_tune.journal.line import frame
from cake_tune.journal.record import PlanRow, PointRecord
from cake_tune.journal.run import RunDirectory, RunInfo
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.lookup import decide
from cake_tune.planner.registry import nearest_published
from cake_tune.planner.shape import HEAD_COUNTS, Device, Plan, Shape, every_plan, head_blocks
from cake_tune.planner.table import FAMILY, KernelIdentity, save_table

NUM_SMS = 188
NOISE, BAND = 0.01, 0.01
TOPKS = (64, 128, 192, 256, 384, 512, 640, 768, 896, 1024, 1152, 1280, 1536, 1792, 1984, 2048)
EXTRA_TOPKS = (0, 64, 128, 192, 256, 320, 512, 1024)
TOKENS = sorted({round(2 ** (step / 4)) for step in range(49)})
"""1 to 4096, four per octave."""
INFO = RunInfo(
    device=Device("Scale benchmark", "simulated", NUM_SMS),
    kernel=KernelIdentity(FAMILY, "scale"),
    backend="simulated",
    sweep="scale",
    spec_text="",
    spec_path="scale.yaml",
    protocol=asdict(Protocol()),
    tie_band=BAND,
    tool_version="0",
    started="2025-01-01T00:00:00+00:00",
)


def shapes() -> Iterator[Shape]:
    """Every shape of the grid, page sizes over and over until somebody stops asking."""
    for page in itertools.count(1):
        for extra, topk, heads, tokens in itertools.product(EXTRA_TOPKS, TOPKS, HEAD_COUNTS, TOKENS):
            yield Shape(tokens, heads, topk, extra, page_size=64 * page)


def time_us(shape: Shape, plan: Plan) -> float:
    """Waves of blocks and a merge: enough for splits to pay at few tokens, and prefill at many."""
    blocks = shape.num_tokens * head_blocks(shape.num_heads, plan.head_tiles) * plan.num_splits
    step, start = (0.8, 4.0) if plan.kernel == "prefill" else (1.0, 0.5)
    block = start + step * plan.chunks_per_block * (0.3 + 0.7 * plan.head_tiles)
    merge = 1.5 + 0.02 * plan.num_splits if plan.num_splits > 1 else 0.0
    return 2.0 + math.ceil(blocks / NUM_SMS) * block + merge


def record_of(shape: Shape, number: int) -> PointRecord:
    """The record of one point: plans far behind leave after 3 rounds, rivals stay for up to 40."""
    rng = np.random.default_rng([number, 7])
    plans = [plan for plan in every_plan(shape) if plan.num_splits <= 16]
    true = [time_us(shape, plan) for plan in plans]
    best = min(true)
    in_force = decide(
        nearest_published(NUM_SMS),
        num_tokens=shape.num_tokens,
        num_heads=shape.num_heads,
        topk=shape.topk,
        extra_topk=shape.extra_topk,
    ).plan
    order = sorted(range(len(plans)), key=lambda i: true[i])
    rival = 40 if len(plans) > 1 and true[order[1]] < best * 1.01 else 12 if len(plans) > 1 else 0
    drift = rng.normal(0, NOISE, 40)
    rows = []
    for i, plan in enumerate(plans):
        ahead = i in order[:2] or plan == in_force
        rounds = rival if ahead else 3 if true[i] > best * 1.1 else 8
        visits = _visits(true[i], drift[:rounds], rng)
        confirm = _visits(true[i], rng.normal(0, NOISE, 12), rng) if ahead else ()
        times = sorted(confirm or visits or (true[i],))
        tied = true[i] <= best * (1 + BAND)
        status = "tied" if tied else "ok" if ahead else "pruned"
        middle = round(times[len(times) // 2], 4)
        rows.append(PlanRow(plan, status, middle, NOISE, visits, confirm, relative_error=1e-3))
    tied = tuple(sorted(row.plan for row in rows if row.status == "tied"))
    return PointRecord(
        key=f"{INFO.origin}-{number:024x}",
        shape=shape,
        status="tied" if len(tied) > 1 else "ok",
        rows=tuple(rows),
        best=in_force if in_force in tied else plans[order[0]],
        tied=tied,
        incumbent=in_force if in_force in plans else None,
        tie_band=BAND,
        rounds=rival,
        started=f"2025-01-{1 + number % 28:02d}T00:00:00.000+00:00",
        seconds=0.25,
    )


def _visits(true: float, drift: np.ndarray, rng: np.random.Generator) -> tuple[float, ...]:
    return tuple(round(x, 4) for x in (true * np.exp(drift + rng.normal(0, NOISE, len(drift)))).tolist())


def write(directory: Path, rows: int) -> tuple[int, int]:
    """A run directory with at least ``rows`` rows; returns its points and rows."""
    run = RunDirectory(directory)
    run.write_info(INFO)
    save_table(nearest_published(NUM_SMS), run.in_force)
    points = written = 0
    with run.journal.open("wb") as file:
        for shape in shapes():
            if written >= rows:
                return points, written
            record = record_of(shape, points)
            file.write(frame(record_to_json(record)))
            points, written = points + 1, written + len(record.rows)
    raise AssertionError("shapes never end")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--rows", type=int, default=1_000_000)
    options = parser.parse_args()
    points, rows = write(options.directory, options.rows)
    print(f"{options.directory}: {points} points, {rows} rows")
