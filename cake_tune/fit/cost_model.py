"""Calibrate the cost model: its constants by least squares on log latency.

Plans near the best of their point count most, since only these compete. What is no number to be moved a little, such
as how many heads a block holds or how many blocks share a multiprocessor, is searched: each in turn, with everything
else fitted anew.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from cake_tune.fit.cost_machine import CostMachine, Structure
from cake_tune.fit.cost_rows import Rows, rows_of
from cake_tune.fit.samples import Floats, Ints, Samples
from cake_tune.planner.cost import CostModel, KernelCost, Order
from cake_tune.planner.shape import HEADS_PER_TILE, Kernel

LEAST_ROWS = 30
"""Timed plans below which there is nothing to calibrate."""

_BLOCKS_PER_SM = (1, 2, 3)
_HEADS_PER_BLOCK = (16, 32, 64)
_HEAD_TILES = (1, 2, 4)
_PARTS = 3 + len(_HEAD_TILES)
"""Parts of the structure that several kernels share."""
_STARTS = (1, 2)
"""Blocks per multiprocessor of every kernel from which the search sets out."""
_PASSES = 2
_MERGED = (1, 2, 4, 8, 16)
_CONTEST = 0.05
"""Excess over the point's best at which a plan counts half."""
_OUTLIER = 0.05
"""Relative error beyond which a residual counts less than its square."""
_PRIOR = 0.01
"""Pull of each constant's logarithm towards where it starts: it decides only what no measurement does."""
_MOST_ROWS, _SEARCH_ROWS = 1000, 370
"""Plans that the constants, and the search for the structure, are fitted on: more change no digit that counts, and the
matrices of the latter are too small for the algebra to share them out over threads, which costs more than it saves."""
_BETTER = 0.99
"""Cost of a fit over that of another from which on its structure is taken."""
_FEW, _HOPEFUL = 3, 1.3
"""Steps after which the fit of another structure is given up, unless its cost is within this factor of the best's."""
_STEP = 1e-5
_DIGITS = 4
_SEED = 20_010_101

_COMMON = 9
"""launch_us, gather_us, reread, merge_us, merge_step_us, merge_row_us, pair_us, wave_share, sharpness."""
_REREAD, _WAVES, _SHARP = 2, 7, 8
_OWN = 3
"""block_us, chunk_us, crowding."""


def predict(model: CostModel, rows: Rows, num_sms: int) -> Floats:
    """``model.us`` of every row: infinite for kernels and head tiles that the model does not know."""
    common = np.array(
        [
            model.launch_us,
            model.gather_us,
            model.reread,
            model.merge_us,
            model.merge_step_us,
            model.merge_row_us,
            model.pair_us or 0.0,
            model.wave_share,
            model.sharpness,
        ]
    )
    costs = [model.cost_of(*kind) for kind in rows.kinds]
    own = np.array([(1.0, 1.0, 0.0) if c is None else (c.block_us, c.chunk_us, c.crowding) for c in costs])
    structure = Structure(
        heads_per_block=tuple(HEADS_PER_TILE if cost is None else cost.heads_per_block for cost in costs),
        blocks_per_sm=tuple(1 if cost is None else cost.blocks_per_sm for cost in costs),
        merge_batch=model.merge_batch,
        order=model.order,
        pairs=model.pair_us is not None,
    )
    times = CostMachine(rows, num_sms).us(common, own, structure)
    times[np.array([cost is None for cost in costs], dtype=np.bool_)[rows.kind]] = np.inf
    return times


def fit_cost_model(samples: Samples, num_sms: int, start: CostModel | None = None) -> CostModel | None:
    """The constants that explain the times of ``samples`` best; None with fewer than 30 timed plans.

    ``start``, a model of the same device from other points, saves the search for the structure and for a start.
    Deterministic: the same samples give the same constants, whatever order they were measured in.
    """
    rows, timed, point = rows_of(samples)
    if len(rows) < LEAST_ROWS:
        return None
    log_time = samples.log_time[timed]
    _, least = samples.best()
    weight = 1 / (1 + (log_time - least[point]) / _CONTEST)
    kinds = rows.kinds
    if start is not None and tuple((cost.kernel, cost.head_tiles) for cost in start.kernels) == kinds:
        structure, guess = _structure(start), _vector(start)
    else:
        some = _drawn(weight, _SEARCH_ROWS)
        few = _Fit(CostMachine(rows.take(some), num_sms), log_time[some], weight[some])
        structure, guess = _search(few, _first_guess(rows, log_time), kinds)
    some = _drawn(weight, _MOST_ROWS if start is None else _SEARCH_ROWS)
    fit = _Fit(CostMachine(rows.take(some), num_sms), log_time[some], weight[some])
    solution = fit.solve(guess, structure, evaluations=20 if start is not None else 40)
    return _model(solution.vector, structure, kinds, fit.spread(solution.vector, structure))


def _drawn(weight: Floats, most: int) -> Ints:
    """All rows, or ``most`` of them, ascending: those that count more are more likely to be among them."""
    if len(weight) <= most:
        return np.arange(len(weight))
    generator = np.random.default_rng(_SEED)
    return np.sort(generator.choice(len(weight), size=most, replace=False, p=weight / weight.sum()))


@dataclass(frozen=True)
class _Solution:
    vector: Floats
    cost: float


def _search(fit: "_Fit", guess: Floats, kinds: tuple[tuple[Kernel, int], ...]) -> tuple[Structure, Floats]:
    """The structure and the constants with it: descents from few starts, giving up early, then a patient one."""
    found = []
    for blocks in _STARTS:
        structure = Structure(
            heads_per_block=tuple(HEADS_PER_TILE * tiles for _, tiles in kinds),
            blocks_per_sm=(blocks,) * len(kinds),
            merge_batch=1,
            order="row_by_row",
            pairs=False,
        )
        found.append(_descent(fit, fit.solve(guess, structure, evaluations=40), structure, kinds, hopeful=_HOPEFUL))
    best, structure = min(found, key=lambda pair: pair[0].cost)
    best, structure = _descent(fit, best, structure, kinds, hopeful=np.inf)
    return structure, best.vector


def _descent(
    fit: "_Fit", best: _Solution, structure: Structure, kinds: tuple[tuple[Kernel, int], ...], hopeful: float
) -> tuple[_Solution, Structure]:
    """Each part of the structure in turn until no other value fits better."""
    for _ in range(_PASSES):
        before = structure
        for part in range(_PARTS + len(kinds)):
            for tried in _alternatives(structure, part, kinds):
                found = fit.solve(best.vector, tried, evaluations=_FEW)
                if found.cost < hopeful * best.cost:
                    found = fit.solve(found.vector, tried, evaluations=10)
                if found.cost < _BETTER * best.cost:
                    structure, best = tried, found
        if structure == before:
            break
    return best, structure


def _alternatives(held: Structure, part: int, kinds: tuple[tuple[Kernel, int], ...]) -> Iterator[Structure]:
    """``held`` with other values of one part: what concerns every kernel, those of as many head tiles, then one."""
    if part == 0:
        yield from (replace(held, order=order) for order in get_args(Order) if order != held.order)
    elif part == 1:
        yield from (replace(held, merge_batch=batch) for batch in _MERGED if batch != held.merge_batch)
    elif part == 2:
        yield replace(held, pairs=not held.pairs)
    elif part < _PARTS:
        tiles = _HEAD_TILES[part - 3]
        alike = [mine == tiles for _, mine in kinds]
        for heads, blocks in product(_HEADS_PER_BLOCK, _BLOCKS_PER_SM):
            tried = replace(
                held,
                # Kernels of as many head tiles are made of the same parts.
                heads_per_block=_with(held.heads_per_block, alike, heads),
                blocks_per_sm=_with(held.blocks_per_sm, alike, blocks),
            )
            if heads >= HEADS_PER_TILE * tiles and tried != held:
                yield tried
    else:
        alone = [place == part - _PARTS for place in range(len(kinds))]
        for blocks in _BLOCKS_PER_SM:
            tried = replace(held, blocks_per_sm=_with(held.blocks_per_sm, alone, blocks))
            if tried != held:
                yield tried


def _with(values: tuple[int, ...], where: list[bool], value: int) -> tuple[int, ...]:
    return tuple(value if there else known for known, there in zip(values, where, strict=True))


def _structure(model: CostModel) -> Structure:
    return Structure(
        heads_per_block=tuple(cost.heads_per_block for cost in model.kernels),
        blocks_per_sm=tuple(cost.blocks_per_sm for cost in model.kernels),
        merge_batch=model.merge_batch,
        order=model.order,
        pairs=model.pair_us is not None,
    )


class _Fit:
    """The least-squares problem of one set of rows."""

    def __init__(self, machine: "CostMachine", log_time: Floats, weight: Floats) -> None:
        self._machine, self._log_time, self._weight = machine, log_time, weight
        self._anchor: Floats = np.zeros(0)

    def solve(self, start: Floats, structure: Structure, evaluations: int) -> _Solution:
        from scipy.optimize import least_squares  # here: reading a fit's result needs no scipy

        self._anchor = start if not len(self._anchor) else self._anchor

        def residuals(vector: Floats) -> Floats:
            return self._residuals(vector, structure)

        def jacobian(vector: Floats) -> Floats:
            return self._jacobian(vector, structure)

        found = least_squares(
            residuals, start, jac=jacobian, loss="soft_l1", f_scale=_OUTLIER, max_nfev=evaluations, x_scale=1.0
        )
        return _Solution(np.asarray(found.x), float(found.cost))

    def spread(self, vector: Floats, structure: Structure) -> float:
        """Weighted median of the relative errors."""
        off = np.abs(self._log_us(vector, structure) - self._log_time)
        order = np.argsort(off, kind="stable")
        passed = np.cumsum(self._weight[order])
        return float(off[order][np.searchsorted(passed, passed[-1] / 2)])

    def _log_us(self, vector: Floats, structure: Structure) -> Floats:
        return np.log(self._machine.us(*_constants(vector), structure))

    def _residuals(self, vector: Floats, structure: Structure) -> Floats:
        off = (self._log_us(vector, structure) - self._log_time) * self._weight
        return np.concatenate([off, _PRIOR * (vector - self._anchor)])

    def _jacobian(self, vector: Floats, structure: Structure) -> Floats:
        """Forward differences; constants of different kernels move together, since no row depends on two kernels."""
        base = self._log_us(vector, structure)
        kind, rows = self._machine.kind, np.arange(len(base))
        slopes = np.zeros((len(base) + len(vector), len(vector)))
        for i in range(_COMMON):
            moved = vector.copy()
            moved[i] += _STEP
            slopes[: len(base), i] = (self._log_us(moved, structure) - base) / _STEP
        for i in range(_OWN):
            moved = vector.copy()
            moved[_COMMON + i :: _OWN] += _STEP
            slopes[rows, _COMMON + i + _OWN * kind] = (self._log_us(moved, structure) - base) / _STEP
        slopes[: len(base)] *= self._weight[:, None]
        slopes[len(base) :] = _PRIOR * np.eye(len(vector))
        return slopes


def _constants(vector: Floats) -> tuple[Floats, Floats]:
    """Constants from the free numbers of the search: positive ones by their logarithm, shares by their logit."""
    common = np.exp(np.clip(vector[:_COMMON], -25, 25))
    common[_REREAD], common[_WAVES] = _share(vector[_REREAD]), _share(vector[_WAVES])
    common[_SHARP] = 1 + 30 * _share(vector[_SHARP])
    own = np.exp(np.clip(vector[_COMMON:].reshape(-1, _OWN), -25, 25))
    own[:, 2] = _share(vector[_COMMON + 2 :: _OWN])
    return common, own


def _share(value: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1 / (1 + np.exp(-np.clip(value, -12, 12)))


def _log(value: float) -> float:
    return float(np.log(max(value, 1e-10)))


def _logit(share: float) -> float:
    held = min(max(share, 1e-5), 1 - 1e-5)
    return float(np.log(held / (1 - held)))


def _vector(model: CostModel) -> Floats:
    """The free numbers of a model."""
    vector = [_log(model.launch_us), _log(model.gather_us), _logit(model.reread), _log(model.merge_us)]
    vector += [_log(model.merge_step_us), _log(model.merge_row_us)]
    vector += [_log(model.merge_us + model.merge_step_us if model.pair_us is None else model.pair_us)]
    vector += [_logit(model.wave_share), _logit((model.sharpness - 1) / 30)]
    for cost in model.kernels:
        vector += [_log(cost.block_us), _log(cost.chunk_us), _logit(cost.crowding)]
    return np.array(vector)


def _first_guess(rows: Rows, log_time: Floats) -> Floats:
    """Orders of magnitude: the quickest call, shared out; the memory, from the call that moves most in its time."""
    quickest = float(np.exp(log_time.min()))
    gather = float(np.min(np.exp(log_time) / (rows.num_tokens * rows.chunks))) / 2
    vector = [_log(quickest / 4), _log(gather), _logit(0.2), _log(quickest / 8)]
    vector += [_log(quickest / 100), _log(1e-5 * quickest), _log(quickest / 8), _logit(0.9), _logit(0.1)]
    for _ in rows.kinds:
        vector += [_log(quickest / 4), _log(quickest / 8), _logit(0.5)]
    return np.array(vector)


def _model(vector: Floats, structure: Structure, kinds: tuple[tuple[Kernel, int], ...], spread: float) -> CostModel:
    common, own = _constants(vector)
    launch, gather, reread, merge, merge_step, merge_row, pair, wave_share, sharpness = (
        _rounded(value) for value in common
    )
    kernels = tuple(
        KernelCost(
            kernel=kernel,
            head_tiles=tiles,
            heads_per_block=structure.heads_per_block[i],
            blocks_per_sm=structure.blocks_per_sm[i],
            block_us=_rounded(own[i, 0]),
            chunk_us=_rounded(own[i, 1]),
            crowding=_rounded(own[i, 2]),
        )
        for i, (kernel, tiles) in enumerate(kinds)
    )
    return CostModel(
        launch_us=launch,
        gather_us=gather,
        reread=reread,
        merge_us=merge,
        merge_step_us=merge_step,
        merge_row_us=merge_row,
        pair_us=pair if structure.pairs else None,
        wave_share=wave_share,
        sharpness=sharpness,
        merge_batch=structure.merge_batch,
        order=structure.order,
        kernels=kernels,
        spread=_rounded(spread),
    )


def _rounded(value: float) -> float:
    """Four significant digits: finer than any clock, and the same whichever library did the algebra."""
    return float(f"{value:.{_DIGITS}g}")
