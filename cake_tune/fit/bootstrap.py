"""How sure a difference between two plans is: the paired bootstrap over rounds.

Both plans of a pair were visited in the same rounds, so what is resampled is the round: drift common to both cancels.
"""

import numpy as np
from numpy.typing import NDArray

from cake_tune.fit.samples import LEAST_ROUNDS, Floats, Ints, Samples

REPLICATES = 200
COVERAGE = 0.95
_SEED = 20_010_101
_BATCH = 256


def paired_differences(
    samples: Samples, points: Ints, first: Ints, second: Ints, replicates: int = REPLICATES
) -> tuple[Floats, NDArray[np.float32]]:
    """Log time of row ``first[i]`` minus that of row ``second[i]`` at ``points[i]``, and its bootstrap replicates.

    Returns ``[n]`` reported differences and ``[replicates, n]`` resampled ones. A replicate is the reported difference
    plus how far the median over resampled common rounds lies from their median: confirmation rounds where both plans
    have them, else those of the race. Where they share fewer than three, the noise is taken as normal with the tie band
    as its deviation.
    """
    generator = np.random.default_rng(_SEED)
    reported = samples.log_time[first] - samples.log_time[second]
    noise = np.zeros((replicates, len(points)), dtype=np.float32)
    drawn: dict[int, list[tuple[int, NDArray[np.float32], Ints]]] = {}
    for i, (point, a, b) in enumerate(zip(points.tolist(), first.tolist(), second.tolist(), strict=True)):
        if a == b:
            continue
        common = common_rounds(samples, point, a, b)
        if len(common) < LEAST_ROUNDS:
            noise[:, i] = generator.normal(0.0, samples.tie_band[point], replicates)
        else:
            held = drawn.setdefault(len(common), [])
            held.append((i, common, generator.integers(len(common), size=(replicates, len(common)))))
            if len(held) == _BATCH:
                _resample(held, noise)
                held.clear()
    for held in drawn.values():
        _resample(held, noise)
    return reported, (reported + noise).astype(np.float32)


def _resample(drawn: list[tuple[int, NDArray[np.float32], Ints]], noise: NDArray[np.float32]) -> None:
    """The noise of points with the same number of common rounds, at once: a median at a time costs ten times more."""
    if drawn:
        resampled = np.stack([common[rounds] for _, common, rounds in drawn])
        middle = np.median(np.stack([common for _, common, _ in drawn]), axis=1)
        noise[:, [i for i, _, _ in drawn]] = (np.median(resampled, axis=2, overwrite_input=True) - middle[:, None]).T


def common_rounds(samples: Samples, point: int, a: int, b: int) -> NDArray[np.float32]:
    """Log time of row ``a`` minus that of ``b`` in the rounds that both have: confirmation's if three or more, else the
    race's.
    """
    offset = int(samples.start[point])
    for rounds in (samples.confirm[point], samples.visits[point]):
        common: NDArray[np.float32] = rounds[a - offset] - rounds[b - offset]
        common = common[np.isfinite(common)]
        if len(common) >= LEAST_ROUNDS:
            break
    return common


def interval(replicates: Floats | Ints, coverage: float = COVERAGE) -> tuple[float, float]:
    """The central interval of ``replicates`` that holds ``coverage`` of them; its ends are replicates."""
    tail = (1.0 - coverage) / 2
    low = np.quantile(np.asarray(replicates, dtype=np.float64), tail, method="lower")
    high = np.quantile(np.asarray(replicates, dtype=np.float64), 1.0 - tail, method="higher")
    return float(low), float(high)
