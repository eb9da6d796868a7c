"""A simulated device to study: its truth, and its measurements by the protocol, without a worker process.

What a worker adds (processes, the correctness gate, samples one by one) makes no difference to a simulated device: each
visit is one draw from the same noise, and the records are those that a sweep would write.
"""

from collections.abc import Mapping, Sequence
from random import Random

import numpy as np

from cake_tune.backends.simulated_device import SimulatedDevice
from cake_tune.backends.simulated_noise import Noise
from cake_tune.backends.simulated_time import grid_of
from cake_tune.journal.record import PlanRow, PointRecord
from cake_tune.journal.run import RunInfo
from cake_tune.measure.calibrate import measure_band
from cake_tune.measure.protocol import Protocol
from cake_tune.measure.race import race
from cake_tune.measure.visit import Visit
from cake_tune.planner.lookup import plan_for
from cake_tune.planner.shape import Plan
from cake_tune.planner.table import FAMILY, KernelIdentity, PlannerTable
from cake_tune.spec import Point
from cake_tune.sweep.provenance import plan_in_force
from cake_tune.sweep.rows import decided_record
from cake_tune.sweep.tasks import PointTask

PROTOCOL = Protocol()
_MIDDLE_US = 20.0
"""Length of the call on which the tie band is measured."""


class Subject:
    """One device with the table in force on it, and its tie band."""

    def __init__(self, device: SimulatedDevice, in_force: PlannerTable) -> None:
        self.device, self.in_force = device, in_force
        noise = Noise(f"{device.name} band", device.noise)
        visit = _visitor(noise, {})
        found = measure_band(lambda: visit(None), PROTOCOL, Random(f"{device.name} band"))
        self.band = PROTOCOL.band_max if found is None else found

    @property
    def info(self) -> RunInfo:
        """The provenance that a sweep of it would write."""
        return RunInfo(
            device=self.device.device,
            kernel=KernelIdentity(FAMILY, self.device.digest, "simulated"),
            backend="simulated",
            sweep="fit-study",
            spec_text="",
            spec_path="",
            protocol={"regime": PROTOCOL.regime},
            tie_band=self.band,
            tool_version="",
            started="",
        )

    def true_us(self, points: Sequence[Point]) -> list[dict[Plan, float]]:
        """Microseconds of every plan of every point, without noise."""
        grid = grid_of([(point.shape, point.plans) for point in points])
        times = np.split(grid.times(self.device), grid.start[1:-1])
        return [dict(zip(point.plans, here.tolist(), strict=True)) for point, here in zip(points, times, strict=True)]

    def measure(self, points: Sequence[Point], occasion: str = "") -> list[PointRecord]:
        """The records of a sweep of ``points``; another ``occasion`` draws other noise."""
        return [self._measure(point, true, occasion) for point, true in zip(points, self.true_us(points), strict=True)]

    def noise(self, name: str) -> Noise:
        """A stream of this device's noise."""
        return Noise(f"{self.device.name} {name}", self.device.noise)

    def plan_in_force(self, point: Point) -> Plan | None:
        """What the table in force would run."""
        return plan_in_force(self.in_force, self.device.device, point)

    def _measure(self, point: Point, true: Mapping[Plan, float], occasion: str) -> PointRecord:
        name = f"{occasion} {point.shape} {len(point.plans)}"
        held = self.plan_in_force(point)
        slowest = PROTOCOL.too_slow_factor * min(true.values())
        raced = [plan for plan in point.plans if true[plan] <= slowest]
        failed = {plan: PlanRow(plan, "too_slow") for plan in point.plans if plan not in raced}
        result = race(
            raced,
            _visitor(self.noise(name), true),
            in_force=held if held in raced else None,
            protocol=PROTOCOL,
            band=self.band,
            rng=Random(name),
        )
        task = PointTask(f"0-{point.shape}", point.shape, point.plans, held, self.band)
        return decided_record(task, result, failed, {}, PROTOCOL.regime)


def table_losses(table: PlannerTable, points: Sequence[Point], true: Sequence[Mapping[Plan, float]]) -> list[float]:
    """What the answers of ``table`` truly lose, as fractions; an answer that is no plan of the point, the most."""
    return [loss(plan_for(table, point.shape), times) for point, times in zip(points, true, strict=True)]


def loss(plan: Plan | None, times: Mapping[Plan, float]) -> float:
    """What ``plan`` loses to the fastest, by ``times``; the slowest's loss for one without."""
    best = min(times.values())
    return (times[plan] if plan in times else max(times.values())) / best - 1  # type: ignore[index]


def _visitor(noise: Noise, true: Mapping[Plan, float]):  # type: ignore[no-untyped-def]
    return lambda plan: Visit(noise.median(true.get(plan, _MIDDLE_US), PROTOCOL.samples))
