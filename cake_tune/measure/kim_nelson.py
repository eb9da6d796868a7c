"""The fully sequential selection procedure of Kim and Nelson (2001), for the smallest mean.

S.-H. Kim and B. L. Nelson, "A fully sequential procedure for indifference-zone selection in simulation", ACM TOMACS
11(3), 2001, with c = 1. If the best mean is at least ``delta`` below every other, the last survivor is the best with
probability at least 1 - ``alpha``, whatever the variances and with correlated (paired) samples, for normal data.

Latencies are not normal: they spike. Where the variance over all rounds so far exceeds the one of the first rounds, on
which the paper relies, the larger one counts. That can only ask for more evidence, and a late spike drops nobody.
"""

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Generic, TypeVar

Name = TypeVar("Name", bound=Hashable)


def screening_constant(contenders: int, alpha: float, first_rounds: int) -> float:
    """The paper's h squared: ``2 * eta * (n0 - 1)`` with ``eta = ((2 alpha / (k - 1)) ** (-2 / (n0 - 1)) - 1) / 2``."""
    eta = (math.pow(2 * alpha / (contenders - 1), -2 / (first_rounds - 1)) - 1) / 2
    return 2 * eta * (first_rounds - 1)


@dataclass(slots=True)
class _Pair:
    """Running mean and variance of the difference between two contenders (Welford)."""

    mean: float = 0.0
    squares: float = 0.0
    first_variance: float = 0.0

    def add(self, difference: float, rounds: int, first_rounds: int) -> None:
        off = difference - self.mean
        self.mean += off / rounds
        self.squares += off * (difference - self.mean)
        if rounds == first_rounds:
            self.first_variance = self.squares / (rounds - 1)

    def variance(self, rounds: int) -> float:
        return max(self.first_variance, self.squares / (rounds - 1))


class KimNelson(Generic[Name]):
    """One selection; fed round by round with one value per contender still in."""

    def __init__(self, *, delta: float, alpha: float, first_rounds: int) -> None:
        """``first_rounds`` (n0, at least 2) pass before anyone may be dropped."""
        # A zone of nothing would ask for infinitely many rounds, and divide by zero.
        self._delta = max(delta, 1e-9)
        self._alpha = alpha
        self._first_rounds = first_rounds
        self._rounds = 0
        self._constant = 0.0
        self._pairs: dict[tuple[Name, Name], _Pair] = {}

    def observe(self, values: Mapping[Name, float]) -> list[Name]:
        """Take one more round; the names in ``values`` that no other one beats yet, in their order.

        Names may be missing that were there before (they left for other reasons); none may be new.
        """
        self._rounds += 1
        for one, other in combinations(values, 2):
            pair = self._pairs.setdefault((one, other), _Pair())
            pair.add(values[one] - values[other], self._rounds, self._first_rounds)
        if len(values) < 2 or self._rounds < self._first_rounds:
            return list(values)
        if self._rounds == self._first_rounds:
            self._constant = screening_constant(len(values), self._alpha, self._first_rounds)
        beaten = {self._beaten(one, other) for one, other in combinations(values, 2)}
        return [name for name in values if name not in beaten]

    def _beaten(self, one: Name, other: Name) -> Name | None:
        """The one of the two that is behind by more than the paper's W(r), which shrinks to 0 as rounds pass."""
        pair = self._pairs[one, other]
        needed = self._constant * pair.variance(self._rounds) / self._delta
        margin = max(0.0, (needed / self._rounds - self._delta) / 2)
        if abs(pair.mean) <= margin:
            return None
        return one if pair.mean > 0 else other
