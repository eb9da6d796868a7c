"""The crossover of the rules: classes of heads and candidates, each with the num_tokens up to which decode is used."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from cake_tune.fit.bootstrap import interval
from cake_tune.fit.crossover import Duel, duel, least_regret_cut
from cake_tune.fit.decisions import decode_limit
from cake_tune.fit.samples import Bools, Ints, Samples
from cake_tune.planner.rules import DecodeLimit, Rules


def fit_limits(samples: Samples, rules: Rules) -> Rules:
    """``rules`` with ``decode_max_tokens`` fitted where both kernels were measured, and unchanged elsewhere.

    A class is added only where the shapes it takes over gain more than the tie band on average, beyond noise.
    """
    both = duel(samples)
    heads, candidates = samples.num_heads[both.point], (samples.topk + samples.extra_topk)[both.point]
    rules = _refit(rules, both, heads, candidates)
    # Each class added takes measured shapes from another one, so that there are never more than shapes.
    for _ in range(len(both.point)):
        longer = _add_class(rules, both, heads, candidates)
        if longer is None:
            break
        rules = _refit(longer, both, heads, candidates)
    return rules


def _refit(rules: Rules, both: Duel, heads: Ints, candidates: Ints) -> Rules:
    """Every class's limit at the least-regret cut of the shapes it decides."""
    entry = decode_limit(rules, heads, candidates)
    limits = list(rules.decode_max_tokens)
    for i, limit in enumerate(limits):
        mine = entry == i
        if mine.any():
            cut = least_regret_cut(both.take(mine), limit.num_tokens)
            limits[i] = replace(limit, num_tokens=cut.threshold)
    return replace(rules, decode_max_tokens=tuple(limits))


def _add_class(rules: Rules, both: Duel, heads: Ints, candidates: Ints) -> Rules | None:
    """The rules with the one new class that gains most, or None if none gains enough."""
    entry = decode_limit(rules, heads, candidates)
    current = _decodes(rules, entry, both.num_tokens)
    best, longer = 0.0, None
    for place, corner, taken in _new_classes(rules, entry, heads, candidates):
        here = both.take(taken)
        held = {int(i) for i in np.unique(entry[taken])}
        common = _limit_of(rules, held.pop()) if len(held) == 1 else -1
        limit = replace(corner, num_tokens=least_regret_cut(here, common).threshold)
        after = (
            np.ones(len(here.point), dtype=np.bool_)
            if limit.num_tokens is None
            else here.num_tokens <= limit.num_tokens
        )
        changed = after != current[taken]
        # Decode instead of prefill saves d, prefill instead of decode -d.
        weight = np.where(after, here.weight, -here.weight)[changed]
        total = float(weight @ here.advantage[changed])
        if total <= best:
            continue
        low = interval(here.replicates[:, changed].astype(np.float64) @ weight)[0]
        if low > 0 and total > float(here.weight[changed] @ here.tie_band[changed]):
            limits = rules.decode_max_tokens
            best, longer = total, replace(rules, decode_max_tokens=(*limits[:place], limit, *limits[place:]))
    return longer


def _new_classes(rules: Rules, entry: Ints, heads: Ints, candidates: Ints) -> Iterator[tuple[int, DecodeLimit, Bools]]:
    """Every class that could be added: its place in the list, its corner, and the points it would take over."""
    seen = set()
    order = np.where(entry < 0, len(rules.decode_max_tokens), entry)
    for place in range(len(rules.decode_max_tokens), -1, -1):
        for least_heads in (0, *np.unique(heads)[1:].tolist()):
            for least_candidates in (0, *np.unique(candidates)[1:].tolist()):
                taken = (order >= place) & (heads >= least_heads) & (candidates >= least_candidates)
                if taken.any() and taken.tobytes() not in seen:
                    seen.add(taken.tobytes())
                    corner = DecodeLimit(min_heads=least_heads, min_candidates=least_candidates, num_tokens=None)
                    yield place, corner, taken


def _limit_of(rules: Rules, entry: int) -> int | None:
    return 0 if entry < 0 else rules.decode_max_tokens[entry].num_tokens


def _decodes(rules: Rules, entry: Ints, num_tokens: Ints) -> Bools:
    """Where the rules decode now."""
    held = [_limit_of(rules, i) for i in (*range(len(rules.decode_max_tokens)), -1)]
    limits = np.array([np.inf if limit is None else limit for limit in held])
    return np.asarray(num_tokens <= limits[entry], dtype=np.bool_)
