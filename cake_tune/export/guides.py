"""What stands above the rules in an emitted module: exceptions, the measured num_tokens, and the cost model.

The answers of a table follow ``planner.question.guide``; here it is decided once which of its steps a module needs.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from cake_tune.export.measured import measured_lines
from cake_tune.planner.cost import CostModel
from cake_tune.planner.outside import Outside
from cake_tune.planner.table import Override, PlannerTable, Region

ANYWHERE = Outside(groups="rules", tokens="rules+exceptions", why="")
"""How a table without ``outside`` answers: exceptions hold on their intervals, and nowhere else."""


@dataclass(frozen=True, slots=True)
class Guides:
    """``exceptions`` and ``measured`` are lines of source, empty where no step needs them.

    ``nearest``: exceptions are carried to groups that were not measured. ``points_only``: they hold at measured
    num_tokens alone, which their intervals do not tell by themselves. ``outside``: how other shapes are answered.
    """

    exceptions: list[str]
    measured: list[str]
    nearest: bool
    points_only: bool
    outside: Outside
    model: CostModel | None


def guides_of(table: PlannerTable) -> Guides:
    """The steps that a module of ``table`` needs."""
    outside = table.outside or ANYWHERE
    groups = {_group(region): _tokens(region) for region in table.measured}
    exceptions = table.exceptions
    if table.outside is not None:
        exceptions = tuple(each for each in exceptions if _group(each) in groups)
    nearest = outside.groups == "rules+exceptions" and bool(exceptions)
    points_only = outside.tokens != "rules+exceptions" and bool(exceptions)
    # Without any measurement there are no other num_tokens of a measured group.
    model = outside.cost_model if groups or outside.groups == "cost_model" else None
    if points_only and not nearest and model is None:
        exceptions = tuple(part for each in exceptions for part in _at_points(each, groups[_group(each)]))
        points_only = False
    measured = measured_lines(groups) if groups and (nearest or points_only or model is not None) else []
    return Guides(_exception_lines(exceptions), measured, nearest, points_only, outside, model)


def _at_points(override: Override, tokens: tuple[int, ...]) -> Iterator[Override]:
    """The parts of an exception without the num_tokens between measured ones."""
    held = [count for count in tokens if override.min_tokens <= count <= override.max_tokens]
    for _, run in groupby(enumerate(held), key=lambda item: item[1] - item[0]):
        counts = [count for _, count in run]
        yield replace(override, min_tokens=counts[0], max_tokens=counts[-1])


def _exception_lines(exceptions: tuple[Override, ...]) -> list[str]:
    """The entries of a dict from (num_heads, topk, extra_topk) to the intervals there, one interval a line."""
    lines = []
    for group, entries in groupby(exceptions, key=_group):
        held = list(entries)
        if len(held) == 1:
            lines.append(f"    {group}: ({_interval(held[0])},),  # {100 * held[0].regret:.1f} %")
        else:
            rows = [f"        {_interval(each)},  # {100 * each.regret:.1f} %" for each in held]
            lines += [f"    {group}: (", *rows, "    ),"]
    return lines


def _interval(override: Override) -> str:
    plan = override.plan
    shown = f'_Plan("{plan.kernel}", {plan.head_tiles}, {plan.num_splits}, {plan.chunks_per_block})'
    return f"({override.min_tokens}, {override.max_tokens}, {shown})"


def _tokens(region: Region) -> tuple[int, ...]:
    return tuple(sorted({*region.decode, *region.prefill}))


def _group(entry: Override | Region) -> tuple[int, int, int]:
    return entry.num_heads, entry.topk, entry.extra_topk
