"""What one measured point leaves behind: the record that a sweep writes and that fit, report and replay read.

Pure data, no torch: a journal can be read on any machine.
"""

from dataclasses import dataclass, field
from typing import Literal

from cake_tune.planner.shape import Plan, Shape

Status = Literal["ok", "tied", "invalid", "oom", "crashed", "timeout", "too_slow", "unstable", "pruned", "wrong"]
"""ok: measured and decided; tied: measured, its best plans are within the tie band; pruned: left the race early or
was excluded; wrong: failed the correctness gate (the protocol's list of statuses has no word for that; it is added
here). The others name what went wrong."""

USABLE: tuple[Status, ...] = ("ok", "tied", "pruned")
"""Statuses with which a time counts; a pruned plan's is the one with which it left the race."""

TIMED: tuple[Status, ...] = (*USABLE, "too_slow")
"""Those, and the one of plans that only have the time of a short probe (none in journals that did not keep it): good
enough to say what such a plan would cost, and that it does not win.
"""


@dataclass(frozen=True, slots=True)
class PlanRow:
    """What one plan of a point measured.

    ``visits`` and ``confirm`` hold one median per visit, in microseconds per call, index = round (race rounds and
    confirmation rounds are separate; a plan that left the race has fewer visits; a visit that gave nothing is NaN,
    written as null). ``median_us`` is the reported time: the median of ``confirm`` where the plan was confirmed, else
    the best plan's reported time times the plan's paired ratio to it over their common rounds; the probe's time of a
    plan that was too slow to be raced; None when nothing was measured. ``spread`` is the relative median absolute
    deviation of visits and confirm together. ``relative_error`` is the larger of those that the correctness gate found
    before and after timing, None for a plan that never passed it.
    """

    plan: Plan
    status: Status
    median_us: float | None = None
    spread: float | None = None
    visits: tuple[float | None, ...] = ()
    confirm: tuple[float | None, ...] = ()
    error: str | None = None
    """The message of what failed."""
    relative_error: float | None = None
    visit_means: tuple[float | None, ...] = ()
    """Per entry of ``visits``: the mean of the samples whose median it is; empty in journals that did not keep it."""
    visit_mads: tuple[float | None, ...] = ()
    """Per entry of ``visits``: the median absolute deviation of those samples, in microseconds."""
    confirm_means: tuple[float | None, ...] = ()
    confirm_mads: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class PointRecord:
    """One line of the journal: one shape with everything measured on it.

    ``key`` (hex digits and dashes) identifies the work: shape, plans, measuring options, kernel identity, compiler,
    driver, device. ``best`` is the plan chosen by the protocol, ``tied`` the plans within ``tie_band`` of it (``best``
    included), ``incumbent`` the plan in force before. All None or empty when nothing could be chosen.
    """

    key: str
    shape: Shape
    status: Status
    rows: tuple[PlanRow, ...]
    best: Plan | None = None
    tied: tuple[Plan, ...] = ()
    incumbent: Plan | None = None
    tie_band: float = 0.0
    rounds: int = 0
    regime: str = "cold"
    started: str = ""
    """UTC time of the start, ISO 8601."""
    seconds: float = 0.0
    """Wall time of the point."""
    error: str | None = None
    audit: dict[str, float] = field(default_factory=dict)
    """Machine state and accounts beside the times (clocks, temperatures, seconds), by name with its unit in the name.

    ``slot_seconds`` is the wall time since the device's previous point ended, or since the sweep began: start-up, the
    A/A run and waiting included. Summed over a journal it is the wall time of all its devices.
    """
    gpu: str = ""
    """UUID of the GPU that measured the point; empty off GPU."""
    audits: str = ""
    """Key of the record that this one repeats on another GPU; empty for the point's own. No fit uses audits."""
    twins: bool = False
    """True for an A/A point: its two rows are one plan under two labels, and "tied" says that no difference was found
    between them, "ok" that one was. No fit uses twins."""

    @property
    def counts(self) -> bool:
        """True for a point's own record, which fits use; an audit or an A/A point is none."""
        return not self.audits and not self.twins
