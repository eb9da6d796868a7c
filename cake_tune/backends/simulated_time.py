"""The true time of plans on a simulated device, without noise: a closed form over arrays of plans.

A call is a grid of blocks handed out in order to the free places of the multiprocessors (list scheduling), whole blocks
before the shorter last split of each row. Each chunk of a block takes what the slowest of four limits asks: computing,
one multiprocessor's reads, and the L2 and the memory, which all blocks at work share.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cake_tune.backends.simulated_device import KINDS, SimulatedDevice
from cake_tune.planner.rules import DEFAULT_MAX_SPLITS, Rules
from cake_tune.planner.shape import (
    BYTES_PER_TOKEN,
    CHUNK,
    HEADS_PER_TILE,
    MAX_CHUNKS_PER_BLOCK,
    QUERY_DIM,
    Plan,
    Shape,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

CHUNK_BYTES = CHUNK * BYTES_PER_TOKEN
_PARTIAL_BYTES = QUERY_DIM * 2 + 4
_BYTES_PER_US = 1e3
"""Of 1 GB/s."""
_SPLIT_STEP = 0.05
_TILE_STEP = 0.08
_KERNEL_STEP = 0.05
_PIVOT = 10
"""Tokens from which a ruled device's distance between the kernels is counted."""


@dataclass(frozen=True)
class Grid:
    """Shapes with their plans as flat arrays, worked out once for any number of devices.

    ``start[i]`` to ``start[i + 1]`` are the rows of point i.
    """

    shapes: tuple[Shape, ...]
    plans: tuple[tuple[Plan, ...], ...]
    start: Ints
    num_tokens: Ints
    num_heads: Ints
    chunks: Ints
    kind: Ints
    head_blocks: Ints
    num_splits: Ints
    chunks_per_block: Ints

    def times(self, device: SimulatedDevice) -> Floats:
        """Microseconds of every row on ``device``."""
        if device.rules is not None:
            return np.concatenate(
                [
                    [_ruled_us(device.rules, device.num_sms, shape, plan) for plan in plans]
                    for shape, plans in zip(self.shapes, self.plans, strict=True)
                ]
            )
        return _times(device, self)


def grid_of(points: Iterable[tuple[Shape, Sequence[Plan]]]) -> Grid:
    """The grid of ``points``, each with at least one plan; no tokens count as one."""
    held = [(shape, tuple(plans)) for shape, plans in points]
    place = {kind: i for i, kind in enumerate(KINDS)}
    rows = np.array(
        [
            (
                max(1, shape.num_tokens),
                shape.num_heads,
                shape.chunks,
                place[plan.kernel, plan.head_tiles],
                -(-shape.num_heads // (HEADS_PER_TILE * plan.head_tiles)),
                plan.num_splits,
                plan.chunks_per_block,
            )
            for shape, plans in held
            for plan in plans
        ],
        dtype=np.int64,
    )
    sizes = [len(plans) for _, plans in held]
    return Grid(
        tuple(shape for shape, _ in held),
        tuple(plans for _, plans in held),
        np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        *rows.T,
    )


def true_us(device: SimulatedDevice, shape: Shape, plan: Plan) -> float:
    """The time of one plan, in microseconds."""
    return float(grid_of([(shape, (plan,))]).times(device)[0])


def _times(device: SimulatedDevice, grid: Grid) -> Floats:
    per_sm = np.array([cost.per_sm for cost in device.blocks])[grid.kind]
    rows = grid.num_tokens * grid.head_blocks
    blocks = rows * grid.num_splits
    places = device.num_sms * per_sm
    last_chunks = grid.chunks - (grid.num_splits - 1) * grid.chunks_per_block

    def length(chunks: Ints, active: Ints) -> Floats:
        return _block_us(device, grid, chunks, np.minimum(active, places))

    busy = scheduled(rows * (grid.num_splits - 1), grid.chunks_per_block, rows, last_chunks, places, length)
    partials = grid.num_tokens * grid.num_heads * grid.num_splits * _PARTIAL_BYTES
    merging = device.merge_us + device.merge_split_us * grid.num_splits
    merged = np.where(grid.num_splits > 1, merging + partials / (device.merge_gbps * _BYTES_PER_US), 0.0)
    times: Floats = device.launch_us + device.launch_block_us * blocks + busy + merged
    return times


def _block_us(device: SimulatedDevice, grid: Grid, chunks: Ints, active: Ints) -> Floats:
    """How long a block of ``chunks`` takes among ``active`` running ones."""
    start_us, chunk_us, crowding = np.array([(cost.start_us, cost.chunk_us, cost.crowding) for cost in device.blocks])[
        grid.kind
    ].T
    sharing = -(-active // device.num_sms)
    computing = chunk_us * (1 + crowding * (sharing - 1))
    reading = sharing * CHUNK_BYTES / (device.sm_gbps * _BYTES_PER_US)
    # What the head blocks of a token read again comes from the L2, as far as all that is being read fits it.
    together = -(-active // (grid.head_blocks * grid.num_splits)) * grid.chunks * CHUNK_BYTES
    held = np.minimum(1.0, device.l2_bytes / together)
    fresh = (1 + (grid.head_blocks - 1) * (1 - held)) / grid.head_blocks
    memory = active * CHUNK_BYTES * fresh / (device.memory_gbps * _BYTES_PER_US)
    cache = active * CHUNK_BYTES / (device.l2_gbps * _BYTES_PER_US)
    limit = np.maximum(np.maximum(computing, reading), np.maximum(memory, cache))
    length: Floats = start_us + chunks * limit
    return length


def scheduled(
    many: Ints, whole_chunks: Ints, few: Ints, last_chunks: Ints, places: Ints, length: Callable[[Ints, Ints], Floats]
) -> Floats:
    """When the last block ends: ``many`` whole ones, then ``few`` that are no longer, handed out to ``places``.

    ``length`` knows how long a block takes among so many active ones: as many as there are places or blocks until the
    last round, which has what is left to itself.
    """
    active = np.minimum(many + few, places)
    whole, last = length(whole_chunks, active), length(last_chunks, active)
    waves, left = np.divmod(many, places)
    free = places - left
    # The free places take short blocks from the end of the last full wave on, those of ``left`` one ``whole`` later.
    before = np.ceil(np.round(whole / last, 9)).astype(np.int64)
    early = few <= free * before
    rounds_early, place_early = np.divmod(few - 1, free)
    rounds_late, place_late = np.divmod(np.maximum(few - free * before, 1) - 1, places)
    begin = np.where(early, rounds_early * last, rounds_late * last + np.where(place_late < left, whole, before * last))
    lonely = np.where(early, place_early + left, place_late) + 1
    end = begin + length(last_chunks, np.minimum(lonely, active))
    end = np.maximum(end, np.where(left > 0, length(whole_chunks, np.minimum(left + few, active)), 0.0))
    scheduled: Floats = waves * whole + end
    return scheduled


def _ruled_us(rules: Rules, num_sms: int, shape: Shape, plan: Plan) -> float:
    """A time that is least exactly at the plan of ``rules``: others lose by their distance from it.

    5 % per doubling of the splits, 8 % for other head tiles, and for the other kernel 5 % per octave from ``_PIVOT``.
    """
    tokens, heads = max(1, shape.num_tokens), shape.num_heads
    base = 10.0 * (1 + tokens * heads * shape.chunks / num_sms / 64)
    if plan.kernel == "decode":
        tiles = rules.head_tiles(tokens, heads, shape.chunks, num_sms)
        fewest = -(-shape.chunks // MAX_CHUNKS_PER_BLOCK)
        splits, _ = rules.splits(
            tokens, heads, shape.chunks, num_sms, max_splits=max(DEFAULT_MAX_SPLITS, fewest), head_tiles=tiles
        )
        lost = _SPLIT_STEP * abs(math.log2(plan.num_splits / splits)) + _TILE_STEP * (plan.head_tiles != tiles)
    else:
        lost = _TILE_STEP * (plan.head_tiles != rules.prefill_tiles(tokens, heads, shape.topk, shape.extra_topk))
    if plan.kernel != rules.kernel(tokens, heads, shape.topk, shape.extra_topk):
        lost += _KERNEL_STEP * (0.5 + abs(math.log2(tokens / _PIVOT)))
    return base * math.exp(lost)
