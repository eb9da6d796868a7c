"""The order of visits: random in even rounds, the same backwards in odd ones.

A round and its mirror image put every plan at the same mean time, so that a drift of the device cancels.
"""

from collections.abc import Sequence
from random import Random

from cake_tune.planner.shape import Plan


class VisitOrder:
    """Deals the order of one round after the other, from the given random source."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._last: list[Plan] | None = None

    def next_round(self, plans: Sequence[Plan]) -> list[Plan]:
        """``plans`` in the order of the next round; plans that left between a round and its mirror are passed over."""
        if self._last is not None:
            mirrored = [plan for plan in reversed(self._last) if plan in plans]
            self._last = None
            return mirrored
        order = list(plans)
        self._rng.shuffle(order)
        self._last = order
        return list(order)
