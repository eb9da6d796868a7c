"""Regrets as tables hold them: fractions of time lost against the best measured plan."""

import math
from dataclasses import dataclass

from cake_tune.errors import TableError


@dataclass(frozen=True, slots=True)
class Regret:
    """Regrets over ``points`` measured points, as fractions: 0.01 is one per cent slower than the best plan."""

    points: int
    mean: float
    p95: float
    worst: float

    def __post_init__(self) -> None:
        check_regrets(self.mean, self.p95, self.worst)


def check_regrets(*regrets: float) -> None:
    """Raise ``TableError`` unless all are finite fractions of at least 0."""
    for regret in regrets:
        if not (math.isfinite(regret) and regret >= 0):
            raise TableError(f"regret: expected a finite fraction >= 0, got {regret}")
