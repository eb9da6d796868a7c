"""A/A points: one plan raced and confirmed under two labels, where every reported difference is a false one."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from cake_tune.journal.record import PointRecord
from cake_tune.journal.run import RunDirectory
from cake_tune.measure.statistics import location, paired_log_ratios, quantile
from cake_tune.planner.shape import Plan, Shape


@dataclass(frozen=True, slots=True)
class Twin:
    """One A/A point.

    ``ratio`` is the time of the second label over that of the first: the Hodges-Lehmann centre of the paired ratios of
    the confirmation, NaN without any. ``differs``: the run reported the two labels as different.
    """

    shape: Shape
    plan: Plan
    ratio: float
    rounds: int
    tie_band: float
    differs: bool


@dataclass(frozen=True, slots=True)
class Twins:
    """Every A/A point that came to a result, and how many did not."""

    points: tuple[Twin, ...]
    failed: int

    @property
    def differing(self) -> int:
        """Points with a reported difference."""
        return sum(twin.differs for twin in self.points)

    @property
    def ratios(self) -> list[float]:
        """The ratios that exist, ascending."""
        return sorted(twin.ratio for twin in self.points if math.isfinite(twin.ratio))

    @property
    def distribution(self) -> list[tuple[str, float]]:
        """Named quantiles of ``ratios``; empty without any."""
        ratios = self.ratios
        if not ratios:
            return []
        named = [("least", 0.0), ("5th percentile", 0.05), ("median", 0.5), ("95th percentile", 0.95), ("largest", 1.0)]
        return [(name, quantile(ratios, share)) for name, share in named]


def twin_run(run: RunDirectory) -> RunDirectory:
    """Where the A/A points of a run are; it need not exist."""
    return RunDirectory(run.path / "aa")


def twins_of(records: Iterable[PointRecord]) -> Twins:
    """The A/A points among ``records``; the others are passed over. "tied" is no difference, "ok" is one."""
    points, failed = [], 0
    for record in records:
        if not record.twins:
            continue
        if record.status not in ("ok", "tied") or len(record.rows) != 2:
            failed += 1
            continue
        one, other = (_rounds(row.confirm) for row in record.rows)
        ratios = paired_log_ratios(other, one)
        points.append(
            Twin(
                shape=record.shape,
                plan=record.rows[0].plan,
                ratio=math.exp(location(ratios)) if ratios else math.nan,
                rounds=len(ratios),
                tie_band=record.tie_band,
                differs=record.status == "ok",
            )
        )
    return Twins(tuple(sorted(points, key=lambda twin: (twin.shape, twin.plan))), failed)


def _rounds(times: tuple[float | None, ...]) -> list[float]:
    return [math.nan if time is None else time for time in times]
