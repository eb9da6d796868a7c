"""Whether a later run is a regression: plans that became slower, or a table that chooses worse.

Two occasions share no rounds, and a device drifts between them by more than its visits within a minute show. How much,
is seen in the plans themselves, most of which are unchanged: a single plan counts as slower only if it stands out from
them, beyond the margin and beyond the noise of its own visits. If the median plan became slower, everything did.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, variance

from cake_tune.errors import UndecidedError
from cake_tune.fit.run import table_of_run
from cake_tune.journal.record import PlanRow, PointRecord
from cake_tune.journal.run import RunDirectory
from cake_tune.planner.shape import Plan, Shape
from cake_tune.planner.table import PlannerTable, Regret, load_table
from cake_tune.study.agreement import Agreement, agreement
from cake_tune.study.origin import check_same
from cake_tune.study.points import measured_points, own_rows
from cake_tune.study.scored import answer_of, score_answer
from cake_tune.sweep.words import counted

LEAST_VISITS = 3
OTHER_GPU = 0.04
"""What a single plan must lose at least where two GPUs timed it: those of one kind differ plan by plan. Of 5296 pairs
of times from three occasions on eight H200s, one in a thousand is 2.3 % off the median pair, the farthest 3.0 %."""
NORMAL = 1.4826
"""The deviation of a normal distribution over its median absolute deviation."""


@dataclass(frozen=True, slots=True)
class Slower:
    """A plan that became slower at a point: by which fraction, and the part that is beyond the noise of its visits."""

    shape: Shape
    plan: Plan
    slowdown: float
    sure: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Run B against run A.

    ``plans`` were confirmed, or raced to the end, in both; rivals are none of them, since no table answers with one.
    ``drift`` is the median of their times in B over those in A, and ``scatter`` how far they are apart from it, as the
    deviation of a normal distribution, as fractions.
    ``floor`` is the margin for the single plans, ``floored`` in number, that another GPU timed than before.
    ``regret_before`` and ``regret_after`` are the regrets of A's and of B's table, both on the points of B.
    """

    agreement: Agreement
    plans: int
    drift: float
    scatter: float
    slower: tuple[Slower, ...]
    margin: float
    floor: float
    floored: int
    regret_before: Regret
    regret_after: Regret

    @property
    def all_slower(self) -> bool:
        """Whether the median plan became slower by more than the margin."""
        return self.drift > 1 + self.margin

    @property
    def table_worse(self) -> bool:
        """Whether B's table loses more on average than A's, by more than the margin."""
        return self.regret_after.mean > self.regret_before.mean + self.margin

    @property
    def regressions(self) -> list[str]:
        """What became worse, in words; empty if nothing did."""
        found = []
        if self.all_slower:
            found.append(f"the median plan takes {self.drift:.4f} times as long")
        if self.slower:
            found.append(f"{len(self.slower)} of {counted(self.plans, 'plan')} became slower")
        if self.table_worse:
            found.append("the table chooses worse")
        return found


def compare_runs(
    before: RunDirectory, after: RunDirectory, *, margin: float | None = None, any_kernel: bool = False
) -> Comparison:
    """Compare ``after`` with ``before``; ``margin`` is a fraction, None for the widest tie band of the two.

    With None a single plan must also be slower by ``OTHER_GPU`` where the two GPUs that timed it differ or are unknown.

    ``JournalError`` for runs of other devices, kernels (unless ``any_kernel``) or cache regimes; ``UndecidedError``
    when they have no plan with times at one shape in common.
    """
    check_same(before, after, any_kernel=any_kernel)
    old = {record.shape: record for record in before.read_records()}
    new = {record.shape: record for record in after.read_records()}
    device = after.read_info().device
    pairs = [
        pair for shape in sorted(old.keys() & new.keys()) for pair in _pairs(old[shape], new[shape], device.is_gpu)
    ]
    if not pairs:
        raise UndecidedError(
            f"{after.journal}: expected a plan that stayed in the race here and in {before.journal}, at one shape; "
            "found none to compare"
        )
    first, second = measured_points(old.values()), measured_points(new.values())
    held = [each for point in second.values() if (each := point.reachable()) is not None]
    regrets = [
        score_answer("", answer_of(table, device.num_sms), held).summary for table in (_table(before), _table(after))
    ]
    bands = (point.tie_band for points in (first, second) for point in points.values())
    allowed = max(bands) if margin is None else margin
    floor = max(allowed, OTHER_GPU) if margin is None else allowed
    drift = median(pair.slowdown for pair in pairs)
    scatter = NORMAL * median(abs(pair.slowdown - drift) for pair in pairs)
    return Comparison(
        agreement=agreement(first, second),
        plans=len(pairs),
        drift=math.exp(drift),
        scatter=math.expm1(scatter),
        slower=tuple(_outstanding(pairs, math.log1p(allowed), math.log1p(floor), drift, scatter)),
        margin=allowed,
        floor=floor,
        floored=sum(pair.other_gpu for pair in pairs),
        regret_before=regrets[0],
        regret_after=regrets[1],
    )


@dataclass(frozen=True, slots=True)
class _Pair:
    """One plan at one shape in both runs: log ratio of its times, and its lower 95 % bound by the noise of visits.

    ``other_gpu``: not known to be timed by one and the same GPU.
    """

    shape: Shape
    plan: Plan
    slowdown: float
    least: float
    other_gpu: bool


def _pairs(old: PointRecord, new: PointRecord, on_gpu: bool) -> list[_Pair]:
    rows = {row.plan: times for row in own_rows(old) if (times := _times(row))}
    other_gpu = on_gpu and not (new.gpu and new.gpu == old.gpu)
    found = []
    for row in own_rows(new):
        after = _times(row)
        if after and row.plan in rows:
            slowdown, least = _difference(after, rows[row.plan])
            found.append(_Pair(new.shape, row.plan, slowdown, least, other_gpu))
    return found


def _times(row: PlanRow) -> list[float]:
    """Log times of the visits that are reported: the confirmation's, else the race's of a plan that stayed in it."""
    if row.status not in ("ok", "tied"):
        return []
    times = [math.log(time) for time in (row.confirm or row.visits) if time is not None]
    return times if len(times) >= LEAST_VISITS else []


def _difference(after: Sequence[float], before: Sequence[float]) -> tuple[float, float]:
    """Difference of the medians, and the lower one-sided 95 % bound of the difference of the means."""
    from scipy.special import stdtrit

    parts = [variance(times) / len(times) for times in (after, before)]
    apart = median(after) - median(before)
    if not sum(parts):
        return apart, apart
    freedom = sum(parts) ** 2 / sum(
        part**2 / (len(times) - 1) for part, times in zip(parts, (after, before), strict=True)
    )
    least = fmean(after) - fmean(before) - float(stdtrit(freedom, 0.95)) * math.sqrt(sum(parts))
    return apart, least


def _outstanding(pairs: Sequence[_Pair], margin: float, floor: float, drift: float, scatter: float) -> list[Slower]:
    """The pairs that are slower beyond ``margin`` and stand out from the others, the largest slowdown first.

    ``floor`` takes the place of ``margin`` for plans that another GPU timed. To stand out is to be so far from the
    median that of as many unchanged plans one in twenty runs would have one.
    """
    from scipy.special import ndtri

    limit = drift + float(ndtri(1 - 0.05 / len(pairs))) * scatter
    found = [
        Slower(pair.shape, pair.plan, math.expm1(pair.slowdown), math.expm1(pair.least))
        for pair in pairs
        if min(pair.slowdown, pair.least) > (floor if pair.other_gpu else margin) and pair.slowdown > limit
    ]
    return sorted(found, key=lambda each: (-each.slowdown, each.shape, each.plan))


def _table(run: RunDirectory) -> PlannerTable:
    return load_table(run.table) if run.table.exists() else table_of_run(run)
