"""The rule family over arrays: what ``Rules`` decides for many points at once.

Same decisions as the methods of ``Rules``, one array operation per constant instead of one call per point: the fit asks
for them a few thousand times.
"""

import numpy as np

from cake_tune.fit.samples import Bools, Ints
from cake_tune.planner.rules import DEFAULT_MAX_SPLITS, Rules, Share, Splitting, TileBand
from cake_tune.planner.shape import (
    DECODE_TWO_TILE_HEADS,
    HEAD_COUNTS,
    HEADS_PER_TILE,
    MAX_CHUNKS_PER_BLOCK,
    PREFILL_TILES,
)

_HEADS = np.arange(max(HEAD_COUNTS) + 1)
_TWO_TILES = np.isin(_HEADS, DECODE_TWO_TILE_HEADS)
_LARGEST_PREFILL = np.array([PREFILL_TILES.get(heads, (0,))[-1] for heads in _HEADS.tolist()], dtype=np.int64)
_PREFILL_HAS = {
    tiles: np.array([tiles in PREFILL_TILES.get(heads, ()) for heads in _HEADS.tolist()], dtype=np.bool_)
    for tiles in (1, 2, 4)
}


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
    tiles[~_TWO_TILES[num_heads]] = 1
    return tiles


def decode_splits(splitting: Splitting, num_tokens: Ints, blocks: Ints, chunks: Ints, num_sms: int) -> Ints:
    """The resolved num_splits of ``Splitting.splits`` with the default ``max_splits``; chunks that need more: more."""
    taken = ladder_splits(splitting, num_tokens, blocks, chunks, num_sms)
    return resolved(chunks, tail_splits(splitting, taken, blocks, chunks, num_sms))


def ladder_splits(splitting: Splitting, num_tokens: Ints, blocks: Ints, chunks: Ints, num_sms: int) -> Ints:
    """How far the multiples of the fewest splits go, the tail left out."""
    fewest = fewest_splits(chunks)
    grid_cap, stream_cap = splitting.grid_cap.of(num_sms), splitting.stream_cap.of(num_sms)
    min_cpb = np.where(blocks == 1, splitting.min_cpb_alone, splitting.min_cpb)
    taken = fewest.copy()
    # Most grids stop early: only those that still grow are looked at again.
    growing = np.flatnonzero(chunks > splitting.whole_chunks)
    for multiple in splitting.multiples:
        wanted = fewest[growing] * multiple
        more = (
            (wanted <= DEFAULT_MAX_SPLITS)
            & (blocks[growing] * wanted <= grid_cap)
            & (num_tokens[growing] * wanted <= stream_cap)
            & (-(-chunks[growing] // wanted) >= min_cpb[growing])
        )
        growing = growing[more]
        if not len(growing):
            break
        taken[growing] = wanted[more]
    return taken


def tail_splits(splitting: Splitting, taken: Ints, blocks: Ints, chunks: Ints, num_sms: int) -> Ints:
    """``taken`` with the tail's splits where the ladder did not start and the tail holds."""
    tail = splitting.tail
    if tail is None or tail.num_splits > DEFAULT_MAX_SPLITS:
        return taken
    last_wave = tail.num_splits * blocks % num_sms
    filled = (last_wave == 0) | (last_wave >= tail.min_last_wave.of(num_sms))
    late = (chunks > splitting.whole_chunks) & (taken == fewest_splits(chunks))
    late &= (chunks >= tail.min_chunks) & (blocks >= tail.min_blocks.of(num_sms)) & filled
    return np.where(late, np.maximum(taken, tail.num_splits), taken)


def fewest_splits(chunks: Ints) -> Ints:
    """The fewest splits that leave no block more chunks than it can hold."""
    return -(-chunks // MAX_CHUNKS_PER_BLOCK)


def resolved(chunks: Ints, num_splits: Ints) -> Ints:
    """``resolve_splits`` without the chunks per block."""
    return -(-chunks // -(-chunks // num_splits))


def decode_limit(rules: Rules, num_heads: Ints, candidates: Ints) -> Ints:
    """Per point the index of the entry of ``decode_max_tokens`` that decides; -1 where none does."""
    found = np.full(num_heads.shape, -1, dtype=np.int64)
    for i, limit in reversed(list(enumerate(rules.decode_max_tokens))):
        found[(num_heads >= limit.min_heads) & (candidates >= limit.min_candidates)] = i
    return found


def decode_kernel(rules: Rules, num_tokens: Ints, num_heads: Ints, candidates: Ints, chunks: Ints) -> Bools:
    """Where ``Rules.kernel`` is decode."""
    limits = [np.inf if limit.num_tokens is None else limit.num_tokens for limit in rules.decode_max_tokens]
    most = np.array([*limits, -1.0])[decode_limit(rules, num_heads, candidates)]
    possible = (_LARGEST_PREFILL[num_heads] > 0) & (chunks <= MAX_CHUNKS_PER_BLOCK)
    return np.asarray(~possible | (num_tokens <= most), dtype=np.bool_)


def prefill_head_tiles(rules: Rules, num_tokens: Ints, num_heads: Ints, candidates: Ints) -> Ints:
    """``Rules.prefill_tiles``; 0 for head counts without prefill."""
    tiles = _LARGEST_PREFILL[num_heads]
    for band in reversed(rules.prefill_bands):
        held = (
            _PREFILL_HAS[band.head_tiles][num_heads]
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
