"""Samples of compact records: variants of a shape combined, failed plans without a time."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cake_tune.errors import UndecidedError
from cake_tune.fit.samples import Floats, Samples, ShapeKey
from cake_tune.fit.variants import Variant
from cake_tune.planner.shape import Plan, num_chunks


def samples_of(variants: Sequence[Variant]) -> Samples:
    """The samples of ``variants``, in any order; ``UndecidedError`` when no plan has a time in all of a shape's."""
    ordered = sorted(variants, key=lambda variant: (variant.key, variant.order))
    points = [_combine(list(found)) for _, found in groupby(ordered, key=lambda variant: variant.key)]
    points = [point for point in points if not np.isnan(point.log_time).all()]
    if not points:
        raise UndecidedError(
            "records: expected a plan measured in every variant of some shape, got none; nothing to fit"
        )
    return _flatten(points, sorted({plan for variant in variants for plan in variant.plans}))


class _Point(NamedTuple):
    key: ShapeKey
    plans: tuple[Plan, ...]
    log_time: Floats
    best: Plan | None
    """The race's choice, where it was the same in every variant."""
    variants: int
    visits: NDArray[np.float32]
    confirm: NDArray[np.float32]
    tie_band: float
    dates: tuple[str, str]


def _combine(records: list[Variant]) -> _Point:
    """One point of all the records of a key: those of one shape make one variant, then the variants are averaged.

    A plan that failed in any of them has no time.
    """
    first = records[0]
    if len(records) == 1:
        return _point(records, 1, first.plans, first.log_time, first.visits, first.confirm)
    if all(record.plans == first.plans for record in records):
        return _of_same_plans(records)
    plans = tuple(sorted({plan for record in records for plan in record.plans}))
    place = {plan: i for i, plan in enumerate(plans)}
    shapes = [list(found) for _, found in groupby(records, key=lambda record: record.order[0])]
    times = np.stack([_of_one_shape(found, place) for found in shapes])
    failed = {plan for each in records for plan, gone in zip(each.plans, np.isnan(each.log_time), strict=True) if gone}
    times[:, [place[plan] for plan in failed]] = np.nan
    visits = np.concatenate([_spread_out(record.visits, record.plans, place) for record in records], axis=1)
    confirm = np.concatenate([_spread_out(record.confirm, record.plans, place) for record in records], axis=1)
    return _point(records, len(shapes), plans, _average(times), visits, confirm)


def _of_same_plans(records: list[Variant]) -> _Point:
    """``_combine`` where every record has the same plans, as nearly all of a journal do: nothing to line up."""
    last = {record.order[0]: record for record in records}
    times = np.mean([record.log_time for record in last.values()], axis=0)
    if len(last) < len(records):
        times[np.isnan([record.log_time for record in records]).any(axis=0)] = np.nan
    visits = np.concatenate([record.visits for record in records], axis=1)
    confirm = np.concatenate([record.confirm for record in records], axis=1)
    return _point(records, len(last), records[0].plans, times, visits, confirm)


def _of_one_shape(records: list[Variant], place: dict[Plan, int]) -> Floats:
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


def _spread_out(rounds: NDArray[np.float32], plans: tuple[Plan, ...], place: dict[Plan, int]) -> NDArray[np.float32]:
    """One variant's rounds in the rows of the whole point."""
    spread = np.full((len(place), rounds.shape[1]), np.nan, dtype=np.float32)
    spread[[place[plan] for plan in plans]] = rounds
    return spread


def _point(
    records: list[Variant],
    variants: int,
    plans: tuple[Plan, ...],
    log_time: Floats,
    visits: NDArray[np.float32],
    confirm: NDArray[np.float32],
) -> _Point:
    bests = {record.best for record in records}
    started = sorted(record.started for record in records)
    return _Point(
        key=records[0].key,
        plans=plans,
        log_time=log_time,
        best=bests.pop() if len(bests) == 1 else None,
        variants=variants,
        visits=visits,
        confirm=confirm,
        tie_band=float(np.log1p(max(record.tie_band for record in records))),
        dates=(started[0], started[-1]),
    )


def _flatten(points: list[_Point], plans: list[Plan]) -> Samples:
    index = {plan: i for i, plan in enumerate(plans)}
    heads, topk, extra, tokens = np.array([point.key for point in points], dtype=np.int64).T
    lengths = np.array([len(point.plans) for point in points], dtype=np.int64)
    start = np.concatenate([[0], np.cumsum(lengths)])
    plan = np.array([index[plan] for point in points for plan in point.plans], dtype=np.int64)
    log_time = np.concatenate([point.log_time for point in points])
    tie_band = np.array([point.tie_band for point in points])
    best = np.array([-1 if point.best is None else index.get(point.best, -1) for point in points], dtype=np.int64)
    least = np.fmin.reduceat(log_time, start[:-1])
    return Samples(
        num_tokens=tokens,
        num_heads=heads,
        topk=topk,
        extra_topk=extra,
        chunks=np.array([num_chunks(int(a), int(b)) for a, b in zip(topk, extra, strict=True)], dtype=np.int64),
        tie_band=tie_band,
        start=start,
        plans=tuple(plans),
        plan=plan,
        log_time=log_time,
        equal=log_time <= np.repeat(least + tie_band, lengths),
        chosen=(plan == np.repeat(best, lengths)) & ~np.isnan(log_time),
        variants=np.array([point.variants for point in points], dtype=np.int64),
        visits=[point.visits for point in points],
        confirm=[point.confirm for point in points],
        dates=(min(point.dates[0] for point in points), max(point.dates[1] for point in points)),
    )
