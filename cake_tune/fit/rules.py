"""The constants of the rule family by least total regret, starting from the rules in force.

Coordinate descent: each constant in turn is tried at every value that decides some measured shape differently. It moves
only where what it changes gains more than the tie band on average, and beyond noise; one more band must gain the tie
band beyond noise. So a journal that does not contradict the rules in force gives them back unchanged.
"""

from collections.abc import Callable, Iterable

import numpy as np

from cake_tune.fit.choices import Choices, choices_of, decode_choice
from cake_tune.fit.decisions import decode_head_tiles, decode_splits, grid_blocks, prefill_head_tiles
from cake_tune.fit.limits import fit_limits
from cake_tune.fit.moves import Move, decode_moves, prefill_moves
from cake_tune.fit.samples import Ints, Samples
from cake_tune.planner.rules import Rules

_MAX_PASSES = 20
_LEAST_GAIN = 1e-9
"""Weighted log time below which two totals are equal: far below any clock, far above rounding."""


def fit_rules(samples: Samples, start: Rules, num_sms: int) -> Rules:
    """The rules that lose least on ``samples``; parts without evidence stay as in ``start``.

    Decode's head tiles and splits are fitted on its own plans, prefill's head tiles on its own, and the crossover with
    the best plan of each kernel: exceptions make up, at measured shapes, for what the other rules miss.
    """
    rules = fit_limits(samples, start)
    decode = choices_of(samples, "decode")
    if len(decode):
        points = samples.take(decode.point)
        rules = _descend(
            rules, decode, lambda each: decode_moves(each, points, num_sms), lambda each: _decode(each, points, num_sms)
        )
    prefill = choices_of(samples, "prefill")
    if len(prefill):
        points = samples.take(prefill.point)
        rules = _descend(rules, prefill, lambda each: prefill_moves(each, points), lambda each: _prefill(each, points))
    return rules


def _descend(
    rules: Rules, choices: Choices, moves: Callable[[Rules], Iterable[Move]], choose: Callable[[Rules], Ints]
) -> Rules:
    for _ in range(_MAX_PASSES):
        before = rules
        names = [move.constant for move in moves(rules)]
        for name in names:
            # Asked again each time: the values that matter for one constant depend on the others.
            move = next((move for move in moves(rules) if move.constant == name), None)
            if move is not None:
                rules = _step(rules, move, choices, choose)
        if rules == before:
            break
    return rules


def _step(rules: Rules, move: Move, choices: Choices, choose: Callable[[Rules], Ints]) -> Rules:
    """The best candidate of ``move`` if it gains beyond noise, else ``rules``."""
    current = choose(rules)
    least, best = choices.total(current) - _LEAST_GAIN, None
    for candidate in move.candidates:
        total = choices.total(choose(candidate))
        if total < least:
            least, best = total - _LEAST_GAIN, candidate
    if best is None:
        return rules
    gain = choices.gain(current, choose(best))
    band = float(np.median(choices.samples.tie_band))
    enough = gain.low > band if move.adds else gain.low > 0 and gain.mean > band
    return best if enough else rules


def _decode(rules: Rules, points: Samples, num_sms: int) -> Ints:
    tokens, heads, chunks = points.num_tokens, points.num_heads, points.chunks
    tiles = decode_head_tiles(rules, tokens, heads, chunks, num_sms)
    splits = decode_splits(rules.splitting, tokens, grid_blocks(tokens, heads, tiles), chunks, num_sms)
    return decode_choice(tiles, splits)


def _prefill(rules: Rules, points: Samples) -> Ints:
    return prefill_head_tiles(rules, points.num_tokens, points.num_heads, points.topk + points.extra_topk)
