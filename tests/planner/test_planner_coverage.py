"""Coverage holds exactly the measured points, and surrounds exactly the box around each kernel's."""

from hypothesis import given
from hypothesis import strategies as st
from planner_strategies import regions

from cake_tune.planner.coverage import Coverage
from cake_tune.planner.table import Region

kernels = st.sampled_from(["decode", "prefill"])


def points(entries, kernel):
    return [
        (num_tokens, entry.num_heads, entry.topk, entry.extra_topk)
        for entry in entries
        for num_tokens in getattr(entry, kernel)
    ]


@given(regions, kernels)
def test_exactly_the_listed_num_tokens_are_held(entries, kernel):
    coverage, listed = Coverage(entries), points(entries, kernel)
    for entry in entries or (Region(8, 1, 0, (1,)),):
        shape = (entry.num_heads, entry.topk, entry.extra_topk)
        held = [num_tokens for num_tokens in range(70) if coverage.holds(kernel, num_tokens, *shape)]
        assert held == [num_tokens for num_tokens, *rest in listed if (*rest,) == shape]


@given(regions, kernels)
def test_the_hull_holds_every_point_and_ends_at_the_outermost(entries, kernel):
    coverage, listed = Coverage(entries), points(entries, kernel)
    if not listed:
        assert not coverage.surrounds(kernel, 1, 64, 512, 0)
        return
    assert all(coverage.surrounds(kernel, *point) for point in listed)
    low, high = [min(axis) for axis in zip(*listed, strict=True)], [max(axis) for axis in zip(*listed, strict=True)]
    assert coverage.surrounds(kernel, *low)
    assert coverage.surrounds(kernel, *high)
    for axis in range(4):
        assert not coverage.surrounds(kernel, *low[:axis], low[axis] - 1, *low[axis + 1 :])
        assert not coverage.surrounds(kernel, *high[:axis], high[axis] + 1, *high[axis + 1 :])


def test_one_kernels_points_say_nothing_about_the_other():
    coverage = Coverage((Region(64, 512, 0, decode=(1, 64)), Region(64, 1024, 0, decode=(1,), prefill=(1, 16))))
    assert coverage.holds("decode", 64, 64, 512, 0)
    assert not coverage.holds("prefill", 64, 64, 512, 0)
    assert coverage.surrounds("decode", 32, 64, 700, 0)
    assert not coverage.surrounds("prefill", 32, 64, 1024, 0)
    assert not coverage.surrounds("prefill", 8, 64, 512, 0)
