"""How much the fit study simulates."""

from dataclasses import dataclass
from itertools import product
from random import Random

from cake_tune.planner.rules import DEFAULT_MAX_SPLITS
from cake_tune.planner.shape import HEAD_COUNTS, Shape, every_plan
from cake_tune.spec import Point


@dataclass(frozen=True, slots=True)
class Size:
    """The grid that every device is measured on, the held-out shapes, and the points at which selectors compete."""

    tokens: tuple[int, ...]
    heads: tuple[int, ...]
    topks: tuple[int, ...]
    held_out: int
    contested: int

    def grid(self) -> list[Point]:
        """The measured points."""
        return [point_of(Shape(t, h, k)) for h, k, t in product(self.heads, self.topks, self.tokens)]

    def unseen(self, seed: int) -> list[Point]:
        """Held-out shapes, drawn by ``seed``: any head count, top-k and num_tokens within the span of the grid."""
        rng = Random(f"held out {seed}")
        seen = {point.shape for point in self.grid()}
        drawn: dict[Shape, Point] = {}
        while len(drawn) < self.held_out:
            tokens = round(self.tokens[0] * (self.tokens[-1] / self.tokens[0]) ** rng.random())
            topk = rng.choice([k for k in TOPKS if self.topks[0] <= k <= self.topks[-1]])
            heads = rng.choice([h for h in HEAD_COUNTS if self.heads[0] <= h <= self.heads[-1]])
            shape = Shape(tokens, heads, topk)
            if shape not in seen:
                drawn[shape] = point_of(shape)
        return list(drawn.values())


TOPKS = (128, 192, 256, 384, 512, 640, 768, 1024)

FULL = Size(
    tokens=(1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256),
    heads=(16, 32, 64, 128),
    topks=(128, 512, 1024),
    held_out=60,
    contested=12,
)
SHORT = Size(
    tokens=(1, 2, 4, 8, 16, 32, 64, 128), heads=(16, 64, 128), topks=(128, 512, 1024), held_out=30, contested=6
)


def point_of(shape: Shape) -> Point:
    """The shape with every plan that a look-up may answer."""
    return Point(shape, tuple(plan for plan in every_plan(shape) if plan.num_splits <= DEFAULT_MAX_SPLITS))
