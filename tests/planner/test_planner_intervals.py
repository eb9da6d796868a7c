"""Finding an interval gives what a search through all of them gives."""

from hypothesis import given
from hypothesis import strategies as st
from planner_strategies import intervals

from cake_tune.planner.intervals import Intervals


@given(intervals, st.data())
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
