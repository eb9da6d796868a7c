"""Where the race kept a plan although another measured faster by more than the tie band.

The plan in force is replaced only by one that is faster by the protocol's ``replace_gain`` with 95 % confidence. On a
noisy machine that leaves shapes whose chosen plan is neither the fastest nor tied with it.
"""

from typing import NamedTuple

import numpy as np

from cake_tune.fit.bootstrap import common_rounds
from cake_tune.fit.samples import Samples, ShapeKey
from cake_tune.measure.statistics import upper_bound
from cake_tune.planner.shape import Plan


class Kept(NamedTuple):
    """One such shape. Losses are fractions of the time of ``fastest``.

    ``loss`` is what ``chosen`` loses by the times. ``sure`` is the part of it that 95 % confidence leaves, from the
    rounds that both plans have; negative: ``chosen`` may be the faster one. None where they share fewer than two.
    """

    key: ShapeKey
    chosen: Plan
    fastest: Plan
    loss: float
    sure: float | None


def kept_for_noise(samples: Samples) -> list[Kept]:
    """The shapes at which the race's choice loses more than the tie band, the largest loss first."""
    fastest, least = samples.best()
    owner = np.repeat(np.arange(len(samples)), np.diff(samples.start))
    found = []
    for row in np.flatnonzero(samples.chosen & ~samples.equal).tolist():
        point = int(owner[row])
        best = int(fastest[point])
        bound = upper_bound(common_rounds(samples, point, best, row).tolist())
        found.append(
            Kept(
                key=samples.key(point),
                chosen=samples.plans[samples.plan[row]],
                fastest=samples.plans[samples.plan[best]],
                loss=float(np.expm1(samples.log_time[row] - least[point])),
                sure=float(np.expm1(-bound)) if np.isfinite(bound) else None,
            )
        )
    return sorted(found, key=lambda kept: (-kept.loss, kept.key))
