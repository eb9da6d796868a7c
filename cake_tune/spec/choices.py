"""The plans that a spec allows, and those of them that can run a shape."""

import itertools
import math
from typing import Any

from cake_tune.planner.shape import (
    DECODE_TWO_TILE_HEADS,
    MAX_CHUNKS_PER_BLOCK,
    Plan,
    Shape,
    every_plan,
    resolve_splits,
    rival_plan,
)
from cake_tune.spec.models import Plans
from cake_tune.spec.problems import KeyPath

PREFILL_LIMIT = f"prefill takes num_heads 16 to 128 in steps of 16, and at most {MAX_CHUNKS_PER_BLOCK} chunks"
TILES_LIMIT = (
    f"decode takes 2 head tiles for num_heads {', '.join(map(str, DECODE_TWO_TILE_HEADS))}; "
    "prefill 2 for 32, 64, 96, 128 and 4 for 64, 128"
)
SPLITS_LIMIT = f"splits are of decode, and a split holds at most {MAX_CHUNKS_PER_BLOCK} chunks"


def values_of(axis: object) -> list[Any]:
    """The values of an axis given as one value or a list, each once, in the order given."""
    return list(dict.fromkeys(axis)) if isinstance(axis, list) else [axis]


def variants(plans: Plans) -> int:
    """Combinations of the build options."""
    return math.prod(len(_texts(axis)) for axis in plans.options.values())


class Choices:
    """Kernels, head tiles, splits and build options as a spec gives them."""

    def __init__(self, plans: Plans):
        self.kernels = frozenset(values_of(plans.kernels))
        self.head_tiles = None if plans.head_tiles == "all" else frozenset(values_of(plans.head_tiles))
        self.splits = None if plans.splits == "all" else tuple(values_of(plans.splits))
        named = [[(name, text) for text in _texts(axis)] for name, axis in sorted(plans.options.items())]
        self.options = tuple(itertools.product(*named))
        self.rivals = tuple(values_of(plans.rivals))
        self.known: dict[tuple[int, int], tuple[Plan, ...]] = {}

    def plans(self, shape: Shape) -> tuple[Plan, ...]:
        """The allowed plans that can run the shape; they depend on its heads and chunks alone."""
        key = (shape.num_heads, shape.chunks)
        if key not in self.known:
            bare = [plan for plan in every_plan(shape) if self._allows(plan, shape.chunks)]
            self.known[key] = tuple(
                Plan(plan.kernel, plan.head_tiles, plan.num_splits, plan.chunks_per_block, options)
                for plan in bare
                for options in self.options
            )
        return self.known[key]

    def rival_plans(self, shape: Shape) -> tuple[Plan, ...]:
        """The plans that stand for the rivals; they run whatever the plans' own limits say."""
        return tuple(rival_plan(shape, name) for name in self.rivals)

    def limits(self) -> str:
        """Why a shape can have no plan."""
        limits = [PREFILL_LIMIT] if self.kernels == {"prefill"} else []
        limits += [TILES_LIMIT] if self.head_tiles else []
        limits += [SPLITS_LIMIT] if self.splits else []
        return f"no plan can run it ({'; '.join(limits)})"

    def _allows(self, plan: Plan, chunks: int) -> bool:
        if plan.kernel not in self.kernels or (self.head_tiles is not None and plan.head_tiles not in self.head_tiles):
            return False
        if plan.kernel == "prefill" or self.splits is None:
            return True
        return any(resolve_splits(chunks, n)[0] == plan.num_splits for n in self.splits)


def places(path: KeyPath, axis: object) -> list[tuple[KeyPath, object]]:
    """Every value of an axis with the path of the place that gives it."""
    return [((*path, index), value) for index, value in enumerate(axis)] if isinstance(axis, list) else [(path, axis)]


def value_text(value: object) -> str:
    """A value as it stands in a plan and in a message: YAML's spelling of it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _texts(axis: object) -> list[str]:
    """The distinct texts of an option's values; as values, ``true`` and ``1`` would be one."""
    return list(dict.fromkeys(value_text(value) for _, value in places((), axis)))
