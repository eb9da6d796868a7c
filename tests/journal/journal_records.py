"""Hypothesis strategies and small builders for journal records."""

from hypothesis import strategies as st

from cake_tune.journal.record import PlanRow, PointRecord
from cake_tune.planner.shape import HEAD_COUNTS, Plan, Shape, every_plan

STATUSES = ["ok", "tied", "invalid", "oom", "crashed", "timeout", "too_slow", "unstable", "pruned", "wrong"]

times = st.floats(min_value=1e-3, max_value=1e7)
visits = st.lists(st.one_of(st.none(), times), max_size=5).map(tuple)
messages = st.one_of(st.none(), st.text(max_size=20))
plans = st.builds(
    Plan,
    st.sampled_from(["decode", "prefill"]),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 16),
    st.integers(1, 16),
    st.dictionaries(st.text(max_size=4), st.text(max_size=4), max_size=2).map(lambda d: tuple(sorted(d.items()))),
)
shapes = st.builds(
    Shape,
    st.integers(0, 4096),
    st.sampled_from(HEAD_COUNTS),
    st.integers(1, 2048),
    st.integers(0, 2048),
    lengths=st.booleans(),
    sink=st.booleans(),
)
rows = st.builds(
    PlanRow,
    plans,
    st.sampled_from(STATUSES),
    st.one_of(st.none(), times),
    st.none(),
    visits,
    visits,
    messages,
    st.one_of(st.none(), st.floats(0, 1)),
    visits,
    visits,
    visits,
    visits,
)
records = st.builds(
    PointRecord,
    key=st.text("0123456789abcdef-", min_size=1, max_size=40),
    shape=shapes,
    status=st.sampled_from(STATUSES),
    rows=st.lists(rows, max_size=3).map(tuple),
    best=st.one_of(st.none(), plans),
    tied=st.lists(plans, max_size=2).map(tuple),
    incumbent=st.one_of(st.none(), plans),
    tie_band=st.floats(0, 0.02),
    rounds=st.integers(0, 40),
    started=st.text(max_size=20),
    seconds=st.floats(0, 1e4),
    error=messages,
    audit=st.dictionaries(st.one_of(st.just("v"), st.text(max_size=5)), times, max_size=2),
    gpu=st.text(max_size=8),
    audits=st.text("0123456789abcdef-", max_size=40),
    twins=st.booleans(),
)


def record(key: str, seconds: float = 0.5) -> PointRecord:
    """A plain record under ``key``; ``seconds`` tells two of them apart."""
    shape = Shape(4, 8, 64)
    return PointRecord(key, shape, "ok", tuple(PlanRow(plan, "ok", 3.5) for plan in every_plan(shape)), seconds=seconds)
