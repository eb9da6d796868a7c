"""Fitted crossovers beside the true ones, in steps of the grid."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from cake_tune.fit.crossover import Crossover
from cake_tune.fit.regret import octave_weights
from cake_tune.planner.shape import Plan
from cake_tune.spec import Point


class Crossing(NamedTuple):
    """The crossover of one (num_heads, topk): how many of its num_tokens go to decode, truly and as fitted.

    ``crosses``: both kernels truly have a share of the grid. ``excess``: what the fitted cut loses more than the best
    cut, truly, as a fraction of the time averaged over the grid.
    """

    num_heads: int
    topk: int
    true: int
    fitted: int
    crosses: bool
    excess: float

    @property
    def steps(self) -> int:
        """How many steps of the grid the fitted cut lies from the true one; positive: too much decode."""
        return self.fitted - self.true


def crossings(
    found: Sequence[Crossover], points: Sequence[Point], true: Sequence[Mapping[Plan, float]]
) -> list[Crossing]:
    """Every crossover of a device that was measured at ``points``; ``true`` are their microseconds.

    The true cut is the one with the least total regret by the true times, as the fit defines it.
    """
    held: dict[tuple[int, int], list[tuple[int, float]]] = {}
    for point, times in zip(points, true, strict=True):
        best = {
            kernel: min((us for plan, us in times.items() if plan.kernel == kernel), default=np.inf)
            for kernel in ("decode", "prefill")
        }
        if np.isfinite(best["prefill"]):
            advantage = float(np.log(best["prefill"] / best["decode"]))
            held.setdefault((point.shape.num_heads, point.shape.topk), []).append((point.shape.num_tokens, advantage))
    return [_crossing(each, sorted(held[each.num_heads, each.topk])) for each in found]


def _crossing(found: Crossover, advantages: Sequence[tuple[int, float]]) -> Crossing:
    tokens = np.array([count for count, _ in advantages], dtype=np.int64)
    advantage = np.array([each for _, each in advantages])
    saved = octave_weights(tokens) * advantage
    # Regret of decoding the first n: prefill's below the cut saves nothing, decode's above it loses what it would save.
    totals = -np.concatenate([[0.0], np.cumsum(saved)])
    true = int(np.argmin(totals))
    fitted = len(tokens) if found.threshold is None else int((tokens <= found.threshold).sum())
    excess = float(totals[fitted] - totals[true]) / float(octave_weights(tokens).sum())
    return Crossing(found.num_heads, found.topk, true, fitted, 0 < true < len(tokens), excess)
