import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cake_tune.fit import decisions
from cake_tune.planner.registry import shipped_tables
from cake_tune.planner.rules import DecodeLimit, PrefillBand, Rules, Share, Splitting, Tail, TileBand
from cake_tune.planner.shape import HEAD_COUNTS, PREFILL_TILES

shares = st.builds(Share, st.integers(0, 300), st.sampled_from([1, 2, 3, 5, 48, 132]))
optional_share = st.none() | shares


def ranges(least, most):
    return st.tuples(st.integers(0, least), st.none() | st.integers(least, most))


@st.composite
def tile_bands(draw):
    heads, chunks = draw(ranges(96, 128)), draw(ranges(8, 64))
    return TileBand(
        min_heads=heads[0],
        max_heads=heads[1],
        min_chunks=chunks[0],
        max_chunks=chunks[1],
        min_blocks=draw(optional_share),
        max_blocks=None,
        head_tiles=draw(st.sampled_from([1, 2])),
    )


tails = st.builds(
    Tail, min_chunks=st.integers(1, 32), min_blocks=shares, min_last_wave=shares, num_splits=st.integers(2, 20)
)
splittings = st.builds(
    Splitting,
    grid_cap=shares,
    stream_cap=shares,
    min_cpb=st.integers(1, 16),
    min_cpb_alone=st.integers(1, 16),
    whole_chunks=st.integers(0, 20),
    multiples=st.sets(st.integers(2, 16)).map(lambda rungs: tuple(sorted(rungs))),
    tail=st.none() | tails,
)
prefill_bands = st.builds(
    PrefillBand,
    min_heads=st.integers(0, 128),
    min_candidates=st.integers(0, 1024),
    max_tokens=st.none() | st.integers(0, 200),
    head_tiles=st.sampled_from([1, 2, 4]),
)
limits = st.builds(
    DecodeLimit,
    min_heads=st.integers(0, 128),
    min_candidates=st.integers(0, 1024),
    num_tokens=st.none() | st.integers(0, 64),
)
any_rules = st.builds(
    Rules,
    tile_bands=st.lists(tile_bands(), max_size=4).map(tuple),
    splitting=splittings,
    decode_max_tokens=st.lists(limits, max_size=4).map(tuple),
    prefill_bands=st.lists(prefill_bands, max_size=4).map(tuple),
) | st.sampled_from([table.rules for table in shipped_tables()])
shapes = st.lists(
    st.tuples(st.integers(1, 300), st.sampled_from(HEAD_COUNTS), st.integers(1, 64)), min_size=1, max_size=30
)


@given(any_rules, shapes, st.sampled_from([2, 48, 132, 188]))
def test_arrays_decide_as_the_rules_do(rules, points, num_sms):
    tokens, heads, chunks = np.array(points).T
    candidates = chunks * 64
    tiles = decisions.decode_head_tiles(rules, tokens, heads, chunks, num_sms)
    blocks = decisions.grid_blocks(tokens, heads, tiles)
    splits = decisions.decode_splits(rules.splitting, tokens, blocks, chunks, num_sms)
    entry = decisions.decode_limit(rules, heads, candidates)
    prefill = decisions.prefill_head_tiles(rules, tokens, heads, candidates)
    for i, (t, h, c) in enumerate(points):
        assert tiles[i] == rules.head_tiles(t, h, c, num_sms)
        assert splits[i] == rules.splits(t, h, c, num_sms, max_splits=16, head_tiles=int(tiles[i]))[0]
        if h in PREFILL_TILES and c <= 16:
            limit = rules.decode_max_tokens[entry[i]].num_tokens if entry[i] >= 0 else 0
            kernel = "decode" if limit is None or t <= limit else "prefill"
            assert kernel == rules.kernel(t, h, c * 64, 0)
            assert prefill[i] == rules.prefill_tiles(t, h, c * 64, 0)


def test_head_counts_without_prefill_have_no_prefill_tiles():
    rules = shipped_tables()[0].rules
    assert decisions.prefill_head_tiles(rules, np.array([1]), np.array([8]), np.array([64])).tolist() == [0]


@pytest.mark.parametrize("max_blocks", [None, Share(1, 2)])
def test_bands_bound_blocks_from_above(max_blocks):
    band = TileBand(max_blocks=max_blocks, head_tiles=2)
    held = decisions.in_tile_band(band, np.array([64]), np.array([8]), np.array([67]), 132)
    assert held.tolist() == [max_blocks is None]
