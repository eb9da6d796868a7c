"""Points that lie far apart: what a search measures first, when nothing is known."""

from collections.abc import Sequence

import numpy as np

from cake_tune.fit.samples import Floats
from cake_tune.planner.shape import Shape
from cake_tune.spec import Point


def spread_out(points: Sequence[Point], count: int) -> list[Point]:
    """``count`` of ``points``, each the farthest from those before it; the first is the first. All if there are fewer.

    Distance is in octaves of num_tokens, num_heads, topk and extra_topk, an axis counting by its range: each gets its
    ends first, then its middle, and so on.
    """
    if count >= len(points):
        return list(points)
    at = places([point.shape for point in points])
    nearest = np.full(len(points), np.inf)
    chosen = [0]
    for _ in range(count - 1):
        nearest = np.minimum(nearest, ((at - at[chosen[-1]]) ** 2).sum(axis=1))
        chosen.append(int(np.argmax(nearest)))
    return [points[i] for i in chosen]


def places(shapes: Sequence[Shape]) -> Floats:
    """Each shape as a place in the unit cube: octaves over the range of each axis, [shapes, axes]."""
    axes = np.array(
        [(shape.num_tokens, shape.num_heads, shape.topk, shape.extra_topk) for shape in shapes], dtype=float
    )
    octaves = np.log2(axes + 1)
    span = octaves.max(axis=0) - octaves.min(axis=0)
    at: Floats = (octaves - octaves.min(axis=0)) / np.where(span > 0, span, 1)
    return at
