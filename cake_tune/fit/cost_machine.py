"""The cost model over many plans at once: the same steps as ``CostModel.us``, as arrays."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cake_tune.fit.cost_rows import Rows
from cake_tune.fit.samples import Bools, Floats, Ints
from cake_tune.planner.cost import MANY_SPLITS, Order

ChunkTime = Callable[[Ints], Floats]


@dataclass(frozen=True, slots=True)
class Structure:
    """What is searched rather than solved for: ``heads_per_block`` and ``blocks_per_sm`` of each kind of kernel, the
    splits of a merge step, the order of the blocks, and whether two splits merge by themselves.
    """

    heads_per_block: tuple[int, ...]
    blocks_per_sm: tuple[int, ...]
    merge_batch: int
    order: Order
    pairs: bool


class CostMachine:
    """The cost model over many rows at once, what does not depend on its constants worked out before."""

    def __init__(self, rows: Rows, num_sms: int) -> None:
        self.kind = rows.kind
        self._num_sms = num_sms
        self._num_tokens, self._num_heads = rows.num_tokens, rows.num_heads
        self._chunks, self._splits, self._most = rows.chunks, rows.num_splits, rows.chunks_per_block
        self._fewest = rows.chunks - (rows.num_splits - 1) * rows.chunks_per_block
        self._two = rows.num_splits == 2

    def us(self, common: Floats, own: Floats, structure: Structure) -> Floats:
        """Microseconds; see ``CostModel.us``, whose steps these are."""
        launch, gather_us, reread, merge, merge_step, merge_row, pair, wave_share, sharpness = common.tolist()
        block, computing, crowding = own[self.kind].T
        head_blocks = -(-self._num_heads // np.array(structure.heads_per_block)[self.kind])
        rows = self._num_tokens * head_blocks
        gather = gather_us * (1 + (head_blocks - 1) * reread) / head_blocks
        places = self._num_sms * np.array(structure.blocks_per_sm)[self.kind]

        def chunk_us(active: Ints) -> Floats:
            crowded = computing * (1 + crowding * ((active - 1) // self._num_sms))
            return larger_of_each(crowded, gather * active, sharpness)

        busy = self._short_last if structure.order == "short_last" else self._row_by_row
        time: Floats = launch + busy(rows, block, chunk_us, places, wave_share)
        left = self._splits
        if structure.pairs:
            time = np.where(self._two, launch + self._pair_by_pair(rows, block, chunk_us, places, wave_share), time)
            paired = self._in_pairs(rows * self._splits)
            time += pair * paired
            left = np.where(paired, self._splits // 2, self._splits)
        merged = merge + merge_step * -(-left // structure.merge_batch)
        merged += merge_row * self._num_tokens * self._num_heads * left
        time += np.where(left > 1, merged, 0.0)
        return time

    def _in_pairs(self, blocks: Ints) -> Bools:
        """``in_pairs``."""
        many: Bools = (self._splits >= MANY_SPLITS) & (self._splits % 2 == 0)
        paired: Bools = self._two | (many & (self._num_sms < 2 * blocks) & (blocks <= self._num_sms))
        return paired

    def _pair_by_pair(self, rows: Ints, block: Floats, chunk_us: ChunkTime, places: Ints, wave_share: float) -> Floats:
        pairs = np.maximum(places // 2, 1)
        waves, last = np.divmod(rows - 1, pairs)
        each = block + self._most * chunk_us(2 * pairs)
        queue = each * (wave_share * waves + (1 - wave_share) * (rows / pairs - 1))
        busy: Floats = block + self._most * chunk_us(2 * (last + 1)) + np.where(waves > 0, queue, 0.0)
        return busy

    def _row_by_row(self, rows: Ints, block: Floats, chunk_us: ChunkTime, places: Ints, wave_share: float) -> Floats:
        blocks = rows * self._splits
        waves, last = np.divmod(blocks - 1, places)
        end = block + self._most * chunk_us(last + 1)
        each = chunk_us(places)
        mean = block + each * self._chunks / self._splits
        saved = each * (self._splits * self._most - self._chunks)
        begin = waves * mean + saved * (1 / self._splits - ((last + 1) * self._splits <= places))
        queue = wave_share * begin + (1 - wave_share) * mean * (blocks / places - 1)
        busy: Floats = end + np.where(waves > 0, queue, 0.0)
        return busy

    def _short_last(self, rows: Ints, block: Floats, chunk_us: ChunkTime, places: Ints, wave_share: float) -> Floats:
        active = np.minimum(rows * self._splits, places)
        each = chunk_us(active)
        whole, short = block + each * self._most, block + each * self._fewest
        waves, left = np.divmod(rows * (self._splits - 1), places)
        free, before = places - left, np.ceil(whole / short - 1e-9).astype(np.int64)
        early = rows <= free * before
        rounds_early, place_early = np.divmod(rows - 1, free)
        rounds_late, place_late = np.divmod(np.maximum(rows - free * before, 1) - 1, places)
        late = rounds_late * short + np.where(place_late < left, whole, before * short)
        begin = np.where(early, rounds_early * short, late)
        lonely = np.where(early, place_early + left, place_late) + 1
        end = begin + block + self._fewest * chunk_us(np.minimum(lonely, active))
        beside = block + self._most * chunk_us(np.minimum(left + rows, active))
        end = np.where(left > 0, np.maximum(end, beside), end)
        flow = np.maximum(whole, rows * (block * self._splits + each * self._chunks) / places)
        scheduled = wave_share * (waves * whole + end) + (1 - wave_share) * flow
        return np.where(self._splits > 1, scheduled, self._row_by_row(rows, block, chunk_us, places, wave_share))


def larger_of_each(one: Floats, other: Floats, sharpness: float) -> Floats:
    """``larger_of``."""
    larger, smaller = np.maximum(one, other), np.minimum(one, other)
    norm: Floats = larger * (1 + (smaller / larger) ** sharpness) ** (1 / sharpness)
    return norm
