"""The cost model: what a plan takes on one device, from a dozen calibrated constants.

It is coarser than the machine (one bandwidth, one kind of crowding, one merge) and meant for shapes that nobody
measured: where a plan was timed, the time counts. Pure Python, one to two microseconds per plan.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, isfinite
from typing import Literal, NamedTuple

from cake_tune.errors import TableError
from cake_tune.planner.shape import Kernel, Plan

Order = Literal["row_by_row", "short_last"]

MANY_SPLITS = 16
"""From which on pairs of splits are merged by their blocks: the launch's rule (``cake_tune.cuda.launch``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelCost:
    """What one block of a kernel with ``head_tiles`` costs. Times in microseconds.

    A block holds ``heads_per_block`` heads: 16 per head tile, or more where the kernel's matrix instructions are wider.
    A block of c chunks alone on its multiprocessor takes ``block_us + c * chunk_us``. Up to ``blocks_per_sm`` blocks
    share a multiprocessor; each further one makes all of them slower by the fraction ``crowding`` (0: free, 1: no
    better than one after the other).
    """

    kernel: Kernel
    head_tiles: int
    heads_per_block: int
    blocks_per_sm: int
    block_us: float
    chunk_us: float
    crowding: float

    def __post_init__(self) -> None:
        for name, number in (("heads_per_block", self.heads_per_block), ("blocks_per_sm", self.blocks_per_sm)):
            if number < 1:
                raise TableError(f"{name}: expected an integer >= 1, got {number}")
        _check_numbers(self, ("block_us", "chunk_us", "crowding"))
        if not self.block_us + self.chunk_us > 0:
            raise TableError(f"block_us, chunk_us: expected one above 0, got {self.block_us} and {self.chunk_us}")


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """The constants of one device and kernel; ``us`` is the time they give a plan.

    A call takes ``launch_us``, the blocks, and, if it splits, ``merge_us``, ``merge_step_us`` per ``merge_batch``
    splits begun, and ``merge_row_us`` per token, head and split. Where ``pair_us`` is not None, two neighbouring blocks
    of a row can be handed out together and leave one part between them, for ``pair_us``: see ``in_pairs``.

    Blocks queue for the places of the multiprocessors; a fraction ``wave_share`` of the queue is whole waves, the rest
    flows as if blocks could be cut, and what comes last has the device to itself. ``order`` says how blocks of
    different length are handed out: the shorter last split of each row after its others, or those of all rows at the
    end. A chunk takes no less than its share of the memory, ``gather_us`` per running block; where several head blocks
    read the same candidates, all but the first cost the fraction ``reread`` of that. ``sharpness`` says how abruptly
    the one limit gives way to the other. ``spread`` is the typical relative error of the times, as calibrated.
    """

    launch_us: float
    gather_us: float
    reread: float
    merge_us: float
    merge_step_us: float
    merge_row_us: float
    pair_us: float | None
    wave_share: float
    sharpness: float
    merge_batch: int
    order: Order
    kernels: tuple[KernelCost, ...]
    spread: float = 0.0

    def __post_init__(self) -> None:
        _check_numbers(self, ("launch_us", "gather_us", "merge_us", "merge_step_us", "merge_row_us"))
        _check_numbers(self, ("spread",) if self.pair_us is None else ("spread", "pair_us"))
        for name, share in (("reread", self.reread), ("wave_share", self.wave_share)):
            if not 0 <= share <= 1:
                raise TableError(f"{name}: expected a fraction from 0 to 1, got {share}")
        if self.merge_batch < 1:
            raise TableError(f"merge_batch: expected an integer >= 1, got {self.merge_batch}")
        if not 1 <= self.sharpness <= 100:
            raise TableError(f"sharpness: expected a number from 1 to 100, got {self.sharpness}")
        named = [(cost.kernel, cost.head_tiles) for cost in self.kernels]
        if named != sorted(set(named)) or not named:
            raise TableError(f"kernels: expected one entry per kernel and head_tiles, ascending, got {named}")

    def cost_of(self, kernel: Kernel, head_tiles: int) -> KernelCost | None:
        """The entry of a kernel with ``head_tiles``; None where it was never timed."""
        for cost in self.kernels:
            if cost.head_tiles == head_tiles and cost.kernel == kernel:
                return cost
        return None

    def us(self, num_tokens: int, num_heads: int, chunks: int, plan: Plan, num_sms: int) -> float:
        """Microseconds of ``plan`` on a shape of ``chunks`` chunks; infinite for a kernel and tiles never timed.

        ``num_tokens`` of at least 1, ``num_sms`` multiprocessors. Build options make no difference.
        """
        cost = self.cost_of(plan.kernel, plan.head_tiles)
        if cost is None:
            return float("inf")
        splits = plan.num_splits
        head_blocks = -(-num_heads // cost.heads_per_block)
        rows = num_tokens * head_blocks
        grid = _Grid(rows, splits, chunks, plan.chunks_per_block, num_sms)
        gather = self.gather_us * (1 + (head_blocks - 1) * self.reread) / head_blocks
        time = self.launch_us
        if self.pair_us is not None and in_pairs(rows * splits, splits, num_sms):
            time += self.pair_us
            if splits == 2:
                return time + self._pair_by_pair(cost, grid, gather)
            splits //= 2
        by_rows = splits == 1 or self.order == "row_by_row"
        time += self._row_by_row(cost, grid, gather) if by_rows else self._short_last(cost, grid, gather)
        if splits > 1:
            steps = -(-splits // self.merge_batch)
            time += self.merge_us + self.merge_step_us * steps + self.merge_row_us * num_tokens * num_heads * splits
        return time

    def _pair_by_pair(self, cost: KernelCost, grid: "_Grid", gather: float) -> float:
        """When the last pair ends, which takes as long as its longer block."""
        rows, _, _, most, num_sms = grid
        pairs = max(num_sms * cost.blocks_per_sm // 2, 1)
        waves, last = divmod(rows - 1, pairs)
        end = cost.block_us + most * self._chunk_us(cost, gather, 2 * (last + 1), num_sms)
        if not waves:
            return end
        each = cost.block_us + most * self._chunk_us(cost, gather, 2 * pairs, num_sms)
        return each * (self.wave_share * waves + (1 - self.wave_share) * (rows / pairs - 1)) + end

    def _row_by_row(self, cost: KernelCost, grid: "_Grid", gather: float) -> float:
        """When the last block ends, which is a whole one."""
        rows, splits, chunks, most, num_sms = grid
        places, blocks = num_sms * cost.blocks_per_sm, rows * splits
        waves, last = divmod(blocks - 1, places)
        end = cost.block_us + most * self._chunk_us(cost, gather, last + 1, num_sms)
        if not waves:
            return end
        each = self._chunk_us(cost, gather, places, num_sms)
        mean, saved = cost.block_us + each * chunks / splits, each * (splits * most - chunks)
        # The first places to be free are those of the shorter blocks.
        begin = waves * mean + saved * (1 / splits - ((last + 1) * splits <= places))
        return self.wave_share * begin + (1 - self.wave_share) * mean * (blocks / places - 1) + end

    def _short_last(self, cost: KernelCost, grid: "_Grid", gather: float) -> float:
        """When the last block ends: list scheduling of many whole blocks, then of the shorter one of each row."""
        rows, splits, chunks, most, num_sms = grid
        places, block = num_sms * cost.blocks_per_sm, cost.block_us
        fewest = chunks - (splits - 1) * most
        active = min(rows * splits, places)
        each = self._chunk_us(cost, gather, active, num_sms)
        whole, short = block + each * most, block + each * fewest
        waves, left = divmod(rows * (splits - 1), places)
        free, before = places - left, ceil(whole / short - 1e-9)
        if rows <= free * before:
            rounds, place = divmod(rows - 1, free)
            begin, lonely = rounds * short, place + left + 1
        else:
            rounds, place = divmod(rows - free * before - 1, places)
            begin, lonely = rounds * short + (whole if place < left else before * short), place + 1
        end = begin + block + fewest * self._chunk_us(cost, gather, min(lonely, active), num_sms)
        if left:
            end = max(end, block + most * self._chunk_us(cost, gather, min(left + rows, active), num_sms))
        flow = max(whole, rows * (block * splits + each * chunks) / places)
        return self.wave_share * (waves * whole + end) + (1 - self.wave_share) * flow

    def _chunk_us(self, cost: KernelCost, gather: float, active: int, num_sms: int) -> float:
        """A chunk of a block among ``active`` ones: computing, or its share of the memory."""
        computing = cost.chunk_us * (1 + cost.crowding * ((active - 1) // num_sms))
        return larger_of(computing, gather * active, self.sharpness)


class _Grid(NamedTuple):
    """``rows`` of ``splits`` blocks: ``chunks`` in a row, ``most`` in a block."""

    rows: int
    splits: int
    chunks: int
    most: int
    num_sms: int


def in_pairs(blocks: int, splits: int, num_sms: int) -> bool:
    """Whether a kernel that can merge in pairs does: two splits always, many where the grid takes over half the device.

    ``blocks`` is the whole grid. More than ``num_sms`` blocks of more than two splits go one by one.
    """
    many = splits >= MANY_SPLITS and splits % 2 == 0
    return splits == 2 or (many and num_sms < 2 * blocks <= 2 * num_sms)


def larger_of(one: float, other: float, sharpness: float) -> float:
    """About the larger of two times, and more where they come close: their norm of order ``sharpness``."""
    larger, smaller = (one, other) if one >= other else (other, one)
    if larger <= 0:
        return 0.0
    norm: float = larger * (1 + (smaller / larger) ** sharpness) ** (1 / sharpness)
    return norm


def _check_numbers(entry: CostModel | KernelCost, names: Iterable[str]) -> None:
    for name in names:
        value = getattr(entry, name)
        if not (isfinite(value) and value >= 0):
            raise TableError(f"{name}: expected a finite number >= 0, got {value}")
