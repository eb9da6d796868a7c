"""Timed plans as flat arrays: what the cost model is calibrated on and asked about."""

from dataclasses import dataclass

import numpy as np

from cake_tune.fit.samples import Bools, Ints, Samples
from cake_tune.planner.shape import Kernel


@dataclass(frozen=True)
class Rows:
    """Plans on shapes as flat arrays; ``kind`` is the index into ``kinds``, the (kernel, head_tiles) that occur."""

    num_tokens: Ints
    num_heads: Ints
    chunks: Ints
    num_splits: Ints
    chunks_per_block: Ints
    head_tiles: Ints
    kind: Ints
    kinds: tuple[tuple[Kernel, int], ...]

    def __len__(self) -> int:
        return len(self.kind)

    def take(self, rows: Ints | Bools) -> "Rows":
        """The rows chosen."""
        return Rows(
            self.num_tokens[rows],
            self.num_heads[rows],
            self.chunks[rows],
            self.num_splits[rows],
            self.chunks_per_block[rows],
            self.head_tiles[rows],
            self.kind[rows],
            self.kinds,
        )


def rows_of(samples: Samples) -> tuple[Rows, Ints, Ints]:
    """The timed plans without build options, the row of ``samples`` that each is, and its point."""
    timed = np.flatnonzero(
        np.isfinite(samples.log_time)
        & np.array([not plan.options for plan in samples.plans], dtype=np.bool_)[samples.plan]
    )
    point = np.repeat(np.arange(len(samples)), np.diff(samples.start))[timed]
    numbers = np.array([(p.head_tiles, p.num_splits, p.chunks_per_block) for p in samples.plans], dtype=np.int64)
    kinds = tuple(
        sorted({(samples.plans[i].kernel, samples.plans[i].head_tiles) for i in np.unique(samples.plan[timed])})
    )
    place = {kind: i for i, kind in enumerate(kinds)}
    kind_of = np.array([place.get((plan.kernel, plan.head_tiles), -1) for plan in samples.plans], dtype=np.int64)
    tiles, splits, cpb = numbers[samples.plan[timed]].T
    rows = Rows(
        num_tokens=np.maximum(samples.num_tokens[point], 1),
        num_heads=samples.num_heads[point],
        chunks=samples.chunks[point],
        num_splits=splits,
        chunks_per_block=cpb,
        head_tiles=tiles,
        kind=kind_of[samples.plan[timed]],
        kinds=kinds,
    )
    return rows, timed, point
