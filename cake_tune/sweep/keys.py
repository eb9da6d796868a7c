"""The key of a point: everything that a row measured before must share with the work at hand to be used again."""

import hashlib
import json
from dataclasses import asdict

from cake_tune.measure.protocol import PROTOCOL
from cake_tune.planner.shape import Device
from cake_tune.planner.table import KernelIdentity
from cake_tune.spec import Point, Spec


def point_keys(spec: Spec, device: Device, kernel: KernelIdentity) -> dict[str, Point]:
    """The points of ``spec`` in its order, by key.

    A key is 32 hex digits of a hash over shape, plans (in any order), backend, seed, every number of the protocol,
    device, and kernel identity with compiler and driver.
    """
    common = {
        "protocol": PROTOCOL,
        "options": asdict(spec.protocol),
        "seed": spec.seed,
        "backend": spec.backend,
        "device": asdict(device),
        "kernel": asdict(kernel),
    }
    return {_digest({**common, **_work(point)}): point for point in spec.points()}


def _work(point: Point) -> dict[str, object]:
    return {"shape": asdict(point.shape), "plans": [asdict(plan) for plan in sorted(point.plans)]}


def _digest(content: dict[str, object]) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
