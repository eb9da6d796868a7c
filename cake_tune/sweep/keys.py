"""The key of a point: everything that a row measured before must share with the work at hand to be used again."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from random import Random

from cake_tune.journal.record import PointRecord
from cake_tune.journal.run_info import RunInfo
from cake_tune.measure.protocol import PROTOCOL
from cake_tune.planner.shape import Plan, Shape
from cake_tune.spec import Point, Spec

AUDIT = "-audit"
AUDITED = 0.05
"""Share of the points that are measured on a second GPU as well, where there is one."""


def point_keys(spec: Spec, info: RunInfo) -> dict[str, Point]:
    """The points that ``spec`` lists, in its order, by key."""
    key = Keys(spec, info).of
    return {key(point): point for point in spec.points()}


def audit_key(key: str) -> str:
    """The key under which the point ``key`` is measured on a second GPU."""
    return key + AUDIT


def is_audited(key: str, seed: int) -> bool:
    """Whether the point ``key`` is one of those that are: drawn by the seed, the same ones in every run."""
    return Random(f"{seed} audit {key}").random() < AUDITED


class Keys:
    """The keys of one sweep, and which rows are its own.

    A key is the run's origin (device, kernel identity with compiler and driver, backend and every number of the
    protocol), a dash, and 24 hex digits of a hash over protocol version, seed, shape and plans (in any order).
    """

    def __init__(self, spec: Spec, info: RunInfo, *, twins: bool = False) -> None:
        self._spec = spec
        self._origin = info.origin
        self._twins = twins
        self._listed = {point.shape: point for point in spec.points()}
        self._known = {self.of(point) for point in self._listed.values()}
        self._asked: dict[Shape, Point | None] = {}

    def of(self, point: Point) -> str:
        """The key of ``point``."""
        work = {
            "protocol": PROTOCOL,
            "seed": self._spec.seed,
            "shape": asdict(point.shape),
            "plans": [asdict(plan) for plan in sorted(point.plans)],
        }
        text = json.dumps(work | ({"twins": True} if self._twins else {}), sort_keys=True, separators=(",", ":"))
        return f"{self._origin}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"

    def admits(self, point: Point) -> bool:
        """Whether a sweep of the spec may measure ``point``.

        Its listed points; with refinement any num_tokens between the least and the most of them; an adaptive search may
        leave plans out.
        """
        allowed = self._listed.get(point.shape)
        search = self._spec.search
        if allowed is None and (search.refine or search.method == "adaptive"):
            allowed = _once(self._asked, point.shape, self._spec.point_at)
        if allowed is None:
            return False
        plans, every = set(point.plans), set(allowed.plans)
        return plans == every or (search.method == "adaptive" and bool(plans) and plans < every)

    def own(self, record: PointRecord) -> bool:
        """Whether ``record`` is of this sweep: of its origin, seed and protocol, and of a point that it admits."""
        key = record.audits or record.key
        if record.audits and record.key != audit_key(key):
            return False
        if key in self._known:
            return True
        point = Point(record.shape, _plans(record))
        return not self._twins and key == self.of(point) and self.admits(point)


def _plans(record: PointRecord) -> tuple[Plan, ...]:
    return tuple(row.plan for row in record.rows)


def _once(known: dict[Shape, Point | None], shape: Shape, ask: Callable[[Shape], Point | None]) -> Point | None:
    if shape not in known:
        known[shape] = ask(shape)
    return known[shape]
