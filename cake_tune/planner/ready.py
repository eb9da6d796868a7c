"""The answers of a table's exceptions, made once: a look-up there makes nothing, so that nothing needs to be kept."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import TYPE_CHECKING

from cake_tune.planner.decision import Decision

if TYPE_CHECKING:
    from cake_tune.planner.table import Override, PlannerTable, Region

_Step = tuple[int, Decision | None]
"""From this num_tokens on, up to the next step, that answer is ready."""


class Ready:
    """What a table answers, on its own num_sms and when any plan will do, for shapes that its exceptions hold.

    Found in O(log n) without allocating. Where something else than the rules may answer for shapes that were not
    measured (``PlannerTable.outside``), these are no business of the exceptions, and nothing is ready for them.
    """

    def __init__(self, table: "PlannerTable") -> None:
        measured = {_group(region): _num_tokens(region) for region in table.measured}
        self._steps: dict[tuple[int, int, int], tuple[list[int], list[Decision | None]]] = {}
        for entry in table.exceptions:
            group = _group(entry)
            # Before the first step nothing is ready.
            starts, answers = self._steps.setdefault(group, ([], [None]))
            for start, answer in _steps(table, entry, measured.get(group, [])):
                starts.append(start)
                answers.append(answer)

    def find(self, num_tokens: int, num_heads: int, topk: int, extra_topk: int) -> Decision | None:
        """The answer that is ready for the shape, or None."""
        found = self._steps.get((num_heads, topk, extra_topk))
        if found is None:
            return None
        starts, answers = found
        return answers[bisect_right(starts, num_tokens)]


def _steps(table: "PlannerTable", entry: "Override", measured: list[int]) -> Iterator[_Step]:
    """The steps of one exception, ascending; of several at one num_tokens the last one holds."""
    timed = Decision(entry.plan, "measured", table, table.device.num_sms, entry)
    ruled = timed._replace(source="rule")
    between = ruled if table.outside is None else None
    yield entry.min_tokens, between
    for num_tokens in measured[bisect_left(measured, entry.min_tokens) : bisect_right(measured, entry.max_tokens)]:
        own = table.coverage.holds(entry.plan.kernel, num_tokens, *_group(entry))
        yield num_tokens, timed if own else ruled
        yield num_tokens + 1, between
    yield entry.max_tokens + 1, None


def _group(entry: "Override | Region") -> tuple[int, int, int]:
    return entry.num_heads, entry.topk, entry.extra_topk


def _num_tokens(region: "Region") -> list[int]:
    return sorted({*region.decode, *region.prefill})
