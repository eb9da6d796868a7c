"""The measured num_tokens of an emitted module: few lines, and the same dict."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from cake_tune.export.measured import measured_lines

tokens = st.sets(st.integers(1, 40), min_size=1, max_size=12).map(lambda drawn: tuple(sorted(drawn)))


def held(lines):
    names = {}
    exec("\n".join(lines), names)
    return {group: sorted(counts) for group, counts in names["_MEASURED"].items()}


@st.composite
def sweeps(draw):
    """Groups of a sweep: most with the same num_tokens, some cut short or refined, now and then one left out."""
    common = draw(tokens)
    groups = {}
    for group in product(
        sorted(draw(st.sets(st.sampled_from([8, 16, 64]), min_size=1))),
        sorted(draw(st.sets(st.integers(1, 200), min_size=1, max_size=4))),
        sorted(draw(st.sets(st.sampled_from([0, 512]), min_size=1))),
    ):
        counts = draw(st.just(common) | st.just(common) | st.integers(1, 12).map(lambda most: common[:most]) | tokens)
        more = draw(st.just(()) | st.just(()) | tokens)
        groups[group] = tuple(sorted({*counts, *more}))
    return groups


@given(sweeps() | st.dictionaries(st.tuples(*[st.integers(1, 99)] * 3), tokens, min_size=1))
def test_the_lines_hold_what_was_measured(groups):
    lines = measured_lines(groups)
    assert held(lines) == {group: list(counts) for group, counts in groups.items()}
    assert all(len(line) <= 88 for line in lines)


def test_a_regular_sweep_takes_few_lines_and_only_what_differs_is_told():
    common = (1, 2, 4, 8)
    groups = dict.fromkeys(product((16, 64), (128, 512), (0,)), common)
    groups[64, 128, 0] = (1, 2, 4, 5, 6, 8)
    groups[64, 512, 0] = (1, 2)
    assert measured_lines(groups) == [
        "_TOKENS = (1, 2, 4, 8)",
        "_MEASURED: dict[tuple[int, int, int], tuple[int, ...]] = {",
        "    (heads, topk, extra_topk): _TOKENS",
        "    for heads in (16, 64)",
        "    for topk, extra_topk in ((128, 0), (512, 0))",
        "}",
        "_MEASURED |= {",
        "    (64, 128, 0): (*_TOKENS, 5, 6),",
        "    (64, 512, 0): _TOKENS[:2],",
        "}",
    ]
