"""One plan for everything, resolved at every shape: what a tuner without shapes would ship."""

from collections.abc import Iterable
from typing import NamedTuple

from cake_tune.planner.shape import (
    MAX_CHUNKS_PER_BLOCK,
    Kernel,
    Plan,
    Shape,
    decode_tiles,
    prefill_tiles,
    resolve_splits,
)


class Request(NamedTuple):
    """One (kernel, head_tiles, num_splits) for every shape."""

    kernel: Kernel
    head_tiles: int
    num_splits: int

    def __str__(self) -> str:
        tiles = f"{self.head_tiles} head tile{'s' * (self.head_tiles > 1)}"
        splits = f", {self.num_splits} split{'s' * (self.num_splits > 1)}" if self.kernel == "decode" else ""
        return f"always {self.kernel}, {tiles}{splits}"


def resolved(request: Request, shape: Shape, kernel: Kernel | None = None) -> Plan:
    """The plan that ``request`` comes to at ``shape``, as the op resolves explicit arguments.

    Where the shape cannot run it, what is nearest: decode for a shape without prefill (and ``kernel``, if given, in any
    case), the most head tiles that do not exceed those asked for, and as many splits as its chunks need at least.
    """
    tiles = prefill_tiles(shape.num_heads, shape.chunks)
    chosen = kernel or request.kernel
    if chosen == "prefill" and tiles:
        return Plan("prefill", _at_most(request.head_tiles, tiles), 1, shape.chunks)
    splits = max(request.num_splits, -(-shape.chunks // MAX_CHUNKS_PER_BLOCK))
    tiles = decode_tiles(shape.num_heads)
    return Plan("decode", _at_most(request.head_tiles, tiles), *resolve_splits(shape.chunks, splits))


def requests_of(plans: Iterable[Plan]) -> list[Request]:
    """The requests that any of ``plans`` makes, sorted; build options are none, and neither are rivals."""
    return sorted({Request(plan.kernel, plan.head_tiles, plan.num_splits) for plan in plans if not plan.options})


def _at_most(wanted: int, tiles: tuple[int, ...]) -> int:
    return max((each for each in tiles if each <= wanted), default=tiles[0])
