"""Prefill on the CPU grid: one block per (token, head block) that dequantises the whole candidate list once.

No splits, no scratch, one launch. Up to four head tiles share one dequantised tile of up to 1024 candidates, and the
softmax runs over all of them at once: less work per token than decode, less parallel at few tokens.
"""

from cake_tune.mla.call import AttentionCall
from cake_tune.mla.grid import run_grid
from cake_tune.mla.softmax import LOG2_E, attend, load_query, store
from cake_tune.mla.sources import Source, open_sources
from cake_tune.mla.tile import load_tile, valid_parts
from cake_tune.mla.workspace import MAX_CANDIDATES, Workspace


def prefill_on_cpu(call: AttentionCall) -> None:
    """Run a prefill call on the CPU grid."""
    if call.num_tokens == 0:
        return
    sources = open_sources(call)

    def block(number: int, workspace: Workspace) -> None:
        token, head_block = divmod(number, call.head_blocks)
        _prefill_block(call, sources, token, head_block, workspace)

    run_grid(block, call.num_tokens * call.head_blocks)


def _prefill_block(
    call: AttentionCall, sources: list[Source], token: int, head_block: int, workspace: Workspace
) -> None:
    heads = call.heads_of(head_block)
    rows = 0
    for part in valid_parts(sources, token, 0, call.chunks_per_block, MAX_CANDIDATES):
        load_tile(part, rows, workspace)
        rows += part.rows
    if rows == 0:
        store(call, token, heads, None, None)
        return
    state = attend(None, load_query(call, token, heads), call.sm_scale * LOG2_E, rows, workspace)
    store(call, token, heads, *state.finish())
