"""Where a plan of more splits than planners answer with is the fastest: what no table can give back."""

from dataclasses import dataclass, field

from cake_tune.journal.record import TIMED, PointRecord
from cake_tune.planner.rules import DEFAULT_MAX_SPLITS
from cake_tune.planner.shape import Shape, rival_of


@dataclass
class Beyond:
    """By how much, as a fraction of its time, at each such point of a run."""

    losses: dict[Shape, float] = field(default_factory=dict)

    def add(self, record: PointRecord) -> None:
        """Take in one more point."""
        times = [
            (row.median_us, row.plan.num_splits)
            for row in record.rows
            if row.status in TIMED and row.median_us and rival_of(row.plan) is None
        ]
        within = [us for us, splits in times if splits <= DEFAULT_MAX_SPLITS]
        if within and (fastest := min(us for us, _ in times)) < min(within):
            self.losses[record.shape] = min(within) / fastest - 1

    def join(self, later: "Beyond") -> None:
        """Take in what ``later`` has."""
        self.losses |= later.losses

    @property
    def worst(self) -> tuple[float, Shape]:
        """The largest loss, and where; there is one."""
        return max((loss, shape) for shape, loss in self.losses.items())
