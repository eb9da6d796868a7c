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


def point_weights(samples: Samples) -> Floats:
    """``octave_weights`` of every (num_heads, topk, extra_topk) group."""
    weights = np.ones(len(samples))
    for _, points in samples.groups():
        weights[points.start : points.stop] = octave_weights(samples.num_tokens[points.start : points.stop])
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
