"""Cold and warm are proven by arithmetic, and the arithmetic holds for any walk through a ring."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cake_tune.backends.regime import Walk, bytes_between_uses, cold_slots, require_cold, require_warm
from cake_tune.errors import ContractError, RegimeError
from cake_tune.planner.shape import BYTES_PER_TOKEN

SMALL = st.integers(1, 40)


@given(slots=st.integers(1, 300), per_call=SMALL, read=SMALL)
def test_no_slot_comes_back_before_the_calls_in_between(slots, per_call, read):
    """Walked through: between the calls that use a slot there are at least as many whole calls as the proof says."""
    read = min(read, per_call)
    walk, last_call = Walk(slots, per_call), {}
    least = slots  # never more calls than slots
    for draw in range(3 * slots + per_call):
        call, slot = draw // per_call, draw % slots
        if slot in last_call:
            least = min(least, call - last_call[slot] - 1)
        last_call[slot] = call
    assert max(0, least) >= walk.calls_between
    assert bytes_between_uses([walk], read) == walk.calls_between * read * BYTES_PER_TOKEN


@given(per_call=SMALL, read=SMALL, needed=st.integers(0, 10**7))
def test_as_many_slots_as_asked_for_prove_what_was_needed(per_call, read, needed):
    read = min(read, per_call)
    slots = cold_slots(per_call, read, needed)
    assert bytes_between_uses([Walk(slots, per_call)], read) >= needed
    fewer = Walk(slots - per_call, per_call) if slots > per_call else None
    assert fewer is None or bytes_between_uses([fewer], read) < needed


def test_the_shorter_of_two_walks_counts():
    walks = [Walk(1000, 10), Walk(50, 10)]
    assert bytes_between_uses(walks, 20) == 4 * 20 * BYTES_PER_TOKEN


def test_too_few_bytes_are_refused_as_cold():
    require_cold(5000, 1000, 5.0)
    with pytest.raises(RegimeError, match=r"5 times the L2 of 1000 bytes .* got 4999 bytes"):
        require_cold(4999, 1000, 5.0)


def test_too_many_bytes_are_refused_as_warm():
    require_warm(500, 1000)
    with pytest.raises(RegimeError, match=r"at most 0.5 of the L2 of 1000 bytes .* got 501 bytes"):
        require_warm(501, 1000)


@pytest.mark.parametrize("require", [lambda: require_cold(10**12, 0, 5.0), lambda: require_warm(0, 0)])
def test_without_a_known_cache_nothing_is_proven(require):
    with pytest.raises(RegimeError, match="does not say how large its L2 cache is"):
        require()


def test_a_refused_regime_makes_a_row_invalid():
    """A sweep writes the row "invalid" for every ``ContractError``."""
    assert issubclass(RegimeError, ContractError)
