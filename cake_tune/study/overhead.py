"""How much of the wall time in which GPUs were given to a sweep they did not work: from the accounts in its records."""

from collections.abc import Iterable
from dataclasses import dataclass

from cake_tune.journal.record import PointRecord


@dataclass(frozen=True, slots=True)
class Overhead:
    """Sums over ``records`` records, in seconds; None where a record lacks the account.

    ``wall``: the sum over the GPUs of the wall time in which each was given to the sweep (GPU slots x wall time, pauses
    between calls left out), where ``between`` is true: with what lies between points (start of workers, the A/A run of
    the tie band, waiting). Else the time of all points alone, which is ``points``. ``gpu``: the time that the GPU
    worked on what is timed. ``samples``, ``checks``: the wall time inside samples and correctness checks, in which the
    GPU works most of the time.
    """

    records: int
    wall: float
    between: bool
    points: float
    gpu: float | None
    samples: float | None
    checks: float | None

    @property
    def share(self) -> float | None:
        """Wall time outside GPU work over wall time; None where the GPU's was not recorded."""
        return None if self.gpu is None or not self.wall else 1 - self.gpu / self.wall

    @property
    def outside_sampling(self) -> float | None:
        """Wall time outside samples and checks over wall time: at most as large as ``share``."""
        if self.samples is None or self.checks is None or not self.wall:
            return None
        return 1 - (self.samples + self.checks) / self.wall

    @property
    def parts(self) -> dict[str, float] | None:
        """What ``share`` is made of, by the names of a report, as shares of the wall time that add up to it."""
        if self.gpu is None or self.samples is None or self.checks is None or not self.wall:
            return None
        seconds = {
            "between points": self.wall - self.points,
            "inputs and starts": self.points - self.samples - self.checks,
            "checks": self.checks,
            "in samples": self.samples - self.gpu,
        }
        return {name: part / self.wall for name, part in seconds.items()}


def overhead_of(records: Iterable[PointRecord]) -> Overhead:
    """The accounts of ``records``, audits on a second GPU included: they took time as well."""
    held = list(records)
    between = bool(held) and all("slot_seconds" in record.audit for record in held)
    points = sum(record.seconds for record in held)
    return Overhead(
        records=len(held),
        wall=sum(record.audit["slot_seconds"] for record in held) if between else points,
        between=between,
        points=points,
        gpu=_sum(held, "gpu_seconds"),
        samples=_sum(held, "sample_seconds"),
        checks=_sum(held, "check_seconds"),
    )


def _sum(records: list[PointRecord], *names: str) -> float | None:
    """The sum of the accounts ``names``; None if a record that was raced has none of them."""
    raced = [record for record in records if record.best is not None]
    if not raced or not all(name in record.audit for record in raced for name in names):
        return None
    return sum(record.audit.get(name, 0.0) for record in records for name in names)
