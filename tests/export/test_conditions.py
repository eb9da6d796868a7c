"""The bands of a table as conditions: the least words, and nothing that can never answer."""

import pytest

from cake_tune.export.conditions import (
    Branch,
    if_lines,
    kernel_branches,
    prefill_branches,
    share_text,
    tile_branches,
)
from cake_tune.planner.rules import DecodeLimit, PrefillBand, Share, TileBand


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (Share(1, 1), "num_sms"),
        (Share(132, 132), "num_sms"),
        (Share(8, 1), "8 * num_sms"),
        (Share(16, 2), "8 * num_sms"),
        (Share(1, 3), "num_sms // 3"),
        (Share(2, 3), "num_sms * 2 // 3"),
        (Share(50, 132), "num_sms * 50 // 132"),
        (Share(0, 7), "0"),
    ],
)
def test_shares_are_written_as_people_do(share, text):
    assert share_text(share) == text
    for num_sms in (1, 47, 48, 132, 170, 188):
        assert eval(text) == share.of(num_sms)


def test_heads_are_told_by_those_that_have_two_tiles():
    def told(**heads):
        (branch, _) = tile_branches([TileBand(**heads, min_chunks=2, head_tiles=2)])
        return branch.conditions

    assert told() == ("chunks >= 2",)
    assert told(max_heads=32) == told(max_heads=63) == ("num_heads == 32", "chunks >= 2")
    assert told(min_heads=33, max_heads=64) == ("num_heads == 64", "chunks >= 2")
    assert told(min_heads=48) == ("num_heads >= 64", "chunks >= 2")
    assert told(max_heads=100) == ("num_heads <= 96", "chunks >= 2")
    assert told(min_heads=64, max_heads=100) == ("64 <= num_heads <= 96", "chunks >= 2")


def test_blocks_are_bounded_by_shares_and_a_bound_of_nothing_is_left_out():
    band = TileBand(min_blocks=Share(0, 1), max_blocks=Share(2, 1), max_chunks=4, min_chunks=4, head_tiles=2)
    assert tile_branches([band]) == [Branch(("chunks == 4", "ctas <= 2 * num_sms"), "2"), Branch((), "1")]


def test_bands_that_never_answer_or_change_nothing_are_left_out():
    dead = TileBand(min_heads=33, max_heads=63, head_tiles=2)
    always = TileBand(head_tiles=2)
    useless = TileBand(min_chunks=9, head_tiles=1)
    assert tile_branches([dead]) == [Branch((), "1")]
    assert tile_branches([useless, always, TileBand(max_heads=32, head_tiles=1)]) == [
        Branch(("chunks >= 9",), "1"),
        Branch((), "2"),
    ]
    narrow = TileBand(max_heads=32, min_chunks=2, head_tiles=2)
    covered = TileBand(max_heads=32, min_chunks=2, min_blocks=Share(1, 1), head_tiles=1)
    assert tile_branches([narrow, covered]) == tile_branches([narrow])
    assert tile_branches([useless]) == [Branch((), "1")]
    assert tile_branches([]) == [Branch((), "1")]


def test_the_crossover_is_a_threshold_or_decode_always():
    limits = [DecodeLimit(min_heads=64, num_tokens=None), DecodeLimit(min_candidates=512, num_tokens=8)]
    assert kernel_branches(limits) == [
        Branch(("num_heads >= 64",), '"decode"'),
        Branch(("candidates >= 512",), '"decode" if num_tokens <= 8 else "prefill"'),
        Branch((), '"prefill"'),
    ]
    assert kernel_branches([DecodeLimit(min_heads=129, num_tokens=8)]) == [Branch((), '"prefill"')]


def test_prefill_tiles_are_asked_for_only_where_some_heads_lack_them():
    assert prefill_branches([PrefillBand(head_tiles=4, max_tokens=8)])[0].conditions == (
        "4 in tiles",
        "num_tokens <= 8",
    )
    assert prefill_branches([PrefillBand(head_tiles=1, max_tokens=8)])[0].conditions == ("num_tokens <= 8",)
    assert prefill_branches([PrefillBand(min_heads=97, head_tiles=4)])[0].conditions == ("num_heads == 128",)
    assert prefill_branches([PrefillBand(max_heads=16, head_tiles=2)]) == [Branch((), "tiles[-1]")]


def test_long_conditions_have_a_line_each():
    long = tuple(f"num_tokens >= {number}" for number in range(10**8, 10**8 + 4))
    assert if_lines([Branch(long, "1"), Branch((), "2")]) == [
        "    if (",
        f"        {long[0]}",
        *(f"        and {each}" for each in long[1:]),
        "    ):",
        "        return 1",
        "    return 2",
    ]
