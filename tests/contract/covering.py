"""All-pairs selection: few combinations in which every two values of every two axes meet."""

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence

Assignment = dict[str, object]


def cover_pairs(axes: Mapping[str, Sequence[object]], rng: random.Random) -> Iterator[Assignment]:
    """Assignments of all axes that together hold every pair of values of every two axes.

    Greedy: start from a pair not met yet, then give each axis in random order the value that meets most new pairs with
    what is chosen. Deterministic for a seeded ``rng``.
    """
    # Keys of a dict keep their order, which a set of strings does not from run to run.
    missing = dict.fromkeys(
        pair
        for first, second in itertools.combinations(axes, 2)
        for pair in itertools.product([(first, value) for value in axes[first]], [(second, v) for v in axes[second]])
    )
    place = {axis: number for number, axis in enumerate(axes)}
    while missing:
        chosen = dict(next(iter(missing)))
        for axis in rng.sample([axis for axis in axes if axis not in chosen], len(axes) - 2):
            values = rng.sample(list(axes[axis]), len(axes[axis]))
            chosen[axis] = max(values, key=lambda value: _new_pairs(axis, value, chosen, place, missing))
        for pair in itertools.combinations(((axis, chosen[axis]) for axis in axes), 2):
            missing.pop(pair, None)
        yield {axis: chosen[axis] for axis in axes}


def _new_pairs(
    axis: str, value: object, chosen: Assignment, place: Mapping[str, int], missing: Mapping[object, None]
) -> int:
    one = (axis, value)
    return sum(((one, other) if place[axis] < place[other[0]] else (other, one)) in missing for other in chosen.items())
