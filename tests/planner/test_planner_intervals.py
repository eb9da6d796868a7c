"""Finding an interval gives what a search through all of them gives."""

from hypothesis import given
from hypothesis import strategies as st
from planner_strategies import regions

from cake_tune.planner.intervals import Hull, Intervals

tokens = st.integers(0, 70)


@given(regions, st.data())
def test_bisection_finds_what_a_search_through_all_finds(entries, data):
    shape = st.sampled_from([(entry.num_heads, entry.topk, entry.extra_topk) for entry in entries] or [(8, 1, 0)])
    num_heads, topk, extra_topk = data.draw(shape)
    index = Intervals(entries)
    for num_tokens in range(70):
        expected = [
            entry
            for entry in entries
            if (entry.num_heads, entry.topk, entry.extra_topk) == (num_heads, topk, extra_topk)
            and entry.min_tokens <= num_tokens <= entry.max_tokens
        ]
        assert index.find(num_tokens, num_heads, topk, extra_topk) == (expected[0] if expected else None)


@given(regions)
def test_hull_holds_every_corner_and_nothing_beyond(entries):
    hull = Hull.around(entries)
    if hull is None:
        assert not entries
        return
    for entry in entries:
        assert hull.holds(entry.min_tokens, entry.num_heads, entry.topk, entry.extra_topk)
        assert hull.holds(entry.max_tokens, entry.num_heads, entry.topk, entry.extra_topk)
    low, high = [axis.start for axis in hull], [axis.stop - 1 for axis in hull]
    for axis in range(4):
        assert not hull.holds(*low[:axis], low[axis] - 1, *low[axis + 1 :])
        assert not hull.holds(*high[:axis], high[axis] + 1, *high[axis + 1 :])
