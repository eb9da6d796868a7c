"""A question to the planner, and what stands above the rules when it is answered: an exception, or the cost model."""

from dataclasses import replace
from typing import NamedTuple

from cake_tune.errors import ContractError
from cake_tune.planner.cost import CostModel
from cake_tune.planner.modelled import carried, resolved
from cake_tune.planner.shape import check_shape, num_chunks
from cake_tune.planner.table import Override, PlannerTable


class Question(NamedTuple):
    """The integers that decide a plan; ``chunks`` follows from the top-ks. Build it with ``ask``, which checks them."""

    num_tokens: int
    num_heads: int
    topk: int
    extra_topk: int
    num_sms: int
    chunks: int


def ask(num_tokens: int, num_heads: int, topk: int, extra_topk: int, *, num_sms: int) -> Question:
    """The question, once its values are integers in range; ``ContractError`` names the first that is not."""
    check_shape(num_tokens, num_heads, topk, extra_topk)
    if num_sms < 1:
        raise ContractError(f"num_sms: expected an integer >= 1, got {num_sms}")
    return Question(num_tokens, num_heads, topk, extra_topk, num_sms, num_chunks(topk, extra_topk))


def find_override(table: PlannerTable, question: Question) -> Override | None:
    """The exception that holds the shape, on the table's own ``num_sms`` only."""
    num_tokens, num_heads, topk, extra_topk, num_sms, _ = question
    if num_sms != table.device.num_sms:
        return None
    return table.override_index.find(num_tokens, num_heads, topk, extra_topk)


def guide(table: PlannerTable, question: Question) -> tuple[Override | None, CostModel | None]:
    """What stands above the rules for a shape: an exception, or the cost model, or neither.

    An exception of another shape comes with its plan as this one runs it.
    """
    outside = table.outside
    if outside is None or question.num_sms != table.device.num_sms:
        return find_override(table, question), None
    num_tokens, num_heads, topk, extra_topk, _, chunks = question
    if table.coverage.has_point(num_tokens, num_heads, topk, extra_topk):
        return find_override(table, question), None
    known = table.coverage.has_group(num_heads, topk, extra_topk)
    method = outside.tokens if known else outside.groups
    if method == "cost_model":
        return None, outside.cost_model
    if method == "rules":
        return None, None
    if known:
        return find_override(table, question), None
    override = carried(table, num_tokens, num_heads, topk, extra_topk)
    plan = None if override is None else resolved(override.plan, num_heads, chunks)
    if override is None or plan is None:
        return None, None
    return replace(override, plan=plan, num_heads=num_heads, topk=topk, extra_topk=extra_topk, ties=()), None
