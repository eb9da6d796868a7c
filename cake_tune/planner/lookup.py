"""Look a plan up in a table: an exception where one holds the shape, else the rules; and for shapes that were not
measured, whatever the table found to generalise best (``PlannerTable.outside``).

Exceptions and cost model were measured, so they answer only on the table's own ``num_sms``. An exception that holds a
plan of one kernel says nothing about the other: questions about that one go to the rules.
"""

from typing import TypeVar

from cake_tune.errors import ContractError
from cake_tune.planner.cost import CostModel
from cake_tune.planner.decision import Decision as Decision  # noqa: PLC0414  (what a look-up answers)
from cake_tune.planner.decision import Source as Source  # noqa: PLC0414
from cake_tune.planner.modelled import carried, cheapest
from cake_tune.planner.question import Question, ask, find_override, guide
from cake_tune.planner.rules import DEFAULT_MAX_SPLITS, Rules
from cake_tune.planner.shape import (
    MAX_CHUNKS_PER_BLOCK,
    Kernel,
    Plan,
    Shape,
    check_plan,
    decode_tiles,
    integers,
)
from cake_tune.planner.table import Override, PlannerTable

T = TypeVar("T")

REMEMBERED = 4096
"""Answers a table keeps; one more and it starts over, so that memory stays bounded."""


def decide(
    table: PlannerTable,
    *,
    num_tokens: int,
    num_heads: int,
    topk: int,
    extra_topk: int = 0,
    num_sms: int | None = None,
    max_splits: int = DEFAULT_MAX_SPLITS,
    head_tiles: int | None = None,
    kernel: Kernel | None = None,
) -> Decision:
    """The plan of ``table`` for a shape, on ``num_sms`` multiprocessors (None: the table's own).

    ``kernel`` and ``head_tiles`` ask for the best plan among those that have them; ``head_tiles`` alone asks for a
    decode plan. Raises ``ContractError`` for a shape, tiles or kernel that cannot run, and when ``max_splits`` is
    fewer than the shape needs. An exception's answer is ready from the start; any other question is answered from
    memory the second time.
    """
    if not (
        int is type(num_tokens) is type(num_heads) is type(topk) is type(extra_topk) is type(max_splits)
        and (num_sms is None or type(num_sms) is int)
        and (head_tiles is None or type(head_tiles) is int)
    ):
        # Before any look-up, to which 512.0 and 512 are the same question.
        num_tokens, num_heads, topk, extra_topk, max_splits = integers(
            num_tokens=num_tokens, num_heads=num_heads, topk=topk, extra_topk=extra_topk, max_splits=max_splits
        )
        num_sms = None if num_sms is None else integers(num_sms=num_sms)[0]
        head_tiles = None if head_tiles is None else integers(head_tiles=head_tiles)[0]
    if kernel is None and head_tiles is None and (num_sms is None or num_sms == table.device.num_sms):
        # An exception, and nobody asked for another plan: its shape needs no check, since the table's was checked.
        ready = table.ready.find(num_tokens, num_heads, topk, extra_topk)
        if ready is not None and ready.plan.num_splits <= max_splits:
            return ready
    asked = (num_tokens, num_heads, topk, extra_topk, num_sms, max_splits, head_tiles, kernel)
    known: Decision | None = table.answers.get(asked)
    if known is not None:
        return known
    if kernel not in (None, "decode", "prefill"):
        raise ContractError(f"kernel: expected decode, prefill or None, got {kernel!r}")
    question = ask(
        num_tokens, num_heads, topk, extra_topk, num_sms=table.device.num_sms if num_sms is None else num_sms
    )
    return remember(table, asked, _decide(table, question, max_splits, head_tiles, kernel))


def plan_for(table: PlannerTable, shape: Shape) -> Plan | None:
    """The plan of ``table`` for ``shape`` on the table's own device; None where it has none that runs."""
    try:
        return decide(
            table,
            num_tokens=shape.num_tokens,
            num_heads=shape.num_heads,
            topk=shape.topk,
            extra_topk=shape.extra_topk,
        ).plan
    except ContractError:
        return None


def remember(table: PlannerTable, asked: object, answer: T) -> T:
    """Keep ``answer`` with the table for the next time that ``asked`` is."""
    if len(table.answers) >= REMEMBERED:
        table.answers.clear()
    table.answers[asked] = answer
    return answer


def _decide(
    table: PlannerTable, question: Question, max_splits: int, head_tiles: int | None, kernel: Kernel | None
) -> Decision:
    override, model = guide(table, question)
    if kernel is None and head_tiles is not None:
        kernel = "decode"
    if model is not None:
        plan = _cheapest(model, question, kernel, head_tiles, max_splits)
        if plan is not None:
            source = _source(table, question, plan, None)
            return Decision(plan, source, table, question.num_sms, method="cost_model")
    if kernel is None:
        kernel = select_kernel(table.rules, override, question)
    plan = _plan(table.rules, override, question, max_splits, head_tiles, kernel)
    if override is None:
        return Decision(plan, _source(table, question, plan, None), table, question.num_sms)
    if not _runs_alike(plan, override.plan):
        return Decision(plan, _source(table, question, plan, None), table, question.num_sms)
    plan = override.plan
    if override is find_override(table, question):
        return Decision(plan, _source(table, question, plan, override), table, question.num_sms, override)
    # Carried from another shape: what it is there, for people; its plan here, for the op.
    at_home = carried(table, *question[:4])
    return Decision(plan, _source(table, question, plan, None), table, question.num_sms, at_home, "rules+exceptions")


def _plan(
    rules: Rules,
    override: Override | None,
    question: Question,
    max_splits: int,
    head_tiles: int | None,
    kernel: Kernel,
) -> Plan:
    if kernel == "decode":
        tiles = decode_head_tiles(rules, override, question) if head_tiles is None else head_tiles
        return Plan("decode", tiles, *decode_splits(rules, override, question, max_splits, tiles))
    tiles = prefill_head_tiles(rules, override, question) if head_tiles is None else head_tiles
    plan = Plan("prefill", tiles, 1, question.chunks)
    check_plan(plan, question.num_heads, question.chunks)
    return plan


def _cheapest(
    model: CostModel, question: Question, kernel: Kernel | None, head_tiles: int | None, max_splits: int
) -> Plan | None:
    num_tokens, num_heads, _, _, num_sms, chunks = question
    return cheapest(
        model, num_tokens, num_heads, chunks, num_sms, kernel=kernel, head_tiles=head_tiles, max_splits=max_splits
    )


def held_kernel(plan: Plan) -> Kernel:
    """The kernel of the best plan, where an exception holds ``plan``. The other ``held_`` functions may say None."""
    return plan.kernel


def held_decode_tiles(plan: Plan) -> int | None:
    """Head tiles of the best decode plan."""
    return plan.head_tiles if plan.kernel == "decode" else None


def held_splits(plan: Plan, max_splits: int, head_tiles: int) -> tuple[int, int] | None:
    """(num_splits, chunks_per_block) of the best decode plan with ``head_tiles``."""
    if plan.kernel == "decode" and plan.head_tiles == head_tiles and plan.num_splits <= max_splits:
        return plan.num_splits, plan.chunks_per_block
    return None


def held_prefill_tiles(plan: Plan) -> int | None:
    """Head tiles of the best prefill plan."""
    return plan.head_tiles if plan.kernel == "prefill" else None


def select_kernel(
    rules: Rules, override: Override | None, question: Question, *, model: CostModel | None = None
) -> Kernel:
    """The kernel of the best plan."""
    if override is not None:
        return held_kernel(override.plan)
    if model is not None:
        plan = _cheapest(model, question, None, None, DEFAULT_MAX_SPLITS)
        if plan is not None:
            return plan.kernel
    num_tokens, num_heads, topk, extra_topk, _, _ = question
    return rules.kernel(num_tokens, num_heads, topk, extra_topk)


def decode_head_tiles(
    rules: Rules, override: Override | None, question: Question, *, model: CostModel | None = None
) -> int:
    """Head tiles of the best decode plan."""
    held = None if override is None else held_decode_tiles(override.plan)
    if held is not None:
        return held
    if model is not None:
        plan = _cheapest(model, question, "decode", None, DEFAULT_MAX_SPLITS)
        if plan is not None:
            return plan.head_tiles
    num_tokens, num_heads, _, _, num_sms, chunks = question
    return rules.head_tiles(num_tokens, num_heads, chunks, num_sms)


def decode_splits(
    rules: Rules,
    override: Override | None,
    question: Question,
    max_splits: int,
    head_tiles: int,
    *,
    model: CostModel | None = None,
) -> tuple[int, int]:
    """The resolved (num_splits, chunks_per_block) of the best decode plan with ``head_tiles``."""
    num_tokens, num_heads, _, _, num_sms, chunks = question
    if head_tiles not in decode_tiles(num_heads):
        listed = " or ".join(map(str, decode_tiles(num_heads)))
        raise ContractError(f"head_tiles: expected {listed} for {num_heads} heads, got {head_tiles}")
    held = None if override is None else held_splits(override.plan, max_splits, head_tiles)
    if held is not None:
        return held
    if model is not None:
        cheap = _cheapest(model, question, "decode", head_tiles, max_splits)
        if cheap is not None:
            return cheap.num_splits, cheap.chunks_per_block
    return rules.splits(num_tokens, num_heads, chunks, num_sms, max_splits=max_splits, head_tiles=head_tiles)


def prefill_head_tiles(
    rules: Rules, override: Override | None, question: Question, *, model: CostModel | None = None
) -> int:
    """Head tiles of the best prefill plan."""
    held = None if override is None else held_prefill_tiles(override.plan)
    if held is not None:
        return held
    if model is not None:
        plan = _cheapest(model, question, "prefill", None, DEFAULT_MAX_SPLITS)
        if plan is not None:
            return plan.head_tiles
    num_tokens, num_heads, topk, extra_topk, _, _ = question
    return rules.prefill_tiles(num_tokens, num_heads, topk, extra_topk)


def _runs_alike(plan: Plan, other: Plan) -> bool:
    """Whether two plans of one shape differ in build options at most."""
    return (plan.kernel, plan.head_tiles, plan.num_splits) == (other.kernel, other.head_tiles, other.num_splits)


def _source(table: PlannerTable, question: Question, plan: Plan, override: Override | None) -> Source:
    num_tokens, num_heads, topk, extra_topk, num_sms, chunks = question
    if num_sms != table.device.num_sms:
        return "extrapolated"
    shape = (num_tokens, num_heads, topk, extra_topk)
    if table.coverage.holds(plan.kernel, *shape):
        if override is not None:
            return "measured"
        # What was timed there is the kernel's plan without bounds: tiles or splits asked for may make another one.
        unbounded = max(DEFAULT_MAX_SPLITS, -(-chunks // MAX_CHUNKS_PER_BLOCK))
        usual = _plan(table.rules, find_override(table, question), question, unbounded, None, plan.kernel)
        return "measured" if plan == usual else "rule"
    if override is not None or (not table.measured and table.provenance.kind == "published"):
        return "rule"
    return "rule" if table.coverage.surrounds(plan.kernel, *shape) else "extrapolated"
