"""Records as the fit keeps them while a journal streams by: log times in arrays, many records at a time."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cake_tune.fit.samples import LEAST_ROUNDS, Floats, Ints, ShapeKey
from cake_tune.journal.record import TIMED, PlanRow, PointRecord
from cake_tune.measure.statistics import FEWEST_PAIRED
from cake_tune.planner.rules import DEFAULT_MAX_SPLITS
from cake_tune.planner.shape import Plan, rival_of


class Variant(NamedTuple):
    """One record, compact: all that is kept of it."""

    key: ShapeKey
    order: tuple[object, ...]
    plans: tuple[Plan, ...]
    """Sorted."""
    log_time: Floats
    visits: NDArray[np.float32]
    """[plans, rounds], NaN where there is no valid time; ``confirm`` likewise."""
    confirm: NDArray[np.float32]
    tie_band: float
    best: Plan | None
    started: str


def says_something(record: PointRecord) -> bool:
    """Whether a time of ``record`` can count in a fit."""
    return any(_usable(row) and _reachable(row.plan) for row in record.rows)


def variants_of(records: Sequence[PointRecord]) -> list[Variant]:
    """``records`` compact, in their order: one array operation for all of them where one each would take far longer.

    Each is one that ``says_something``.
    """
    rows = [sorted((row for row in record.rows if _reachable(row.plan)), key=_plan_of) for record in records]
    times = np.array([row.median_us if _usable(row) else np.nan for each in rows for row in each], dtype=np.float64)
    visits = _Rounds([[row.visits for row in each] for each in rows])
    confirm = _Rounds([[row.confirm for row in each] for each in rows])
    log_time = _paired(np.log(times), confirm)
    ends = np.cumsum([len(each) for each in rows]).tolist()
    return [
        Variant(
            key=ShapeKey(record.shape.num_heads, record.shape.topk, record.shape.extra_topk, record.shape.num_tokens),
            order=(record.shape, record.key, record.started),
            plans=tuple(row.plan for row in each),
            log_time=log_time[end - len(each) : end],
            visits=raced,
            confirm=sure,
            tie_band=record.tie_band,
            best=record.best,
            started=record.started,
        )
        for record, each, end, raced, sure in zip(
            records, rows, ends, visits.of_points(), confirm.of_points(), strict=True
        )
    ]


def _usable(row: PlanRow) -> bool:
    return row.status in TIMED and row.median_us is not None and row.median_us > 0


def _reachable(plan: Plan) -> bool:
    """Whether a look-up with the default ``max_splits`` may answer with ``plan``: no table helps with another one.

    A rival is measured to be compared with, and no table may answer with it.
    """
    return plan.num_splits <= DEFAULT_MAX_SPLITS and (not plan.options or rival_of(plan) is None)


def _plan_of(row: PlanRow) -> Plan:
    return row.plan


class _Rounds:
    """The rounds of all plans of many points, as log times in one array: NaN where there is no valid time.

    All plans of a point have as many rounds there as the one with most: row ``i``, counted over all points, holds
    ``width[i]`` of them from ``first[i]`` on.
    """

    def __init__(self, points: Sequence[Sequence[Sequence[float | None]]]) -> None:
        self.shapes = [(len(rows), max(map(len, rows), default=0)) for rows in points]
        self.width = np.array([rounds for plans, rounds in self.shapes for _ in range(plans)], dtype=np.int64)
        self.first = np.cumsum(self.width) - self.width
        given = np.array([time for rows in points for row in rows for time in row], dtype=np.float64)
        length = np.array([len(row) for rows in points for row in rows], dtype=np.int64)
        filled = np.full(int(self.width.sum()), np.nan)
        # A row's times were given right behind those of the row before.
        filled[np.arange(len(given)) + np.repeat(self.first - (np.cumsum(length) - length), length)] = given
        self.log_time: Floats = np.log(np.where(filled > 0, filled, np.nan))

    def of_points(self) -> Iterator[NDArray[np.float32]]:
        """The [plans, rounds] of each point."""
        flat, first = self.log_time.astype(np.float32), 0
        for plans, rounds in self.shapes:
            yield flat[first : first + plans * rounds].reshape(plans, rounds)
            first += plans * rounds

    def of_rows(self, rows: Ints) -> Floats:
        """``[rows, rounds]`` of rows that have equally many rounds."""
        found: Floats = self.log_time[self.first[rows][:, None] + np.arange(self.width[rows[0]])]
        return found


def _paired(reported: Floats, confirm: _Rounds) -> Floats:
    """``reported`` with confirmed times taken relative to the best of their point.

    Drift common to a round cancels in pairs.
    """
    finite = np.concatenate([[0], np.cumsum(np.isfinite(confirm.log_time))])
    valid = finite[confirm.first + confirm.width] - finite[confirm.first]
    confirmed = np.isfinite(reported) & (valid >= LEAST_ROUNDS)
    plans = np.array([plans for plans, _ in confirm.shapes], dtype=np.int64)
    owner = np.repeat(np.arange(len(plans)), plans)
    least = np.minimum.reduceat(np.where(confirmed, reported, np.inf), np.cumsum(plans) - plans)
    fastest = np.flatnonzero(confirmed & (reported == least[owner]))
    best = np.zeros(len(plans), dtype=np.int64)
    # Backwards, so that of equal times the first plan stays.
    best[owner[fastest[::-1]]] = fastest[::-1]
    times = reported.copy()
    for width in np.unique(confirm.width[confirmed]):
        rows = np.flatnonzero(confirmed & (confirm.width == width))
        ratios = confirm.of_rows(rows) - confirm.of_rows(best[owner[rows]])
        common = np.isfinite(ratios).sum(axis=1)
        for rounds in np.unique(common[common >= LEAST_ROUNDS]).tolist():
            here = rows[common == rounds]
            held = ratios[common == rounds]
            centres = _locations(held[np.isfinite(held)].reshape(-1, rounds), rounds)
            times[here] = reported[best[owner[here]]] + centres
    return times


def _locations(values: Floats, count: int) -> Floats:
    """``location`` of every row of ``values``, which has ``count`` columns: one at a time takes twenty times longer."""
    if count < FEWEST_PAIRED:
        return np.asarray(np.median(values, axis=1))
    one, other = np.triu_indices(count)
    return np.asarray(np.median((values[:, one] + values[:, other]) / 2, axis=1, overwrite_input=True))
