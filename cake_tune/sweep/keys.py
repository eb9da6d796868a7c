"""The key of a point: everything that a row measured before must share with the work at hand to be used again."""

import hashlib
import json
from dataclasses import asdict

from cake_tune.journal.run_info import RunInfo
from cake_tune.measure.protocol import PROTOCOL
from cake_tune.spec import Point, Spec


def point_keys(spec: Spec, info: RunInfo) -> dict[str, Point]:
    """The points of ``spec`` in its order, by key.

    A key is the run's origin (device, kernel identity with compiler and driver, backend and every number of the
    protocol), a dash, and 24 hex digits of a hash over protocol version, seed, shape and plans (in any order).
    """
    return {f"{info.origin}-{_digest(spec, point)}": point for point in spec.points()}


def _digest(spec: Spec, point: Point) -> str:
    work = {
        "protocol": PROTOCOL,
        "seed": spec.seed,
        "shape": asdict(point.shape),
        "plans": [asdict(plan) for plan in sorted(point.plans)],
    }
    text = json.dumps(work, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:24]
