"""A sweep of a simulated device without its worker: the race of every point, and what a table loses by the truth."""

from random import Random

from cake_tune.backends.simulated_noise import Noise
from cake_tune.backends.simulated_time import grid_of
from cake_tune.journal.run import RunInfo
from cake_tune.measure.protocol import Protocol
from cake_tune.measure.race import race
from cake_tune.measure.visit import Visit
from cake_tune.planner.lookup import decide
from cake_tune.planner.shape import Shape, every_plan
from cake_tune.planner.table import FAMILY, KernelIdentity
from cake_tune.spec import Point, Search, Spec
from cake_tune.sweep.rows import decided_record
from cake_tune.sweep.tasks import PointTask

PROTOCOL = Protocol()
BAND = 0.01


def info_of(device):
    return RunInfo(
        device=device.device,
        kernel=KernelIdentity(FAMILY, device.digest),
        backend="simulated",
        sweep="search",
        spec_text="",
        spec_path="",
        protocol={"regime": "cold"},
        tie_band=BAND,
        tool_version="0",
        started="2025-01-01T00:00:00Z",
    )


def spec_of(tokens, heads, topks, regret):
    shapes = [Shape(t, h, k) for t in tokens for h in heads for k in topks]
    points = tuple(Point(shape, tuple(plan for plan in every_plan(shape) if plan.num_splits <= 16)) for shape in shapes)
    return Spec("search", "simulated", expanded=points, search=Search("adaptive", regret=regret))


def measured(device, points):
    """One record per point; the noise of a point depends on nothing but the point."""
    return [_record(device, point) for point in points]


def _record(device, point):
    true = dict(zip(point.plans, grid_of([(point.shape, point.plans)]).times(device).tolist(), strict=True))
    noise = Noise(f"{point.shape} {len(point.plans)}", device.noise)
    task = PointTask(key=f"0-{point.shape}", shape=point.shape, plans=point.plans, in_force=None, band=BAND)
    result = race(
        point.plans,
        lambda plan: Visit(noise.median(true[plan], PROTOCOL.samples)),
        in_force=None,
        protocol=PROTOCOL,
        band=BAND,
        rng=Random(f"{point.shape}"),
    )
    return decided_record(task, result, {}, {}, "cold")


def table_regret(device, spec, table):
    """The mean regret of ``table`` at the points of ``spec``, by the true times."""
    lost = []
    for point in spec.points():
        true = dict(zip(point.plans, grid_of([(point.shape, point.plans)]).times(device).tolist(), strict=True))
        shape = point.shape
        plan = decide(table, num_tokens=shape.num_tokens, num_heads=shape.num_heads, topk=shape.topk).plan
        lost.append(true[plan] / min(true.values()) - 1)
    return sum(lost) / len(lost)
