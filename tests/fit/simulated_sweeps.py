"""Records of sweeps on simulated devices, without a worker: the race itself, with one draw of noise per visit."""

from collections.abc import Iterator
from random import Random

from cake_tune.backends.simulated_device import SimulatedDevice
from cake_tune.backends.simulated_noise import Noise
from cake_tune.backends.simulated_time import grid_of
from cake_tune.journal.record import PointRecord
from cake_tune.journal.run import RunInfo
from cake_tune.measure.protocol import Protocol
from cake_tune.measure.race import race
from cake_tune.measure.visit import Visit
from cake_tune.planner.lookup import decide
from cake_tune.planner.rules import DEFAULT_MAX_SPLITS
from cake_tune.planner.shape import Plan, Shape, every_plan
from cake_tune.planner.table import FAMILY, KernelIdentity, PlannerTable
from cake_tune.sweep.rows import decided_record
from cake_tune.sweep.tasks import PointTask

PROTOCOL = Protocol()
BAND = 0.013
"""What the A/A run gives at 1 % noise, give or take."""


def plans_of(shape: Shape) -> tuple[Plan, ...]:
    return tuple(plan for plan in every_plan(shape) if plan.num_splits <= DEFAULT_MAX_SPLITS)


def swept(device: SimulatedDevice, shapes: list[Shape], in_force: PlannerTable, seed: int = 0) -> Iterator[PointRecord]:
    grid = grid_of([(shape, plans_of(shape)) for shape in shapes])
    times, noise = grid.times(device), Noise(f"{seed} {device.name}", device.noise)
    for i, (shape, plans) in enumerate(zip(grid.shapes, grid.plans, strict=True)):
        true = dict(zip(plans, times[grid.start[i] : grid.start[i + 1]].tolist(), strict=True))
        held = decide(in_force, num_sms=device.num_sms, **asked(shape)).plan

        def visit(plan: Plan, true: dict[Plan, float] = true) -> Visit:
            return Visit(noise.median(true[plan], PROTOCOL.samples))

        result = race(plans, visit, in_force=held, protocol=PROTOCOL, band=BAND, rng=Random(f"{seed} {shape}"))
        yield decided_record(PointTask(f"{shape}", shape, plans, held, BAND), result, {}, {}, "cold")


def true_regrets(device: SimulatedDevice, shapes: list[Shape], table: PlannerTable) -> list[float]:
    """What the plans of ``table`` truly lose, against every plan that can run."""
    grid = grid_of([(shape, plans_of(shape)) for shape in shapes])
    times, lost = grid.times(device), []
    for i, shape in enumerate(shapes):
        here = dict(zip(grid.plans[i], times[grid.start[i] : grid.start[i + 1]].tolist(), strict=True))
        lost.append(here[decide(table, **asked(shape)).plan] / min(here.values()) - 1)
    return lost


def asked(shape: Shape) -> dict[str, int]:
    return {
        "num_tokens": shape.num_tokens,
        "num_heads": shape.num_heads,
        "topk": shape.topk,
        "extra_topk": shape.extra_topk,
    }


def info_for(device: SimulatedDevice) -> RunInfo:
    return RunInfo(
        device=device.device,
        kernel=KernelIdentity(FAMILY, device.digest),
        backend="simulated",
        sweep="known-truth",
        spec_text="",
        spec_path="known-truth.yaml",
        protocol={"regime": "cold"},
        tie_band=BAND,
        tool_version="0",
        started="2025-01-01T00:00:00Z",
    )
