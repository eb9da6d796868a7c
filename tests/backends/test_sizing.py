"""What is made as large as fits is halved until it does, and never below what is needed."""

import pytest

from cake_tune.backends.sizing import as_large_as_fits


class Memory:
    """Makes anything up to ``room`` and remembers what it was asked for."""

    def __init__(self, room):
        self.room, self.asked = room, []

    def make(self, size):
        self.asked.append(size)
        if size > self.room:
            raise MemoryError(f"{size} bytes")
        return size


@pytest.mark.parametrize(
    ("room", "asked"),
    [(1000, [1000]), (300, [1000, 500, 250]), (130, [1000, 500, 250, 125]), (120, [1000, 500, 250, 125, 120])],
)
def test_the_first_half_that_fits(room, asked):
    memory = Memory(room)
    assert as_large_as_fits(memory.make, 1000, 120) == asked[-1]
    assert memory.asked == asked


def test_what_is_needed_is_tried_last_and_then_given_up():
    memory = Memory(100)
    with pytest.raises(MemoryError, match="120 bytes"):
        as_large_as_fits(memory.make, 1000, 120)
    assert memory.asked == [1000, 500, 250, 125, 120]


def test_a_wish_below_the_need_is_the_need():
    assert as_large_as_fits(Memory(1000).make, 10, 120) == 120
