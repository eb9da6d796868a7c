"""Stream a journal's records into samples: variants of a shape combined, failed rows without a time."""

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cake_tune.errors import UndecidedError
from cake_tune.fit.samples import LEAST_ROUNDS, Bools, Floats, Samples, ShapeKey
from cake_tune.journal.record import TIMED, PlanRow, PointRecord
from cake_tune.measure.statistics import FEWEST_PAIRED
from cake_tune.planner.rules import DEFAULT_MAX_SPLITS
from cake_tune.planner.shape import Plan, num_chunks, rival_of

_BATCH = 4096


class _Variant(NamedTuple):
    """One record, compact: all that is kept of it while the journal streams by."""

    key: ShapeKey
    order: tuple[object, ...]
    plans: tuple[Plan, ...]
    log_time: Floats
    visits: NDArray[np.float32]
    confirm: Floats
    tie_band: float
    best: Plan | None
    started: str


def collect(records: Iterable[PointRecord]) -> Samples:
    """Stream ``records`` into samples; ``UndecidedError`` when no record holds a usable time."""
    interned: dict[Plan, Plan] = {}
    seen = 0
    variants = []
    for record in records:
        seen += 1
        if any(_usable(row) and _reachable(row.plan) for row in record.rows):
            variants.append(_compact(record, interned))
    _pair_times(variants)
    if not variants:
        raise UndecidedError(
            f"records: expected at least one point with a measured plan, got none (points seen: {seen}); nothing to fit"
        )
    variants.sort(key=lambda variant: (variant.key, variant.order))
    points = [_combine(list(found)) for _, found in groupby(variants, key=lambda variant: variant.key)]
    return _flatten([point for point in points if not np.isnan(point.log_time).all()], sorted(interned))


def _usable(row: PlanRow) -> bool:
    return row.status in TIMED and row.median_us is not None and row.median_us > 0


def _reachable(plan: Plan) -> bool:
    """Whether a look-up with the default ``max_splits`` may answer with ``plan``: no table helps with another one.

    A rival is measured to be compared with, and no table may answer with it.
    """
    return plan.num_splits <= DEFAULT_MAX_SPLITS and rival_of(plan) is None


def _compact(record: PointRecord, interned: dict[Plan, Plan]) -> _Variant:
    rows = sorted((row for row in record.rows if _reachable(row.plan)), key=lambda row: row.plan)
    shape = record.shape
    confirm = _log_rounds([row.confirm for row in rows])
    times = np.array([row.median_us if _usable(row) else np.nan for row in rows], dtype=np.float64)
    return _Variant(
        key=ShapeKey(shape.num_heads, shape.topk, shape.extra_topk, shape.num_tokens),
        order=(shape, record.key, record.started),
        plans=tuple(interned.setdefault(row.plan, row.plan) for row in rows),
        log_time=np.log(times),
        visits=_log_rounds([row.visits for row in rows]).astype(np.float32),
        confirm=confirm,
        tie_band=record.tie_band,
        best=record.best,
        started=record.started,
    )


def _log_rounds(rounds: Sequence[Sequence[float | None]]) -> Floats:
    """Log times as [plans, rounds], NaN where there is no valid time."""
    filled = np.full((len(rounds), max((len(each) for each in rounds), default=0)), np.nan)
    for i, each in enumerate(rounds):
        filled[i, : len(each)] = each
    return np.log(np.where(filled > 0, filled, np.nan))


def _pair_times(variants: Iterable[_Variant]) -> None:
    """Take confirmed times relative to the best, in place: drift common to a round cancels in pairs."""
    pending: dict[int, list[tuple[Floats, int, float, Floats]]] = {}
    for variant in variants:
        reported, confirm = variant.log_time, variant.confirm
        confirmed = np.isfinite(reported) & (np.isfinite(confirm).sum(axis=1) >= LEAST_ROUNDS)
        if not confirmed.any():
            continue
        best = int(np.flatnonzero(confirmed)[np.argmin(reported[confirmed])])
        for row in np.flatnonzero(confirmed).tolist():
            ratios = confirm[row] - confirm[best]
            ratios = ratios[np.isfinite(ratios)]
            if len(ratios) >= LEAST_ROUNDS:
                pending.setdefault(len(ratios), []).append((reported, row, float(reported[best]), ratios))
    for rounds, held in pending.items():
        for first in range(0, len(held), _BATCH):
            batch = held[first : first + _BATCH]
            centres = _locations(np.stack([ratios for *_, ratios in batch]), rounds)
            for (times, row, base, _), centre in zip(batch, centres.tolist(), strict=True):
                times[row] = base + centre


def _locations(values: Floats, count: int) -> Floats:
    """``location`` of every row of ``values``, which has ``count`` columns: one at a time takes twenty times longer."""
    if count < FEWEST_PAIRED:
        return np.asarray(np.median(values, axis=1))
    one, other = np.triu_indices(count)
    return np.asarray(np.median((values[:, one] + values[:, other]) / 2, axis=1, overwrite_input=True))


class _Point(NamedTuple):
    key: ShapeKey
    plans: list[Plan]
    log_time: Floats
    equal: Bools
    chosen: Bools
    variants: int
    visits: NDArray[np.float32]
    confirm: NDArray[np.float32]
    tie_band: float
    dates: tuple[str, str]


def _combine(records: list[_Variant]) -> _Point:
    """One point of all the records of a key: those of one shape make one variant, then the variants are averaged.

    A plan that failed in any of them has no time.
    """
    if len(records) == 1:
        (only,) = records
        return _point(records, 1, list(only.plans), only.log_time, only.visits, only.confirm.astype(np.float32))
    plans = sorted({plan for record in records for plan in record.plans})
    place = {plan: i for i, plan in enumerate(plans)}
    shapes = [list(found) for _, found in groupby(records, key=lambda record: record.order[0])]
    times = np.stack([_of_one_shape(found, place) for found in shapes])
    failed = {plan for each in records for plan, gone in zip(each.plans, np.isnan(each.log_time), strict=True) if gone}
    times[:, [place[plan] for plan in failed]] = np.nan
    visits = np.concatenate([_spread_out(record.visits, record.plans, place) for record in records], axis=1)
    confirm = np.concatenate([_spread_out(record.confirm, record.plans, place) for record in records], axis=1)
    return _point(records, len(shapes), plans, _average(times), visits, confirm)


def _of_one_shape(records: list[_Variant], place: dict[Plan, int]) -> Floats:
    """The log times of records that differ in their plans alone; of a plan in several, that among the most plans."""
    times = np.full(len(place), np.nan)
    for record in sorted(records, key=lambda record: len(record.plans)):
        times[[place[plan] for plan in record.plans]] = record.log_time
    return times


def _average(times: Floats) -> Floats:
    """The means over variants, given as [variants, plans] with NaN where one did not race a plan.

    A plan that some lack is compared with what they all have, each with its own least of that, so that its time is what
    it would be if the variants that lack it were like the others. Where they have nothing in common, with its least.
    """
    means = times.mean(axis=0)
    timed = np.isfinite(times)
    some = timed.any(axis=0) & np.isnan(means)
    if some.any():
        common = timed.all(axis=0)
        least = np.where(timed & common if common.any() else timed, times, np.inf).min(axis=1)
        says = np.isfinite(least)
        relative = times[says][:, some] - least[says, None]
        means[some] = np.nanmean(relative, axis=0) + least[says].mean()
    return np.asarray(means)


def _point(
    records: list[_Variant],
    variants: int,
    plans: list[Plan],
    log_time: Floats,
    visits: NDArray[np.float32],
    confirm: NDArray[np.float32],
) -> _Point:
    tie_band = float(np.log1p(max(record.tie_band for record in records)))
    equal = np.zeros(len(plans), dtype=np.bool_)
    if not np.isnan(log_time).all():
        equal = log_time <= np.nanmin(log_time) + tie_band
    bests = {record.best for record in records}
    best = bests.pop() if len(bests) == 1 else None
    chosen = np.array([plan == best for plan in plans], dtype=np.bool_) & ~np.isnan(log_time)
    started = sorted(record.started for record in records)
    return _Point(
        key=records[0].key,
        plans=plans,
        log_time=log_time,
        equal=equal,
        chosen=chosen,
        variants=variants,
        visits=visits,
        confirm=confirm,
        tie_band=tie_band,
        dates=(started[0], started[-1]),
    )


def _spread_out(rounds: NDArray[np.floating], plans: tuple[Plan, ...], place: dict[Plan, int]) -> NDArray[np.float32]:
    """One variant's rounds in the rows of the whole point."""
    spread = np.full((len(place), rounds.shape[1]), np.nan, dtype=np.float32)
    spread[[place[plan] for plan in plans]] = rounds
    return spread


def _flatten(points: list[_Point], plans: list[Plan]) -> Samples:
    if not points:
        raise UndecidedError(
            "records: expected a plan measured in every variant of some shape, got none; nothing to fit"
        )
    index = {plan: i for i, plan in enumerate(plans)}
    heads, topk, extra, tokens = np.array([point.key for point in points], dtype=np.int64).T
    return Samples(
        num_tokens=tokens,
        num_heads=heads,
        topk=topk,
        extra_topk=extra,
        chunks=np.array([num_chunks(int(a), int(b)) for a, b in zip(topk, extra, strict=True)], dtype=np.int64),
        tie_band=np.array([point.tie_band for point in points]),
        start=np.concatenate([[0], np.cumsum([len(point.plans) for point in points])]),
        plans=tuple(plans),
        plan=np.array([index[plan] for point in points for plan in point.plans], dtype=np.int64),
        log_time=np.concatenate([point.log_time for point in points]),
        equal=np.concatenate([point.equal for point in points]),
        chosen=np.concatenate([point.chosen for point in points]),
        variants=np.array([point.variants for point in points], dtype=np.int64),
        visits=[point.visits for point in points],
        confirm=[point.confirm for point in points],
        dates=(min(point.dates[0] for point in points), max(point.dates[1] for point in points)),
    )
