"""Regret: the time of the chosen plan over the time of the best measured plan, minus 1."""

from collections.abc import Sequence

import numpy as np

from cake_tune.fit.samples import Floats, Ints, Samples
from cake_tune.planner.table import Regret


def octave_weights(num_tokens: Ints) -> Floats:
    """One weight per octave: the share of the log2 axis that lies nearest to each of the ascending ``num_tokens``.

    The ends of the grid count as far outwards as inwards, and a lone point as one octave; so a power-of-two grid has
    weights of 1, and points added between do not make their octave count twice.
    """
    if len(num_tokens) < 2:
        return np.ones(len(num_tokens))
    gaps = np.diff(np.log2(num_tokens.astype(np.float64)))
    weights: Floats = (np.concatenate([gaps[:1], gaps]) + np.concatenate([gaps, gaps[-1:]])) / 2
    return weights


UNSEEN = 1e-3
"""Weight of an octave that a workload does not touch, next to one that it fills: enough to have an opinion there."""


def workload_weights(num_tokens: Ints, workload: Sequence[tuple[int, float]]) -> Floats:
    """What the ascending ``num_tokens`` weigh under ``workload``, (num_tokens, weight) pairs with a positive sum.

    Each of its entries counts for the point that is nearest on a log axis. The sum is that of ``octave_weights``, of
    which every point keeps a trace.
    """
    octaves = octave_weights(num_tokens)
    if not len(octaves):
        return octaves
    tokens, weight = np.array(workload, dtype=np.float64).T
    apart = np.abs(np.log(tokens)[:, None] - np.log(num_tokens.astype(np.float64))[None, :])
    shares = np.bincount(np.argmin(apart, axis=1), weights=weight, minlength=len(octaves)) / weight.sum()
    weights: Floats = (1 - UNSEEN) * shares * octaves.sum() + UNSEEN * octaves
    return weights


def point_weights(samples: Samples) -> Floats:
    """What every point weighs in its (num_heads, topk, extra_topk) group: by the workload, else by octaves."""
    weights = np.ones(len(samples))
    for _, points in samples.groups():
        here = samples.num_tokens[points.start : points.stop]
        given = workload_weights(here, samples.workload) if samples.workload else octave_weights(here)
        weights[points.start : points.stop] = given
    return weights


def summarise(regrets: Sequence[float] | Floats) -> Regret | None:
    """Mean, 95th percentile (linear interpolation) and worst of ``regrets`` given as fractions; None without any."""
    if len(regrets) == 0:
        return None
    values = np.asarray(regrets, dtype=np.float64)
    return Regret(
        points=len(values),
        mean=round(float(values.mean()), 6),
        p95=round(float(np.quantile(values, 0.95)), 6),
        worst=round(float(values.max()), 6),
    )
