"""The crossover of the rules: classes of heads and candidates, each with the num_tokens up to which decode is used."""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cake_tune.fit.bootstrap import interval
from cake_tune.fit.crossover import Duel, duel, least_regret_cut
from cake_tune.fit.decisions import decode_limit
from cake_tune.fit.published import published_limits
from cake_tune.fit.samples import Bools, Floats, Ints, Samples
from cake_tune.planner.rules import DecodeLimit, Rules


def fit_limits(samples: Samples, rules: Rules) -> Rules:
    """``rules`` with ``decode_max_tokens`` fitted where both kernels were measured, and unchanged elsewhere.

    A class is added only where the shapes it takes over gain more than the tie band on average, beyond noise.
    """
    both = duel(samples)
    heads, candidates = samples.num_heads[both.point], (samples.topk + samples.extra_topk)[both.point]
    start, rules = rules, _refit(rules, both, heads, candidates)
    # Each class added takes measured shapes from another one, so that there are never more than shapes.
    for _ in range(len(both.point)):
        longer = _add_class(rules, both, heads, candidates)
        if longer is None:
            break
        rules = _refit(longer, both, heads, candidates)
    return _prefer(start, rules, both, heads, candidates)


def _prefer(start: Rules, fitted: Rules, both: Duel, heads: Ints, candidates: Ints) -> Rules:
    """``fitted``, or its like with the classes of a published table.

    The latter if they beat those of ``fitted`` beyond noise, or are not beaten by them while those of ``start`` are.
    """
    chosen = _decoded(fitted.decode_max_tokens, fitted, both, heads, candidates)
    decodes = {limits: _decoded(limits, fitted, both, heads, candidates) for limits in published_limits()}
    sign = {limits: np.where(held, -both.weight, both.weight) for limits, held in decodes.items()}
    lost = {limits: float(signed @ both.advantage) for limits, signed in sign.items()}
    for limits in sorted(decodes, key=lambda limits: round(lost[limits], 9)):
        other = decodes[limits]
        if _better(both, chosen, other) or (fitted != start and not _better(both, other, chosen)):
            return replace(fitted, decode_max_tokens=limits)
    return fitted


def _better(both: Duel, before: Bools, after: Bools) -> bool:
    """Whether to decode where ``after`` does gains: more than the tie band where the two differ, and beyond noise."""
    here = both.take(before != after)
    # Decode instead of prefill saves d, prefill instead of decode -d.
    weight = np.where(after, both.weight, -both.weight)[before != after]
    if float(weight @ here.advantage) <= float(here.weight @ here.tie_band):
        return False
    return interval(here.replicates.astype(np.float64) @ weight)[0] > 0


def _decoded(limits: tuple[DecodeLimit, ...], rules: Rules, both: Duel, heads: Ints, candidates: Ints) -> Bools:
    rules = replace(rules, decode_max_tokens=limits)
    return _decodes(rules, decode_limit(rules, heads, candidates), both.num_tokens)


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
    for most, each in _promising(rules, both, entry, current, heads, candidates):
        if most < best:
            break
        taken = each.taken(heads, candidates, entry, len(rules.decode_max_tokens))
        here = both.take(taken)
        held = {int(i) for i in np.unique(entry[taken])}
        common = _limit_of(rules, held.pop()) if len(held) == 1 else -1
        limit = replace(each.corner, num_tokens=least_regret_cut(here, common).threshold)
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
            before, behind = rules.decode_max_tokens[: each.place], rules.decode_max_tokens[each.place :]
            best, longer = total, replace(rules, decode_max_tokens=(*before, limit, *behind))
    return longer


class _Class(NamedTuple):
    """A class that could be added: its place in the list, and its corner."""

    place: int
    corner: DecodeLimit

    def taken(self, heads: Ints, candidates: Ints, entry: Ints, last: int) -> Bools:
        """What it would take over from the entries behind it, and from those decided by none."""
        order = np.where(entry < 0, last, entry)
        corner = self.corner
        return (order >= self.place) & (heads >= corner.min_heads) & (candidates >= corner.min_candidates)


def _promising(
    rules: Rules, both: Duel, entry: Ints, current: Bools, heads: Ints, candidates: Ints
) -> list[tuple[float, _Class]]:
    """The classes that could gain more than the tie band, with the most that each could gain, the largest first.

    The most is what the best of all thresholds gains by the reported times: what noise leaves of it is asked of few.
    """
    kinds, kind = np.unique(np.stack([entry, heads, candidates], axis=1), axis=0, return_inverse=True)
    grid, column = np.unique(both.num_tokens, return_inverse=True)
    kind = kind.reshape(-1)
    saved = np.where(current, -both.advantage, both.advantage) * both.weight
    band = both.tie_band * both.weight
    # [kinds, thresholds]: what changing to decode below a threshold, and to prefill above it, saves.
    size = len(kinds), len(grid)
    gain, beyond = (_by_threshold(each, current, kind, column, size) for each in (saved, saved - band))
    of_kind = kinds.T
    found, seen = [], set()
    for each in _new_classes(rules, *of_kind):
        taken = each.taken(of_kind[1], of_kind[2], of_kind[0], len(rules.decode_max_tokens))
        if taken.any() and taken.tobytes() not in seen:
            seen.add(taken.tobytes())
            worth = taken.astype(np.float64) @ beyond > 0
            if worth.any():
                found.append((float((taken.astype(np.float64) @ gain)[worth].max()), each))
    return sorted(found, key=lambda pair: -pair[0])


def _by_threshold(saved: Floats, decodes: Bools, kind: Ints, column: Ints, size: tuple[int, int]) -> Floats:
    """Per kind and number of grid points that go to decode: the sum of ``saved`` over the points that change."""
    changes = np.zeros((2, size[0], size[1] + 1))
    np.add.at(changes[0], (kind[~decodes], column[~decodes] + 1), saved[~decodes])
    np.add.at(changes[1], (kind[decodes], column[decodes]), saved[decodes])
    below = np.cumsum(changes[0], axis=1)
    above = np.cumsum(changes[1][:, ::-1], axis=1)[:, ::-1]
    total: Floats = below + above
    return total


def _new_classes(rules: Rules, entry: Ints, heads: Ints, candidates: Ints) -> Iterator[_Class]:
    """Every class that could be added, those that come last in the list first."""
    for place in range(len(rules.decode_max_tokens), -1, -1):
        for least_heads in (0, *np.unique(heads)[1:].tolist()):
            for least_candidates in (0, *np.unique(candidates)[1:].tolist()):
                corner = DecodeLimit(min_heads=least_heads, min_candidates=least_candidates, num_tokens=None)
                yield _Class(place, corner)


def _limit_of(rules: Rules, entry: int) -> int | None:
    return 0 if entry < 0 else rules.decode_max_tokens[entry].num_tokens


def _decodes(rules: Rules, entry: Ints, num_tokens: Ints) -> Bools:
    """Where the rules decode now."""
    held = [_limit_of(rules, i) for i in (*range(len(rules.decode_max_tokens)), -1)]
    limits = np.array([np.inf if limit is None else limit for limit in held])
    return np.asarray(num_tokens <= limits[entry], dtype=np.bool_)
