"""Builders and hypothesis strategies for records that studies read."""

from collections.abc import Mapping, Sequence
from statistics import median

from hypothesis import strategies as st

from cake_tune.journal.record import PlanRow, PointRecord
from cake_tune.planner.shape import Plan, Shape

PLANS = (Plan("decode", 1, 1, 8), Plan("decode", 1, 2, 4), Plan("decode", 1, 4, 2), Plan("prefill", 1, 1, 8))
SHAPE = Shape(4, 16, 512)


def row(plan: Plan, visits: Sequence[float], confirm: Sequence[float] = (), status: str = "ok", **fields) -> PlanRow:
    """A row that reports the median of its confirmation, else that of its race."""
    reported = fields.pop("median_us", None) or median(confirm or visits)
    return PlanRow(plan, status, median_us=reported, visits=tuple(visits), confirm=tuple(confirm), **fields)


def record(rows: Sequence[PlanRow], shape: Shape = SHAPE, best: Plan | None = None, **fields) -> PointRecord:
    """A record that chose ``best``, else the fastest row."""
    timed = [each for each in rows if each.median_us is not None]
    chosen = best or (min(timed, key=lambda each: each.median_us).plan if timed else None)
    fields = {"key": f"0-{shape}", "status": "ok", "tie_band": 0.01} | fields
    return PointRecord(shape=shape, rows=tuple(rows), best=chosen, **fields)


def steady(times: Mapping[Plan, float], drift: Sequence[float], confirm: int = 3, **fields) -> PointRecord:
    """A record without noise: every visit is the plan's time times the drift of its round, confirmations included."""
    rounds = len(drift) - confirm
    rows = []
    for plan, time in times.items():
        visits = [time * factor for factor in drift]
        means = tuple(visits[:rounds])
        rows.append(row(plan, visits[:rounds], visits[rounds:], visit_means=means, median_us=time))
    return record(rows, **fields)


times = st.floats(1.0, 100.0)
drifts = st.lists(st.floats(0.7, 1.4), min_size=6, max_size=12)
plan_times = st.lists(times, min_size=2, max_size=4).map(lambda found: dict(zip(PLANS, found, strict=False)))


@st.composite
def sweeps(draw) -> list[PointRecord]:
    """Records of up to five shapes; some plans failed, and any plan with or without a time may have been chosen."""
    found = []
    for tokens in sorted(draw(st.sets(st.integers(1, 6), min_size=1, max_size=5))):
        rows = []
        for plan in PLANS:
            if draw(st.integers(0, 4)) == 0:
                rows.append(PlanRow(plan, "crashed", error="on purpose"))
            else:
                status = draw(st.sampled_from(["ok", "pruned", "tied"]))
                rows.append(row(plan, draw(st.lists(times, min_size=1, max_size=4)), status=status))
        found.append(record(rows, Shape(tokens, 16, 512), draw(st.sampled_from(PLANS))))
    return found
