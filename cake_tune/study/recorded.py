"""A measured point as a trial: visits drawn again from those of the race, judged by what was reported.

The confirmation's visits, from which the times of the plans that matter are reported, are not drawn from: no policy is
judged by the visits it selected on.

For a selector that visits in rounds, a round is a recorded round: every plan gets its time of that round, so that what
was common to the round stays common. Rounds are drawn in blocks of consecutive ones. A plan that had left by the drawn
round gets one of its own visits, times what a plan that was there in both rounds says of the one against the other.
For a selector that visits in bursts, each plan gets consecutive visits of its own from a drawn one on, and from another
drawn one after a third of them, so that long bursts from few visits do not repeat each other. Consecutive visits of a
plan lie a round apart, those of a real burst follow at once: drift between plans comes out too small here rather than
too large, which favours tuners without rounds.
"""

import math
from random import Random

from cake_tune.journal.record import PlanRow, PointRecord
from cake_tune.measure.protocol import Protocol
from cake_tune.measure.visit import Visit
from cake_tune.planner.shape import Plan
from cake_tune.study.points import reported_times
from cake_tune.study.trial import Trial

BLOCK = 4
"""Consecutive rounds drawn together."""

Column = dict[Plan, Visit]
"""One recorded round."""


def trial_of(record: PointRecord, protocol: Protocol) -> Trial | None:
    """``record`` as a trial, judged by its reported times; None if it has no two plans with recorded visits.

    A plan that failed, or was never visited, takes no part, and neither does a rival.
    """
    times = reported_times(record)
    rows = [row for row in record.rows if row.plan in times and any(_visits(row))]
    if len(rows) < 2:
        return None
    columns = tuple(_columns(rows))
    plans = tuple(sorted(row.plan for row in rows))
    return Trial(
        shape=record.shape,
        plans=plans,
        in_force=record.incumbent if record.incumbent in plans else None,
        band=record.tie_band,
        protocol=protocol,
        times={plan: times[plan] for plan in plans},
        visits=lambda order, rng: _Rounds(columns, rng) if order == "rounds" else _Bursts(columns, rng),
        means=all(len(row.visit_means) == len(row.visits) for row in rows),
        rounds=len(columns),
    )


def _visits(row: PlanRow) -> list[Visit | None]:
    """The visits of a plan in the race; None for one that gave nothing. Without means where the journal has none."""
    means = row.visit_means if len(row.visit_means) == len(row.visits) else [None] * len(row.visits)
    return [
        None if time is None else Visit(time, mean_us=math.nan if mean is None else mean)
        for time, mean in zip(row.visits, means, strict=True)
    ]


def _columns(rows: list[PlanRow]) -> list[Column]:
    """The rounds of the race; those without any visit are left out."""
    columns: list[Column] = [{} for _ in range(max(len(row.visits) for row in rows))]
    for row in rows:
        for column, visit in zip(columns, _visits(row), strict=False):
            if visit is not None:
                column[row.plan] = visit
    return [column for column in columns if column]


class _Rounds:
    """Deals recorded rounds; a new one begins when a plan comes for the second time.

    So rounds need not be announced. Where the confirmation begins with a plan that had left the race, that one visit
    counts to the race's last round.
    """

    def __init__(self, columns: tuple[Column, ...], rng: Random) -> None:
        self._columns = columns
        self._rng = rng
        present: dict[Plan, int] = {}
        for column in columns:
            for plan in column:
                present[plan] = present.get(plan, 0) + 1
        self._reference = min(present, key=lambda plan: (-present[plan], plan))
        self._of = {plan: [column for column in columns if plan in column] for plan in present}
        self._left = 0
        self._place = 0
        self._seen: set[Plan] = set()
        self._next_round()

    def __call__(self, plan: Plan) -> Visit:
        if plan in self._seen:
            self._next_round()
        self._seen.add(plan)
        column = self._columns[self._place]
        return column[plan] if plan in column else self._moved(plan, column)

    def _next_round(self) -> None:
        self._seen.clear()
        if self._left == 0:
            self._left = BLOCK
            self._place = self._rng.randrange(len(self._columns))
        else:
            self._place = (self._place + 1) % len(self._columns)
        self._left -= 1

    def _moved(self, plan: Plan, column: Column) -> Visit:
        """A visit of ``plan`` from a round it was in, moved to the round ``column``."""
        source = self._rng.choice(self._of[plan])
        here, there = column.get(self._reference), source.get(self._reference)
        if here is None or there is None:
            return source[plan]
        moved, factor = source[plan], here.median_us / there.median_us
        return Visit(moved.median_us * factor, mean_us=moved.mean_us * factor)


class _Bursts:
    """Deals each plan consecutive visits of its own; after its last one comes its first."""

    def __init__(self, columns: tuple[Column, ...], rng: Random) -> None:
        self._rng = rng
        self._own: dict[Plan, list[Visit]] = {}
        for column in columns:
            for plan, visit in column.items():
                self._own.setdefault(plan, []).append(visit)
        self._plan: Plan | None = None
        self._place = 0
        self._left = 0

    def __call__(self, plan: Plan) -> Visit:
        own = self._own[plan]
        if plan != self._plan or self._left == 0:
            self._plan, self._left = plan, max(BLOCK, len(own) // 3)
            self._place = self._rng.randrange(len(own))
        visit = own[self._place]
        self._place = (self._place + 1) % len(own)
        self._left -= 1
        return visit
