"""Which method answers for shapes that nobody measured: cross-validation between rules, exceptions and cost model.

Whole (num_heads, topk, extra_topk) are left out for the one question, some num_tokens of each for the other. What is
left out is answered by each method as fitted on the rest, and judged by its measured times. Simpler wins unless a less
simple method is better by more than one standard error.
"""

from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

from cake_tune.fit.certificate import table_plans, table_regrets
from cake_tune.fit.cost_model import fit_cost_model, predict
from cake_tune.fit.cost_rows import rows_of
from cake_tune.fit.overrides import find_overrides, verdict
from cake_tune.fit.regions import regions_of
from cake_tune.fit.regret import summarise
from cake_tune.fit.rules import fit_rules
from cake_tune.fit.samples import Floats, Ints, Samples
from cake_tune.journal.second import halved
from cake_tune.planner.cost import CostModel
from cake_tune.planner.outside import METHODS, Method, Outside, Score
from cake_tune.planner.rules import Rules
from cake_tune.planner.table import PlannerTable

Regrets = dict[Method, Floats]
"""Regret of each method at the held-out points, in one order."""

LEAST_GROUPS = 3
MOST_FOLDS = 5
TOKEN_FOLDS = 3
_MOST_POINTS = 800
"""Beyond, a seeded draw of so many points is cross-validated: their mean is as good as that of all."""
_LEAST_GAIN = 0.0005
"""Mean regret below which a less simple method is not worth it."""
_MOST_FOR_SIMPLICITY = 0.005
"""Mean regret above which a simpler method is not worth it, however unsure."""


def choose_outside(
    samples: Samples, table: PlannerTable, start: Rules, in_force: PlannerTable, second: Executor | None = None
) -> Outside | None:
    """The methods for unmeasured shapes; None where too little was measured to leave any out.

    ``start`` is where the rules of each fold begin: it must not have seen the device. ``table`` is what was fitted on
    everything. A half of the folds runs in the process ``second``, if there is one.
    """
    samples = samples.thinned(_MOST_POINTS)
    model = fit_cost_model(samples, table.device.num_sms)
    bench = _Bench(table, start, in_force, model)
    group_folds, token_folds = _group_folds(samples), _token_folds(samples)
    found = halved(second, partial(bench.regrets, samples), [*group_folds, *token_folds])
    of_groups, of_tokens = _pooled(found[: len(group_folds)]), _pooled(found[len(group_folds) :])
    if of_groups is None and of_tokens is None:
        return None
    groups: Method = "rules" if of_groups is None else _simplest_good(of_groups)
    tokens: Method = _simplest_good(of_tokens) if of_tokens is not None else "rules+exceptions"
    if groups == "cost_model" and (of_tokens is None or _behind(of_tokens, groups, tokens) <= _LEAST_GAIN):
        # The table holds the model anyway. What is best for shapes that have nothing measured is so for those that have
        # something, unless the few of these that could be left out speak against it.
        tokens = groups
    scores = tuple(
        Score(
            method,
            summarise(of_groups[method]) if of_groups is not None else None,
            summarise(of_tokens[method]) if of_tokens is not None else None,
        )
        for method in METHODS
        if method != "cost_model" or model is not None
    )
    return Outside(
        groups=groups,
        tokens=tokens,
        why="; ".join(_reasons(groups, tokens, scores)),
        scores=scores,
        cost_model=model if "cost_model" in (groups, tokens) else None,
    )


class _Bench:
    """What every fold needs."""

    def __init__(self, table: PlannerTable, start: Rules, in_force: PlannerTable, model: CostModel | None) -> None:
        self._bare = replace(table, exceptions=(), measured=(), outside=None, certificate=None)
        self._start, self._in_force, self._model = start, in_force, model

    def regrets(self, samples: Samples, held: Ints) -> Regrets:
        """What each method loses at the points ``held``, fitted on the others."""
        seen = samples.take(np.setdiff1d(np.arange(len(samples)), held))
        num_sms = self._bare.device.num_sms
        bare = replace(self._bare, rules=fit_rules(seen, self._start, num_sms))
        asked = samples.take(held)
        lost: Regrets = {"rules": np.array(table_regrets(asked, bare))}
        full = replace(bare, exceptions=find_overrides(seen, bare, self._in_force))
        full = replace(
            full,
            measured=tuple(regions_of(seen, full)),
            outside=Outside(groups="rules+exceptions", tokens="rules+exceptions", why=""),
        )
        answers = table_plans(asked, full, range(len(asked)))
        lost["rules+exceptions"] = np.array([verdict(asked, point, plan).regret for point, plan in answers])
        if self._model is not None:
            # The blocks that share a multiprocessor are a fact of the kernel: searched once, on everything.
            model = fit_cost_model(seen, num_sms, self._model) or self._model
            lost["cost_model"] = modelled_regrets(asked, model, num_sms)
        return lost


def modelled_regrets(samples: Samples, model: CostModel, num_sms: int) -> Floats:
    """Regret at each point of the timed plan that ``model`` takes for the fastest of those."""
    rows, timed, point = rows_of(samples)
    guess = predict(model, rows, num_sms)
    _, least = samples.best()
    ends = np.searchsorted(point, np.arange(len(samples) + 1))
    # Where no plan is known to the model, the slowest counts, as for any plan without a time.
    chosen = np.fmax.reduceat(samples.log_time, samples.start[:-1])
    for i, (first, last) in enumerate(pairwise(ends.tolist())):
        if first < last and np.isfinite(guess[first:last]).any():
            chosen[i] = samples.log_time[timed[first + int(np.argmin(guess[first:last]))]]
    lost: Floats = np.expm1(chosen - least)
    return lost


def _pooled(found: list[Regrets]) -> Regrets | None:
    """The regrets of all folds; None without any."""
    return {method: np.concatenate([each[method] for each in found]) for method in found[0]} if found else None


def _group_folds(samples: Samples) -> list[Ints]:
    """Every group once, alone up to five, several at a time beyond; none with fewer than three groups."""
    groups = [np.arange(points.start, points.stop) for _, points in samples.groups()]
    if len(groups) < LEAST_GROUPS:
        return []
    folds = min(len(groups), MOST_FOLDS)
    return [np.sort(np.concatenate(groups[fold::folds])) for fold in range(folds)]


def _token_folds(samples: Samples) -> list[Ints]:
    """Every third num_tokens of each group with three or more, three times over."""
    folds: list[list[Ints]] = [[] for _ in range(TOKEN_FOLDS)]
    for number, (_, points) in enumerate(samples.groups()):
        if len(points) >= TOKEN_FOLDS:
            for fold in range(TOKEN_FOLDS):
                # Shifted from group to group, so that no fold lacks one num_tokens everywhere.
                folds[fold].append(np.arange(points.start, points.stop)[(fold + number) % TOKEN_FOLDS :: TOKEN_FOLDS])
    return [np.concatenate(fold) for fold in folds if fold]


def _behind(regrets: Regrets, method: Method, other: Method) -> float:
    """How much more ``method`` loses than ``other``, on average."""
    return float((regrets[method] - regrets[other]).mean())


def _simplest_good(regrets: Regrets) -> Method:
    """The simplest method that no other beats by more than one standard error of their difference, or by half a per
    cent: with few points the error is so large that anything would pass.
    """
    best = min(regrets, key=lambda method: float(regrets[method].mean()))
    for method in METHODS:
        if method in regrets:
            behind = regrets[method] - regrets[best]
            error = float(behind.std()) / np.sqrt(len(behind))
            if float(behind.mean()) <= max(min(error, _MOST_FOR_SIMPLICITY), _LEAST_GAIN):
                return method
    return best


def _reasons(groups: Method, tokens: Method, scores: tuple[Score, ...]) -> Iterator[str]:
    for chosen, question, name in (
        (groups, "other num_heads and topk", "groups"),
        (tokens, "other num_tokens of measured ones", "tokens"),
    ):
        known = {score.method: getattr(score, name) for score in scores}
        if known[chosen] is None:
            like = "as for the others, " if chosen == "cost_model" else ""
            yield f"{question}: {_words(chosen)}, {like}since too few were measured to leave some out"
            continue
        others = ", ".join(f"{_words(method)} {known[method].mean:.2%}" for method in known if method != chosen)
        yield f"{question}: {_words(chosen)}, mean regret {known[chosen].mean:.2%} on held-out ones ({others})"


def _words(method: Method) -> str:
    return {"rules": "rules", "rules+exceptions": "rules + exceptions", "cost_model": "cost model"}[method]
