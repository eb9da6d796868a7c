"""How the rivals did against the best plan of the family, shape by shape."""

from collections.abc import Iterable
from dataclasses import dataclass

from cake_tune.journal.record import USABLE, PlanRow, PointRecord
from cake_tune.planner.shape import rival_of


@dataclass
class Rival:
    """The races of one rival: at how many shapes both sides have a time, and who was faster beyond the tie band.

    ``gain`` is the most that the rival took less than the best plan, ``loss`` the most that it took more, both as
    fractions of that plan's time.
    """

    name: str
    shapes: int = 0
    faster: int = 0
    slower: int = 0
    gain: float = 0.0
    loss: float = 0.0

    def join(self, other: "Rival") -> None:
        """Count the races of ``other`` as well."""
        self.shapes += other.shapes
        self.faster += other.faster
        self.slower += other.slower
        self.gain = max(self.gain, other.gain)
        self.loss = max(self.loss, other.loss)

    @property
    def words(self) -> str:
        """The races in one line."""
        ties = self.shapes - self.faster - self.slower
        faster = f"faster than the best plan at {self.faster} of {self.shapes} shapes"
        slower = f"slower at {self.slower}"
        return (
            f"{self.name}: {faster}{f' by up to {100 * self.gain:.2f} %' if self.faster else ''}, "
            f"{slower}{f' by up to {100 * self.loss:.2f} %' if self.slower else ''}, as fast at {ties}"
        )


def note_rivals(rivals: dict[str, Rival], record: PointRecord) -> None:
    """Count the races of ``record`` into ``rivals``, which it fills by name."""
    if not any(row.plan.options for row in record.rows):
        return
    times = {row.plan: row.median_us for row in record.rows if _is_timed(row)}
    family = _least(us for plan, us in times.items() if rival_of(plan) is None)
    for plan, us in times.items():
        name = rival_of(plan)
        if name is None or us is None or family is None:
            continue
        rival = rivals.setdefault(name, Rival(name))
        rival.shapes += 1
        if us * (1 + record.tie_band) < family:
            rival.faster += 1
            rival.gain = max(rival.gain, 1 - us / family)
        elif family * (1 + record.tie_band) < us:
            rival.slower += 1
            rival.loss = max(rival.loss, us / family - 1)


def _is_timed(row: PlanRow) -> bool:
    return row.status in USABLE and row.median_us is not None and row.median_us > 0


def _least(times: Iterable[float | None]) -> float | None:
    return min((us for us in times if us is not None), default=None)
