"""The constants of the rule family by least total regret, starting from the rules in force.

Coordinate descent: each constant in turn is tried at every value that decides some measured shape differently. It moves
only where what it changes gains more than the tie band on average, and beyond noise; one more band must gain the tie
band beyond noise. So a journal that does not contradict the rules in force gives them back unchanged, and one
that follows a published table gives back that table's.
"""

from collections.abc import Callable, Iterable

import numpy as np

from cake_tune.fit.cells import Cells, DecodeCells, PrefillCells
from cake_tune.fit.choices import choices_of
from cake_tune.fit.limits import fit_limits
from cake_tune.fit.moves import Move, decode_moves, prefill_moves
from cake_tune.fit.published import published_decode, published_prefill
from cake_tune.fit.samples import Ints, Samples
from cake_tune.planner.rules import Rules

MOST_POINTS = 2000
"""Points that the search looks at: more of them hardly move a constant. Exceptions and certificates look at all."""

_MAX_PASSES = 20
_LEAST_GAIN = 1e-9
"""Weighted log time below which two totals are equal: far below any clock, far above rounding."""


def fit_rules(samples: Samples, start: Rules, num_sms: int) -> Rules:
    """The rules that lose least on ``samples``; parts without evidence stay as in ``start``.

    Decode's head tiles and splits are fitted on its own plans, prefill's head tiles on its own, and the crossover with
    the best plan of each kernel: exceptions make up, at measured shapes, for what the other rules miss.
    """
    samples = samples.thinned(MOST_POINTS)
    rules = fit_limits(samples, start)
    decode = choices_of(samples, "decode")
    if len(decode):
        cells = DecodeCells(decode, num_sms)
        fitted = _descend(rules, cells, lambda each: decode_moves(each, cells))
        rules = _prefer(published_decode(rules), rules, fitted, cells)
    prefill = choices_of(samples, "prefill")
    if len(prefill):
        tiled = PrefillCells(prefill)
        fitted = _descend(rules, tiled, lambda each: prefill_moves(each, tiled))
        rules = _prefer(published_prefill(rules), rules, fitted, tiled)
    return rules


def _descend(rules: Rules, cells: Cells, moves: Callable[[Rules], Iterable[Move]]) -> Rules:
    band = _band(cells)
    for _ in range(_MAX_PASSES):
        before = rules
        at_hand = {move.constant: move for move in moves(rules)}
        for name in list(at_hand):
            move = at_hand.get(name)
            stepped = _step(rules, move, cells, band) if move is not None else rules
            if stepped is not rules:
                # Made anew: the values that matter for one constant depend on the others.
                rules, at_hand = stepped, {move.constant: move for move in moves(stepped)}
        if rules == before:
            break
    return rules


def _prefer(published: list[Rules], start: Rules, fitted: Rules, cells: Cells) -> Rules:
    """Which to take: ``fitted``, or of ``published`` the first with the least total.

    The latter if it beats ``fitted`` beyond noise, or is not beaten by it while ``start`` is.
    """
    chosen = cells.choose(fitted)
    for candidate in sorted(published, key=lambda rules: round(cells.total(cells.choose(rules)), 9)):
        column = cells.choose(candidate)
        if _better(cells, chosen, column) or (fitted != start and not _better(cells, column, chosen)):
            return candidate
    return fitted


def _better(cells: Cells, before: Ints, after: Ints) -> bool:
    """Whether ``after`` gains over ``before``: more than the tie band where they differ, and beyond noise."""
    return cells.mean_gain(before, after) > _band(cells) and cells.least_gain(before, after) > 0


def _band(cells: Cells) -> float:
    return float(np.median(cells.choices.samples.tie_band))


def _step(rules: Rules, move: Move, cells: Cells, band: float) -> Rules:
    """The best candidate of ``move`` if it gains beyond noise, else ``rules``."""
    current = cells.choose(rules)
    best = _best(rules, move, cells, cells.total(current))
    if best is None:
        return rules
    column = cells.choose(best)
    if not move.adds and cells.mean_gain(current, column) <= band:
        return rules
    return best if cells.least_gain(current, column) > (band if move.adds else 0) else rules


def _best(rules: Rules, move: Move, cells: Cells, total: float) -> Rules | None:
    """The first of the candidates with the least total, if that is below ``total``."""
    least, best = total - _LEAST_GAIN, None
    if move.caps is not None and isinstance(cells, DecodeCells):
        place = None
        for i, found in enumerate(cells.cap_totals(rules, move.caps).tolist()):
            if found < least:
                least, place = found - _LEAST_GAIN, i
        return None if place is None else move.at(place)
    for candidate in move.candidates:
        found = cells.total(cells.choose(candidate))
        if found < least:
            least, best = found - _LEAST_GAIN, candidate
    return best
