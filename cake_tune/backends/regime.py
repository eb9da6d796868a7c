"""Whether the calls on a device are cold or warm, by arithmetic on what they touch: a regime is proven, never assumed.

Cold: a ring hands out the slots of a cache in one fixed order, over and over, so that a slot comes back only after all
the others of its ring. A slot's 384 bytes are whole 32-byte sectors, the unit in which an L2 cache holds and loads
data, so that no two slots share one.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cake_tune.errors import RegimeError
from cake_tune.planner.shape import BYTES_PER_TOKEN

WARM_SHARE = 0.5
"""Share of the L2 that warm calls may touch: the L2 of large GPUs is two halves, and each may keep its own copy."""


@dataclass(frozen=True, slots=True)
class Walk:
    """How calls walk through one cache: ``slots`` in its ring, of which each call is handed ``per_call``."""

    slots: int
    per_call: int

    @property
    def calls_between(self) -> int:
        """Whole calls between two uses of a slot, whatever its place in the two calls that use it."""
        return max(0, self.slots // self.per_call - 1)


def bytes_between_uses(walks: Sequence[Walk], read_per_call: int) -> int:
    """Least bytes of other slots that are read between two uses of a slot.

    ``read_per_call`` counts the slots of all caches that a call reads: those behind a token's length it does not.
    """
    return min(walk.calls_between for walk in walks) * read_per_call * BYTES_PER_TOKEN


def cold_slots(per_call: int, read_per_call: int, needed_bytes: float) -> int:
    """Least slots of a ring for ``needed_bytes`` between two uses of one, as ``bytes_between_uses`` counts them."""
    calls = -(-needed_bytes // (max(1, read_per_call) * BYTES_PER_TOKEN))
    return per_call * (int(calls) + 1)


def require_cold(between: int, l2_bytes: int, cold_factor: float) -> None:
    """Raise ``RegimeError`` unless ``between`` bytes between two uses are ``cold_factor`` times the L2 at least."""
    if l2_bytes <= 0:
        raise RegimeError("regime: cold cannot be shown on a device that does not say how large its L2 cache is")
    if between < cold_factor * l2_bytes:
        raise RegimeError(
            f"regime: expected {cold_factor:g} times the L2 of {l2_bytes} bytes between two uses of a slot for 'cold', "
            f"got {between} bytes"
        )


def require_warm(touched: int, l2_bytes: int) -> None:
    """Raise ``RegimeError`` unless the ``touched`` bytes of a call stay in the L2 until the next one."""
    if l2_bytes <= 0:
        raise RegimeError("regime: warm cannot be shown on a device that does not say how large its L2 cache is")
    if touched > WARM_SHARE * l2_bytes:
        raise RegimeError(
            f"regime: expected calls that touch at most {WARM_SHARE:g} of the L2 of {l2_bytes} bytes for 'warm', "
            f"got {touched} bytes"
        )
