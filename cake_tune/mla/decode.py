"""Split decode on the CPU grid: one block per (token, head block, split), and a merge of the splits.

A block streams its chunks through its tile with an online softmax, eight at a time, so that its working set does not
grow with what it was given. An unsplit plan writes its result directly; a split one writes normalised BF16 partials and
base-2 LSEs to the caller's scratch, and the last block of a (token, head block) to end merges them in float32.
"""

import itertools
import math

import torch
from torch import Tensor

from cake_tune.mla.call import AttentionCall
from cake_tune.mla.grid import run_grid
from cake_tune.mla.softmax import LOG2_E, Partial, attend, load_query, store
from cake_tune.mla.sources import open_sources
from cake_tune.mla.tile import Part, load_tile, valid_parts
from cake_tune.mla.workspace import Workspace
from cake_tune.planner.shape import CHUNK

STEP_CANDIDATES = 8 * CHUNK
"""Candidates per step of a block: half of what a block can hold. Fewer make the steps' fixed cost felt."""


def decode_on_cpu(call: AttentionCall) -> None:
    """Run a decode call on the CPU grid."""
    if call.num_tokens == 0:
        return
    sources = open_sources(call)
    # next() on a count is atomic: the block that draws the last number of its (token, head block) merges.
    ended = [itertools.count(1) for _ in range(call.num_tokens * call.head_blocks)]

    def block(number: int, workspace: Workspace) -> None:
        group, split = divmod(number, call.num_splits)
        token, head_block = divmod(group, call.head_blocks)
        heads = call.heads_of(head_block)
        first_chunk = split * call.chunks_per_block
        parts = valid_parts(sources, token, first_chunk, first_chunk + call.chunks_per_block, STEP_CANDIDATES)
        attention, lse = _stream(call, load_query(call, token, heads), parts, workspace)
        if call.num_splits == 1:
            store(call, token, heads, attention, lse)
            return
        _store_partial(call, token, heads, split, attention, lse)
        if next(ended[group]) == call.num_splits:
            _merge(call, token, heads)

    run_grid(block, call.num_tokens * call.head_blocks * call.num_splits)


def _stream(
    call: AttentionCall, query: Tensor, parts: list[Part], workspace: Workspace
) -> tuple[Tensor, Tensor] | tuple[None, None]:
    """Attention and LSE of ``query`` over the parts; None for no valid slot."""
    state: Partial | None = None
    for part in parts:
        load_tile(part, 0, workspace)
        state = attend(state, query, call.sm_scale * LOG2_E, part.rows, workspace)
    return (None, None) if state is None else state.finish()


def _store_partial(
    call: AttentionCall, token: int, heads: slice, split: int, attention: Tensor | None, lse: Tensor | None
) -> None:
    assert call.mid_out is not None and call.mid_lse is not None
    mid_out, mid_lse = call.mid_out[token, heads, split], call.mid_lse[token, heads, split]
    if attention is None or lse is None:
        mid_out.zero_()
        mid_lse.fill_(-math.inf)
    else:
        mid_out.copy_(attention)
        mid_lse.copy_(lse)


def _merge(call: AttentionCall, token: int, heads: slice) -> None:
    assert call.mid_out is not None and call.mid_lse is not None
    partials, lses = call.mid_out[token, heads, : call.num_splits], call.mid_lse[token, heads, : call.num_splits]
    maximum = lses.amax(1, keepdim=True)
    # Finite, so that the weights of a row without a valid slot, -inf throughout, are 0 and not NaN.
    weights = (lses - maximum.clamp(min=torch.finfo(torch.float32).min)).exp2_()
    total = weights.sum(1, keepdim=True)
    # Any other row has a weight of 1.
    attention = torch.bmm(weights.unsqueeze(1), partials.float()).squeeze(1).div_(total.clamp(min=1))
    store(call, token, heads, attention, (maximum + total.log2_()).squeeze(1))
