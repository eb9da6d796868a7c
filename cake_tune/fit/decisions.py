"""The rule family over arrays: what ``Rules`` decides for many points at once.

Same decisions as the methods of ``Rules``, one array operation per constant instead of one call per point: the fit asks
for them a few thousand times.
"""

import numpy as np

from cake_tune.fit.samples import Bools, Ints
from cake_tune.planner.rules import DEFAULT_MAX_SPLITS, Rules, Share, Splitting, TileBand
from cake_tune.planner.shape import DECODE_TWO_TILE_HEADS, HEADS_PER_TILE, MAX_CHUNKS_PER_BLOCK, PREFILL_TILES


def grid_blocks(num_tokens: Ints, num_heads: Ints, head_tiles: Ints) -> Ints:
    """Blocks of the unsplit grid."""
    return num_tokens * -(-num_heads // (HEADS_PER_TILE * head_tiles))


def in_tile_band(band: TileBand, num_heads: Ints, chunks: Ints, blocks: Ints, num_sms: int) -> Bools:
    """Where ``band.holds``."""
    return (
        _within(num_heads, band.min_heads, band.max_heads)
        & _within(chunks, band.min_chunks, band.max_chunks)
        & _within(blocks, _of(band.min_blocks, num_sms) or 0, _of(band.max_blocks, num_sms))
    )


def decode_head_tiles(rules: Rules, num_tokens: Ints, num_heads: Ints, chunks: Ints, num_sms: int) -> Ints:
    """``Rules.head_tiles``."""
    blocks = num_tokens * (num_heads // HEADS_PER_TILE)
    tiles = np.ones_like(num_tokens)
    for band in reversed(rules.tile_bands):
        tiles[in_tile_band(band, num_heads, chunks, blocks, num_sms)] = band.head_tiles
    return np.where(np.isin(num_heads, DECODE_TWO_TILE_HEADS), tiles, 1)


def decode_splits(splitting: Splitting, num_tokens: Ints, blocks: Ints, chunks: Ints, num_sms: int) -> Ints:
    """The resolved num_splits of ``Splitting.splits`` with the default ``max_splits``; chunks that need more: more."""
    fewest = -(-chunks // MAX_CHUNKS_PER_BLOCK)
    grid_cap, stream_cap = splitting.grid_cap.of(num_sms), splitting.stream_cap.of(num_sms)
    min_cpb = np.where(blocks == 1, splitting.min_cpb_alone, splitting.min_cpb)
    taken, growing = fewest.copy(), chunks > splitting.whole_chunks
    divisible = growing
    for multiple in splitting.multiples:
        wanted = fewest * multiple
        growing = (
            growing
            & (wanted <= DEFAULT_MAX_SPLITS)
            & (blocks * wanted <= grid_cap)
            & (num_tokens * wanted <= stream_cap)
            & (-(-chunks // wanted) >= min_cpb)
        )
        taken = np.where(growing, wanted, taken)
    tail = splitting.tail
    if tail is not None and tail.num_splits <= DEFAULT_MAX_SPLITS:
        last_wave = tail.num_splits * blocks % num_sms
        filled = (last_wave == 0) | (last_wave >= tail.min_last_wave.of(num_sms))
        late = divisible & (taken == fewest) & (chunks >= tail.min_chunks) & (blocks >= tail.min_blocks.of(num_sms))
        taken = np.where(late & filled, np.maximum(taken, tail.num_splits), taken)
    cpb = -(-chunks // taken)
    return -(-chunks // cpb)


def decode_limit(rules: Rules, num_heads: Ints, candidates: Ints) -> Ints:
    """Per point the index of the entry of ``decode_max_tokens`` that decides; -1 where none does."""
    found = np.full(num_heads.shape, -1, dtype=np.int64)
    for i, limit in reversed(list(enumerate(rules.decode_max_tokens))):
        found[(num_heads >= limit.min_heads) & (candidates >= limit.min_candidates)] = i
    return found


def prefill_head_tiles(rules: Rules, num_tokens: Ints, num_heads: Ints, candidates: Ints) -> Ints:
    """``Rules.prefill_tiles``; 0 for head counts without prefill."""
    tiles = np.zeros_like(num_tokens)
    for heads, available in PREFILL_TILES.items():
        here = num_heads == heads
        if not here.any():
            continue
        tiles[here] = available[-1]
        for band in reversed(rules.prefill_bands):
            if band.head_tiles in available:
                held = (
                    here
                    & _within(num_heads, band.min_heads, band.max_heads)
                    & _within(candidates, band.min_candidates, band.max_candidates)
                    & _within(num_tokens, 0, band.max_tokens)
                )
                tiles[held] = band.head_tiles
    return tiles


def _within(values: Ints, least: int, most: int | None) -> Bools:
    return values >= least if most is None else (values >= least) & (values <= most)


def _of(share: Share | None, num_sms: int) -> int | None:
    return None if share is None else share.of(num_sms)
