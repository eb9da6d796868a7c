"""What a table answers at every measured shape, and how each answer does there: arrays instead of a look-up per shape.

The same as ``decide`` of ``cake_tune.planner.lookup`` and ``verdict``, one after the other for every point; a property
test ties them together.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cake_tune.fit.choices import DECODE_CHOICES, decode_choice
from cake_tune.fit.decisions import decode_head_tiles, decode_kernel, decode_splits, grid_blocks, prefill_head_tiles
from cake_tune.fit.samples import Bools, Floats, Ints, Samples
from cake_tune.planner.rules import DEFAULT_MAX_SPLITS, Rules
from cake_tune.planner.shape import Kernel, Plan
from cake_tune.planner.table import PlannerTable


@dataclass(frozen=True)
class Verdicts:
    """How one plan per point does, as ``Verdict`` for each: arrays over the points asked."""

    regret: Floats
    timed: Bools
    accepted: Bools
    judged: Bools


@dataclass(frozen=True)
class Answers:
    """One plan per point: its index into ``samples.plans`` (-1: none of them), and whether it decodes."""

    plan: Ints
    decodes: Bools


def verdicts(samples: Samples, answers: Answers, points: Ints | None = None) -> Verdicts:
    """Judge the answers at ``points`` (None: at all); a plan without a time counts as the slowest measured there."""
    points = np.arange(len(samples)) if points is None else points
    row = samples.row_of(points, answers.plan)
    timed = (row >= 0) & np.isfinite(samples.log_time[row])
    _, least = samples.best()
    slowest = np.fmax.reduceat(samples.log_time, samples.start[:-1])
    lost = np.where(timed, samples.log_time[row], slowest[points]) - least[points]
    accepted = timed & (samples.equal[row] | samples.chosen[row])
    decode = samples.is_kernel("decode")
    raced = [np.logical_or.reduceat(mask, samples.start[:-1])[points] for mask in (decode, ~decode)]
    return Verdicts(np.expm1(lost), timed, accepted, timed | np.where(answers.decodes, *raced))


def answers_of(samples: Samples, plans: Sequence[Plan]) -> Answers:
    """``plans``, one per point asked about, as answers."""
    index = {plan: i for i, plan in enumerate(samples.plans)}
    places = np.array([index.get(plan, -1) for plan in plans], dtype=np.int64)
    return Answers(places, np.array([plan.kernel == "decode" for plan in plans], dtype=np.bool_))


def rule_answers(samples: Samples, rules: Rules, num_sms: int, kernel: Kernel | None = None) -> Answers:
    """What ``rules`` answer at every point; with ``kernel`` their plan of that kernel."""
    return _ruled(samples, rules, num_sms, None if kernel is None else np.full(len(samples), kernel == "decode"))


def table_answers(
    samples: Samples, table: PlannerTable, kernel: Kernel | None = None, *, alone: bool = False
) -> Answers:
    """What ``table`` answers at every measured point of its own device: an exception that holds it, else the rules.

    With ``kernel`` its plan of that kernel; with ``alone`` that of the one kernel raced, where only one was.
    """
    asked = np.zeros(len(samples), dtype=np.bool_)
    wants_decode = np.ones(len(samples), dtype=np.bool_)
    if kernel is not None:
        asked[:], wants_decode[:] = True, kernel == "decode"
    elif alone:
        raced = [
            np.logical_or.reduceat(mask, samples.start[:-1])
            for mask in (samples.is_kernel("decode"), samples.is_kernel("prefill"))
        ]
        asked, wants_decode = raced[0] != raced[1], raced[0]
    free = _ruled(samples, table.rules, table.device.num_sms, None)
    decodes = np.where(asked, wants_decode, free.decodes)
    ruled = _ruled(samples, table.rules, table.device.num_sms, decodes)
    plan, index = ruled.plan.copy(), {plan: i for i, plan in enumerate(samples.plans)}
    held = dict(samples.groups())
    for override in table.exceptions:
        points = held.get((override.num_heads, override.topk, override.extra_topk))
        if points is None:
            continue
        tokens = samples.num_tokens[points.start : points.stop]
        first, last = np.searchsorted(tokens, [override.min_tokens, override.max_tokens + 1]) + points.start
        here = np.arange(first, last)
        is_decode = override.plan.kernel == "decode"
        here = here[~asked[here] | (wants_decode[here] == is_decode)]
        plan[here], decodes[here] = index.get(override.plan, -1), is_decode
    return Answers(plan, decodes)


def _ruled(samples: Samples, rules: Rules, num_sms: int, decodes: Bools | None) -> Answers:
    tokens, heads, chunks = samples.num_tokens, samples.num_heads, samples.chunks
    candidates = samples.topk + samples.extra_topk
    if decodes is None:
        decodes = decode_kernel(rules, tokens, heads, candidates, chunks)
    tiles = decode_head_tiles(rules, tokens, heads, chunks, num_sms)
    splits = decode_splits(rules.splitting, tokens, grid_blocks(tokens, heads, tiles), chunks, num_sms)
    # Chunks that need more splits than the default allows have no plan among the samples.
    column = np.where(splits <= DEFAULT_MAX_SPLITS, decode_choice(tiles, splits), -1)
    column = np.where(decodes, column, DECODE_CHOICES + prefill_head_tiles(rules, tokens, heads, candidates))
    return Answers(np.where(column >= 0, _plan_table(samples)[column, chunks], -1), decodes)


def _plan_table(samples: Samples) -> Ints:
    """The plan without options of each choice and number of chunks; -1 where there is none."""
    table = np.full((DECODE_CHOICES + 5, int(samples.chunks.max()) + 1), -1, dtype=np.int64)
    for i, plan in enumerate(samples.plans):
        if plan.options:
            continue
        if plan.kernel == "prefill":
            if plan.chunks_per_block < table.shape[1]:
                table[DECODE_CHOICES + plan.head_tiles, plan.chunks_per_block] = i
            continue
        column = (plan.head_tiles - 1) * (DEFAULT_MAX_SPLITS + 1) + plan.num_splits
        # The chunks that resolve to this plan when so many splits are asked for.
        splits, cpb = plan.num_splits, plan.chunks_per_block
        first = max((splits - 1) * cpb, splits * (cpb - 1)) + 1
        table[column, first : splits * cpb + 1] = i
    return table
