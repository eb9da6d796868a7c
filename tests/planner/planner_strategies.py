"""Hypothesis strategies for shapes, rules and tables, each valid by construction."""

from typing import NamedTuple

from hypothesis import strategies as st

from cake_tune.planner.rules import DecodeLimit, PrefillBand, Rules, Share, Splitting, Tail, TileBand
from cake_tune.planner.shape import HEAD_COUNTS, Device, Shape, every_plan
from cake_tune.planner.table import Certificate, KernelIdentity, Override, PlannerTable, Provenance, Region, Regret


class Span(NamedTuple):
    """An interval of num_tokens, as exceptions have it."""

    num_heads: int
    topk: int
    extra_topk: int
    min_tokens: int
    max_tokens: int


heads = st.sampled_from(HEAD_COUNTS)
topks = st.integers(1, 2048) | st.sampled_from([63, 64, 65, 128, 512, 640, 1024, 1152, 2048])
extra_topks = st.just(0) | topks
shapes = st.builds(Shape, st.integers(1, 300), heads, topks, extra_topks)
sm_counts = st.integers(1, 300)

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
fractions = st.floats(0, 10, allow_nan=False)
shares = st.builds(Share, st.integers(0, 400), st.integers(1, 400))


def _ends(name, values):
    """Fields min_<name> and max_<name>, the last None when open, with min <= max."""
    pairs = st.lists(values, min_size=2, max_size=2).map(sorted)
    return st.tuples(pairs, st.booleans()).map(
        lambda drawn: {f"min_{name}": drawn[0][0], f"max_{name}": None if drawn[1] else drawn[0][1]}
    )


def _merged(kind, *parts, **fields):
    return st.tuples(st.fixed_dictionaries(fields), *parts).map(
        lambda drawn: kind(**{key: value for part in drawn for key, value in part.items()})
    )


tile_bands = _merged(
    TileBand,
    _ends("heads", st.integers(0, 130)),
    _ends("chunks", st.integers(0, 40)),
    min_blocks=st.none() | shares,
    max_blocks=st.none() | shares,
    head_tiles=st.sampled_from([1, 2]),
)
tails = st.builds(
    Tail, min_chunks=st.integers(0, 40), min_blocks=shares, min_last_wave=shares, num_splits=st.integers(2, 8)
)
splittings = st.builds(
    Splitting,
    grid_cap=shares,
    stream_cap=shares,
    min_cpb=st.integers(1, 16),
    min_cpb_alone=st.integers(1, 16),
    whole_chunks=st.integers(0, 8),
    multiples=st.sets(st.integers(2, 16)).map(lambda drawn: tuple(sorted(drawn))),
    tail=st.none() | tails,
)
decode_limits = st.builds(
    DecodeLimit,
    min_heads=st.integers(0, 130),
    min_candidates=st.integers(0, 2000),
    num_tokens=st.none() | st.integers(0, 200),
)
prefill_bands = _merged(
    PrefillBand,
    _ends("heads", st.integers(0, 130)),
    _ends("candidates", st.integers(0, 2000)),
    max_tokens=st.none() | st.integers(0, 300),
    head_tiles=st.sampled_from([1, 2, 4]),
)


def _few(entries):
    return st.lists(entries, max_size=4).map(tuple)


rules = st.builds(
    Rules,
    tile_bands=_few(tile_bands),
    splitting=splittings,
    decode_max_tokens=_few(decode_limits),
    prefill_bands=_few(prefill_bands),
)

devices = st.builds(
    Device,
    name=words,
    arch=st.sampled_from(["sm_120a", "sm_121a", "sm_90a", "cpu", "simulated"]),
    num_sms=sm_counts,
    l2_bytes=st.integers(0, 1 << 40),
)
provenances = st.builds(
    Provenance,
    kind=st.sampled_from(["measured", "published"]),
    source=words,
    sweep=words,
    tie_band=fractions,
    note=words,
)
certificates = st.builds(
    Certificate,
    points=st.integers(0, 999),
    mean=fractions,
    p95=fractions,
    worst=fractions,
    held_out=st.none() | st.builds(Regret, st.integers(0, 999), fractions, fractions, fractions),
)


@st.composite
def _disjoint(draw):
    """(num_heads, topk, extra_topk, first, last) intervals, sorted and disjoint per shape."""
    keys = draw(st.lists(st.tuples(heads, topks, extra_topks), unique=True, max_size=4).map(sorted))
    found = []
    for key in keys:
        marks = draw(st.lists(st.integers(0, 60), unique=True, max_size=8).map(sorted))
        found += [(*key, first, last) for first, last in zip(marks[::2], marks[1::2], strict=False)]
    return found


@st.composite
def overrides(draw):
    """Sorted disjoint exceptions, each with a plan and ties that its shape can run, some with build options."""
    made = []
    for num_heads, topk, extra_topk, first, last in draw(_disjoint()):
        plans = st.sampled_from(list(every_plan(Shape(1, num_heads, topk, extra_topk))))
        ties = tuple(draw(st.lists(plans, max_size=2)))
        made.append(Override(num_heads, topk, extra_topk, first, last, draw(plans), draw(fractions), ties))
    return tuple(made)


intervals = _disjoint().map(lambda drawn: tuple(Span(*interval) for interval in drawn))


@st.composite
def _regions(draw):
    """Sorted measured regions with some num_tokens of either kernel, or of both."""
    keys = draw(st.lists(st.tuples(heads, topks, extra_topks), unique=True, max_size=4).map(sorted))
    listed = st.sets(st.integers(0, 60), max_size=6).map(lambda drawn: tuple(sorted(drawn)))
    lists = [draw(st.tuples(listed, listed).filter(any)) for _ in keys]
    return tuple(Region(*key, decode, prefill) for key, (decode, prefill) in zip(keys, lists, strict=True))


regions = _regions()

tables = st.builds(
    PlannerTable,
    device=devices,
    kernel=st.builds(KernelIdentity, words, words, words, words),
    provenance=provenances,
    calibrated_topks=st.sets(st.integers(1, 4096), min_size=1).map(lambda drawn: tuple(sorted(drawn))),
    rules=rules,
    exceptions=overrides(),
    certificate=st.none() | certificates,
    measured=regions,
)
