"""The rule family: what holds for any constants, and what the published constants say."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from planner_strategies import heads, rules, shapes, shares, sm_counts, topks

from cake_tune.errors import ContractError, TableError
from cake_tune.planner.rules import DecodeLimit, PrefillBand, Share, Splitting, Tail, TileBand
from cake_tune.planner.shape import (
    MAX_CHUNKS_PER_BLOCK,
    PREFILL_TILES,
    Plan,
    check_plan,
    decode_tiles,
    num_chunks,
    prefill_tiles,
    resolve_splits,
)

FREE = Splitting(
    grid_cap=Share(1000, 1),
    stream_cap=Share(1000, 1),
    min_cpb=1,
    min_cpb_alone=1,
    whole_chunks=0,
    multiples=(2, 4, 8, 16),
)


@given(rules, shapes, sm_counts, st.integers(1, 40))
def test_any_rules_give_plans_that_run(rules, shape, num_sms, max_splits):
    assume(max_splits * MAX_CHUNKS_PER_BLOCK >= shape.chunks)
    tiles = rules.head_tiles(shape.num_tokens, shape.num_heads, shape.chunks, num_sms)
    splits, cpb = rules.splits(
        shape.num_tokens, shape.num_heads, shape.chunks, num_sms, max_splits=max_splits, head_tiles=tiles
    )
    check_plan(Plan("decode", tiles, splits, cpb), shape.num_heads, shape.chunks)
    assert splits <= max_splits
    assert (splits - 1) * cpb < shape.chunks <= splits * cpb
    assert cpb <= MAX_CHUNKS_PER_BLOCK
    assert resolve_splits(shape.chunks, splits) == (splits, cpb)
    if rules.kernel(shape.num_tokens, shape.num_heads, shape.topk, shape.extra_topk) == "prefill":
        prefill = rules.prefill_tiles(shape.num_tokens, shape.num_heads, shape.topk, shape.extra_topk)
        check_plan(Plan("prefill", prefill, 1, shape.chunks), shape.num_heads, shape.chunks)


@given(rules, shapes, sm_counts, st.data())
def test_too_few_splits_are_refused_with_the_bound(rules, shape, num_sms, data):
    fewest = -(-shape.chunks // MAX_CHUNKS_PER_BLOCK)
    max_splits = data.draw(st.integers(-1, fewest - 1))
    with pytest.raises(
        ContractError, match=f"max_splits: .* at least {fewest} splits .*at most 16 .* got {max_splits}$"
    ):
        rules.splits(shape.num_tokens, shape.num_heads, shape.chunks, num_sms, max_splits=max_splits, head_tiles=1)


def contract_head_tiles(tokens, num_heads, chunks, sms):
    """Contract section 3, "Head tiles", as it is worded."""
    small, ctas, third, two_thirds = sms < 64, tokens * (num_heads // 16), sms // 3, 2 * sms // 3
    if num_heads % 32:
        return 1
    if ctas >= sms:
        return 1 if small and chunks <= 2 and num_heads > 32 and 2 * sms < ctas <= 8 * sms else 2
    if num_heads == 32:
        return 2 if ctas >= two_thirds or (chunks >= 8 and ctas >= third) else 1
    if num_heads == 64:
        below = ctas < two_thirds or (small and ctas == two_thirds)
        return 2 if chunks >= 8 and third <= ctas and below else 1
    return 2 if chunks >= 16 and ctas >= third else 1


def contract_splits(tokens, num_heads, chunks, sms, max_splits, head_tiles):
    """Contract section 3, "Splits", as it is worded."""
    small, base = sms < 64, tokens * -(-num_heads // (16 * head_tiles))
    splits = fewest = -(-chunks // 16)
    grid_cap = sms // 3 if small else 4 * sms // 5
    stream_cap = sms // 6 if small else grid_cap
    min_cpb = 1 if base == 1 and not small else 2
    if chunks <= 2 or max_splits <= 1:
        pass
    elif 2 * base <= grid_cap:
        while (
            2 * splits <= max_splits
            and base * 2 * splits <= grid_cap
            and tokens * 2 * splits <= stream_cap
            and -(-chunks // (2 * splits)) >= min_cpb
        ):
            splits *= 2
    elif not small and base >= sms and chunks >= 16:
        tail = 2 * base % sms
        splits = max(fewest, 2) if tail == 0 or 2 * tail >= sms else fewest
    cpb = -(-chunks // splits)
    return -(-chunks // cpb), cpb


def contract_kernel(tokens, num_heads, topk, extra_topk, sms):
    """Contract section 3, "Kernel", as it is worded."""
    many = topk + extra_topk >= 512
    if num_heads == 8 or num_chunks(topk, extra_topk) > 16:
        return "decode"
    if num_heads >= 64:
        return "decode" if tokens <= (8 if many else 16) else "prefill"
    return "decode" if many and tokens <= (8 if sms >= 180 else 32) else "prefill"


def contract_prefill_tiles(tokens, num_heads, topk, extra_topk, sms):
    """Contract section 3, "Prefill tiles", as it is worded."""
    available = PREFILL_TILES[num_heads]
    wide = sms >= 180 and num_heads >= 128 and 512 <= topk + extra_topk < 640
    if num_heads >= 64 and 2 in available and tokens <= (128 if wide else 96):
        return 2
    return available[-1]


@given(shapes, st.sampled_from([188, 170, 48]), st.integers(1, 64), st.data())
def test_published_tables_say_what_the_contract_says(shipped, shape, num_sms, max_splits, data):
    tokens, num_heads, topk, extra = shape.num_tokens, shape.num_heads, shape.topk, shape.extra_topk
    assume(max_splits * 16 >= shape.chunks)
    published = shipped[num_sms].rules
    # The shares hold for more than the three devices: any even num_sms of the same class (the tail rule rounds).
    classes = {188: range(180, 300, 2), 170: range(64, 180, 2), 48: range(20, 64, 2)}
    sms = data.draw(st.sampled_from(classes[num_sms]))
    tiles = data.draw(st.sampled_from(decode_tiles(num_heads)))
    assert published.head_tiles(tokens, num_heads, shape.chunks, sms) == contract_head_tiles(
        tokens, num_heads, shape.chunks, sms
    )
    assert published.splits(
        tokens, num_heads, shape.chunks, sms, max_splits=max_splits, head_tiles=tiles
    ) == contract_splits(tokens, num_heads, shape.chunks, sms, max_splits, tiles)
    assert published.kernel(tokens, num_heads, topk, extra) == contract_kernel(tokens, num_heads, topk, extra, sms)
    if num_heads != 8:
        assert published.prefill_tiles(tokens, num_heads, topk, extra) == contract_prefill_tiles(
            tokens, num_heads, topk, extra, sms
        )


@given(shares, sm_counts)
def test_share_rounds_down_and_survives_its_text(share, num_sms):
    assert share.of(num_sms) <= num_sms * share.numerator / share.denominator < share.of(num_sms) + 1
    assert str(share) == f"{share.numerator}/{share.denominator}"


@given(rules, heads, topks)
def test_the_first_matching_class_decides_the_crossover(rules, num_heads, topk):
    first = next((c for c in rules.decode_max_tokens if num_heads >= c.min_heads and topk >= c.min_candidates), None)
    assume(prefill_tiles(num_heads, num_chunks(topk)))
    if first is None:
        assert rules.kernel(1, num_heads, topk, 0) == "prefill"
    elif first.num_tokens is None:
        assert rules.kernel(10**9, num_heads, topk, 0) == "decode"
    else:
        assert rules.kernel(first.num_tokens, num_heads, topk, 0) == "decode"
        assert rules.kernel(first.num_tokens + 1, num_heads, topk, 0) == "prefill"


def test_bands_are_tried_in_order_and_bounds_are_inclusive(shipped):
    bands = (
        TileBand(min_heads=64, max_heads=96, min_blocks=Share(1, 2), max_blocks=Share(1, 1), head_tiles=2),
        TileBand(max_heads=64, head_tiles=1),
        TileBand(head_tiles=2),
    )
    ours = replace(shipped[188].rules, tile_bands=bands)
    assert [ours.head_tiles(tokens, 64, 4, 80) for tokens in (9, 10, 20, 21)] == [1, 2, 2, 1]
    assert [ours.head_tiles(1, num_heads, 4, 80) for num_heads in (32, 64, 96, 128)] == [1, 1, 2, 2]
    assert replace(ours, tile_bands=()).head_tiles(1, 128, 4, 80) == 1


def test_every_multiple_is_tried_in_turn_until_a_bound_breaks():
    thirds = replace(FREE, multiples=(3, 6), grid_cap=Share(12, 1))
    assert [thirds.splits(1, blocks, 16, 1, 99) for blocks in (1, 2, 3, 4, 5)] == [6, 6, 3, 3, 1]
    assert thirds.splits(1, 1, 16, 1, 5) == 3


def test_stream_cap_counts_tokens_and_a_lone_block_has_its_own_least_width():
    assert replace(FREE, stream_cap=Share(8, 1)).splits(3, 3, 16, 1, 99) == 2
    guarded = replace(FREE, min_cpb=4, min_cpb_alone=2)
    assert [guarded.splits(1, blocks, 16, 1, 99) for blocks in (1, 2)] == [8, 4]


def test_few_chunks_stay_whole():
    assert [replace(FREE, whole_chunks=3).splits(1, 1, chunks, 1, 4) for chunks in (3, 4)] == [1, 4]


def test_tail_splits_only_a_grid_whose_last_wave_it_fills():
    tail = Tail(min_chunks=16, min_blocks=Share(1, 1), min_last_wave=Share(1, 2), num_splits=2)
    tailed = replace(FREE, grid_cap=Share(0, 1), tail=tail)
    # Ten multiprocessors: 2 * blocks leaves a last wave of 0, 2, 4, 6, 8, 0 blocks.
    assert [tailed.splits(1, blocks, 16, 10, 99) for blocks in (10, 11, 12, 13, 14, 15)] == [2, 1, 1, 2, 2, 2]
    assert tailed.splits(1, 5, 16, 10, 99) == 1
    assert tailed.splits(1, 10, 15, 10, 99) == 1
    assert tailed.splits(1, 10, 16, 10, 1) == 1
    assert tailed.splits(1, 10, 64, 10, 99) == 4
    wider = replace(tailed, tail=replace(tail, num_splits=3))
    assert [wider.splits(1, 10, 16, 10, max_splits) for max_splits in (2, 3)] == [1, 3]


def test_prefill_band_needs_the_instance_it_names(shipped):
    ours = replace(
        shipped[188].rules, prefill_bands=(PrefillBand(max_tokens=8, head_tiles=4), PrefillBand(head_tiles=1))
    )
    assert [ours.prefill_tiles(tokens, 64, 512, 0) for tokens in (8, 9)] == [4, 1]
    assert ours.prefill_tiles(8, 96, 512, 0) == 1
    assert replace(ours, prefill_bands=()).prefill_tiles(8, 96, 512, 0) == 2


def test_heads_without_prefill_are_refused_by_name(shipped):
    with pytest.raises(ContractError, match=r"num_heads: expected one of 16, 32, .* for prefill, got 8"):
        shipped[188].rules.prefill_tiles(1, 8, 512, 0)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Share(-1, 2), "share n/d"),
        (lambda: Share(1, 0), "share n/d"),
        (lambda: Share(10**9, 1), "at most nine digits"),
        (lambda: TileBand(min_heads=64, max_heads=32, head_tiles=1), "min_heads, max_heads: .* got 64 and 32"),
        (lambda: TileBand(min_chunks=3, max_chunks=2, head_tiles=1), "min_chunks, max_chunks"),
        (lambda: TileBand(head_tiles=4), "head_tiles: expected one of 1, 2, got 4"),
        (lambda: PrefillBand(head_tiles=3), "head_tiles: expected one of 1, 2, 4, got 3"),
        (lambda: PrefillBand(min_candidates=-1, head_tiles=1), "min_candidates"),
        (lambda: DecodeLimit(min_heads=-1, num_tokens=1), "min_heads"),
        (lambda: DecodeLimit(num_tokens=-1), "num_tokens: .* got -1"),
        (lambda: replace(FREE, multiples=(4, 2)), "multiples: expected ascending"),
        (lambda: replace(FREE, multiples=(1, 2)), "multiples"),
        (lambda: replace(FREE, multiples=(32,)), "multiples"),
        (lambda: replace(FREE, min_cpb=0), "min_cpb: expected one of"),
        (lambda: replace(FREE, min_cpb_alone=17), "min_cpb_alone"),
        (lambda: replace(FREE, whole_chunks=-1), "whole_chunks"),
        (lambda: Tail(min_chunks=0, min_blocks=Share(1, 1), min_last_wave=Share(1, 1), num_splits=1), "num_splits"),
    ],
)
def test_constants_that_mean_nothing_are_refused_by_name(build, message):
    with pytest.raises(TableError, match=message):
        build()
