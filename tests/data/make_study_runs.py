"""Write ``study/``: three small synthetic runs for the tests of studies, and the report that they must give.

Runs ``a`` and ``b`` are two occasions of one sweep, ``c`` has held-out shapes, and ``a`` has an A/A run and audits on
a second GPU. They are raced by the real race on a seeded device that drifts and spikes, and are labelled synthetic.

python tests/data/make_study_runs.py
"""

import math
import shutil
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from pathlib import Path
from random import Random

from cake_tune.fit.run import table_of_run
from cake_tune.journal.journal import Journal
from cake_tune.journal.record import PointRecord
from cake_tune.journal.run import RunDirectory, RunInfo
from cake_tune.measure.protocol import Protocol
from cake_tune.measure.race import race
from cake_tune.measure.visit import Visit
from cake_tune.planner.lookup import decide
from cake_tune.planner.registry import shipped_tables
from cake_tune.planner.shape import Device, Plan, Shape, every_plan
from cake_tune.planner.table import FAMILY, KernelIdentity, save_table
from cake_tune.study.gather import gather
from cake_tune.study.write import write_study
from cake_tune.sweep.rows import decided_record
from cake_tune.sweep.tasks import PointTask
from cake_tune.sweep.twins import labelled, twin_record

DATA = Path(__file__).parent / "study"
BAND = 0.01
NOISE = 0.015
PROTOCOL = Protocol(max_rounds=10, kn_rounds=4, confirm_rounds=5)
IN_FORCE = next(table for table in shipped_tables() if table.device.num_sms == 48)
SHAPES = [Shape(t, heads, topk) for heads in (16, 64) for topk in (256, 512) for t in (1, 4, 16, 64)]
HELD_OUT = [*(Shape(t, heads, 384) for heads in (16, 32) for t in (2, 8, 32)), SHAPES[0]]
INFO = RunInfo(
    device=Device("Synthetic", "simulated", 12),
    kernel=KernelIdentity(FAMILY, "synthetic-1"),
    backend="simulated",
    sweep="synthetic-study",
    spec_text="# synthetic\n",
    spec_path="sweeps/synthetic-study.yaml",
    protocol=asdict(PROTOCOL),
    tie_band=BAND,
    tool_version="0.1.0",
    started="2025-03-01T09:00:00+00:00",
    host={"note": "synthetic times, from tests/data/make_study_runs.py"},
    in_force=IN_FORCE.label,
)


def true_us(shape: Shape, plan: Plan) -> float:
    """Waves of blocks, a cost per split, and a prefill that costs more to start and less to run; plans are close."""
    blocks = shape.num_tokens * math.ceil(shape.num_heads / (16 * plan.head_tiles)) * plan.num_splits
    waves = max(1.0, blocks / INFO.device.num_sms)
    if plan.kernel == "prefill":
        raw = 14 + waves * 1.2 * plan.chunks_per_block * (0.7 + 0.3 * plan.head_tiles)
    else:
        merge = 2 + 0.04 * shape.num_tokens * plan.num_splits if plan.num_splits > 1 else 0
        raw = 6 + waves * (1 + 1.6 * plan.chunks_per_block * (0.62 + 0.38 * plan.head_tiles)) + merge
    return 5 * raw**0.25 * shape.num_tokens**0.5


def noisy(time_of: Callable[[Plan], float], rng: Random, noise: float) -> Callable[[Plan], Visit]:
    """A visitor with slow drift, noise per visit, and now and then a spike that means see and medians do not."""
    visits = 0

    def visit(plan: Plan) -> Visit:
        nonlocal visits
        visits += 1
        time = time_of(plan) * math.exp(0.01 * math.sin(visits / 25) + rng.gauss(0, noise))
        mean = time * (1.05 if rng.random() < 0.1 else 1.001)
        return Visit(round(time, 3), mean_us=round(mean, 3), mad_us=round(time * 0.004, 3))

    return visit


def point(run: str, number: int, shape: Shape, slower: float = 1.0) -> PointRecord:
    rng = Random(f"{run} {number}")
    plans = tuple(plan for plan in every_plan(shape) if plan.num_splits in (1, 2, 4))
    in_force = answer(shape)
    task = PointTask(f"{INFO.origin}-{run}{number:03d}", shape, plans, in_force if in_force in plans else None, BAND)
    visit = noisy(lambda plan: slower * true_us(shape, plan), rng, NOISE)
    result = race(plans, visit, in_force=task.in_force, protocol=PROTOCOL, band=BAND, rng=rng)
    return placed(decided_record(task, result, {}, dict.fromkeys(plans, 0.002), "cold"), number, "GPU-1")


def twin(number: int, shape: Shape) -> PointRecord:
    rng = Random(f"twin {number}")
    plan = answer(shape)
    task = PointTask(f"{INFO.origin}-t{number:03d}", shape, (plan,), plan, BAND, twins=True)
    visit = noisy(lambda _: true_us(shape, plan), rng, NOISE)
    result = race(labelled(plan), visit, in_force=None, protocol=PROTOCOL, band=BAND, rng=rng)
    return placed(twin_record(task, result, 0.002, "cold"), number, "GPU-1")


def placed(record: PointRecord, number: int, gpu: str) -> PointRecord:
    audit = {"gpu_seconds": 0.7 + number / 200, "slot_seconds": 1.1, "sample_seconds": 0.85, "check_seconds": 0.1}
    return replace(record, started=f"2025-03-01T09:{number:02d}:00+00:00", seconds=1.0, gpu=gpu, audit=audit)


def answer(shape: Shape) -> Plan:
    return decide(
        IN_FORCE,
        num_tokens=shape.num_tokens,
        num_heads=shape.num_heads,
        topk=shape.topk,
        extra_topk=shape.extra_topk,
        num_sms=INFO.device.num_sms,
    ).plan


def write(directory: RunDirectory, records: Iterable[PointRecord]) -> None:
    directory.journal.unlink(missing_ok=True)
    with Journal(directory.journal) as journal:
        for record in records:
            journal.append(record)
    directory.journal.with_name(f".{directory.journal.name}.lock").unlink(missing_ok=True)


def main() -> None:
    shutil.rmtree(DATA, ignore_errors=True)
    runs = {name: RunDirectory(DATA / name) for name in "abc"}
    for name, run in runs.items():
        run.write_info(INFO if name != "c" else replace(INFO, sweep="synthetic-held-out"))
        save_table(IN_FORCE, run.in_force)
        records = [point(name, number, shape) for number, shape in enumerate(HELD_OUT if name == "c" else SHAPES)]
        if name == "a":
            repeated = [(number, point("audit", number, SHAPES[number], 1.03)) for number in (2, 9)]
            records += [replace(each, gpu="GPU-2", audits=records[number].key) for number, each in repeated]
        write(run, records)
    save_table(table_of_run(runs["a"]), runs["a"].table)
    twins = RunDirectory(DATA / "a" / "aa")
    twins.write_info(INFO)
    write(twins, [twin(number, shape) for number, shape in enumerate(SHAPES)])
    write_study(gather(runs["a"], runs["b"], runs["c"]), DATA / "golden")
    for name in ("plots", "agreement.csv", "gpus.csv", "regret.csv", "replay.csv", "twins.csv"):
        path = DATA / "golden" / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()


if __name__ == "__main__":
    main()
