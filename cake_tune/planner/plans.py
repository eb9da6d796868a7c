"""The public planners, with FlashInfer's names and keywords; they answer from the table in force.

Source of the interface: FlashInfer 0.7.2, ``flashinfer.mla``. All are pure functions of integers: ``num_tokens`` T,
``num_heads`` H, ``topk`` and ``extra_topk`` candidates per token in the main and the extra cache (0: none), and
``num_sms`` multiprocessors of the device (worker threads on a CPU). All raise ``ContractError``, a ``ValueError``,
naming the argument that is no integer or out of range, and ``TableError`` when the table given cannot be read or
answer. An exception answers at once, and any other question is answered from memory the second time, while the same
table is in force.
"""

from collections.abc import Callable
from typing import TypeVar

from cake_tune.planner import lookup
from cake_tune.planner.lookup import remember
from cake_tune.planner.question import ask, guide
from cake_tune.planner.registry import table_for
from cake_tune.planner.rules import DEFAULT_MAX_SPLITS
from cake_tune.planner.shape import (
    BYTES_PER_TOKEN,
    CHUNK,
    DECODE_TWO_TILE_HEADS,
    HEAD_COUNTS,
    HEADS_PER_TILE,
    MAX_CHUNKS_PER_BLOCK,
    PREFILL_TILES,
    QUERY_DIM,
    Kernel,
    check_shape,
    integers,
    num_chunks,
    scratch_bytes,
)

T = TypeVar("T")


def cake_sparse_mla_sm120_dsv4_nvfp4_num_chunks(topk: int, extra_topk: int = 0) -> int:
    """Chunks of 64 candidates of one token, the most splits a plan can have: each cache is padded by itself."""
    check_shape(0, HEAD_COUNTS[0], topk, extra_topk)
    return num_chunks(int(topk), int(extra_topk))


def cake_sparse_mla_sm120_dsv4_nvfp4_scratch_bytes(
    num_tokens: int, num_heads: int, topk: int, extra_topk: int = 0
) -> int:
    """Bytes of split scratch (``mid_out`` and ``mid_lse``) that cover every plan of the shape."""
    check_shape(num_tokens, num_heads, topk, extra_topk)
    return scratch_bytes(int(num_tokens), int(num_heads), int(topk), int(extra_topk))


def cake_sparse_mla_sm120_dsv4_nvfp4_plan_head_tiles(
    *, num_tokens: int, num_heads: int, topk: int, extra_topk: int = 0, num_sms: int
) -> int:
    """Tiles of 16 heads in one decode block: 1, or 2 for 32, 64, 96 and 128 heads."""
    return _planned(
        lookup.held_decode_tiles, lookup.decode_head_tiles, num_tokens, num_heads, topk, extra_topk, num_sms
    )


def cake_sparse_mla_sm120_dsv4_nvfp4_plan_splits(
    *,
    num_tokens: int,
    num_heads: int,
    topk: int,
    extra_topk: int = 0,
    num_sms: int,
    max_splits: int = DEFAULT_MAX_SPLITS,
    head_tiles: int = 1,
) -> tuple[int, int]:
    """The decode plan's (num_splits, chunks_per_block) with ``head_tiles``, at most ``max_splits`` splits.

    A block holds at most 16 chunks: ``ContractError`` when ``max_splits`` is fewer than that takes.
    """
    if not (int is type(max_splits) is type(head_tiles)):
        max_splits, head_tiles = integers(max_splits=max_splits, head_tiles=head_tiles)
    return _planned(
        lookup.held_splits,
        lookup.decode_splits,
        num_tokens,
        num_heads,
        topk,
        extra_topk,
        num_sms,
        max_splits,
        head_tiles,
    )


def cake_sparse_mla_sm120_dsv4_nvfp4_select_kernel(
    *, num_tokens: int, num_heads: int, topk: int, extra_topk: int = 0, num_sms: int
) -> Kernel:
    """The faster kernel, "decode" or "prefill"; decode wherever prefill cannot run."""
    return _planned(lookup.held_kernel, lookup.select_kernel, num_tokens, num_heads, topk, extra_topk, num_sms)


def cake_sparse_mla_sm120_dsv4_nvfp4_plan_prefill(
    *, num_tokens: int, num_heads: int, topk: int, extra_topk: int = 0, num_sms: int
) -> int:
    """Tiles of 16 heads in one prefill block: 1, 2 or 4, as the head count has them.

    Answers for any number of chunks, as FlashInfer does, though prefill itself holds at most 16. ``ContractError`` for
    8 heads, which prefill does not have.
    """
    return _planned(
        lookup.held_prefill_tiles, lookup.prefill_head_tiles, num_tokens, num_heads, topk, extra_topk, num_sms
    )


def cake_sparse_mla_sm120_dsv4_nvfp4_supported_heads() -> tuple[int, ...]:
    """Head counts of the decode kernel, ascending."""
    return HEAD_COUNTS


def cake_sparse_mla_sm120_dsv4_nvfp4_format_info() -> dict[str, object]:
    """The fixed facts of the op: dims, bytes per cached token, widths in candidates and heads, head counts, tiles."""
    return {
        "query_dim": QUERY_DIM,
        "value_dim": QUERY_DIM,
        "bytes_per_token": BYTES_PER_TOKEN,
        "chunk_width": CHUNK,
        "heads_per_block": HEADS_PER_TILE,
        "max_chunks_per_block": MAX_CHUNKS_PER_BLOCK,
        "heads": HEAD_COUNTS,
        "two_tile_heads": DECODE_TWO_TILE_HEADS,
        "runtime_page": True,
        "runtime_extra_page": True,
        "prefill_heads": tuple(PREFILL_TILES),
        "prefill_head_tiles": dict(PREFILL_TILES),
        "prefill_max_chunks": MAX_CHUNKS_PER_BLOCK,
    }


def _planned(
    held: Callable[..., T | None],
    part: Callable[..., T],
    num_tokens: int,
    num_heads: int,
    topk: int,
    extra_topk: int,
    num_sms: int,
    *bounds: int,
) -> T:
    """One part of the plan that the table in force has for the shape.

    ``held`` reads it off an exception's plan and may say None; then, and where there is no exception, ``part`` answers,
    once.
    """
    if not (int is type(num_tokens) is type(num_heads) is type(topk) is type(extra_topk) is type(num_sms)):
        # Before any look-up, to which 512.0 and 512 are the same question.
        num_tokens, num_heads, topk, extra_topk, num_sms = integers(
            num_tokens=num_tokens, num_heads=num_heads, topk=topk, extra_topk=extra_topk, num_sms=num_sms
        )
    table, _ = table_for(None, num_sms)
    if num_sms == table.device.num_sms:
        ready = table.ready.find(num_tokens, num_heads, topk, extra_topk)
        settled = None if ready is None else held(ready.plan, *bounds)
        if settled is not None:
            return settled
    asked = (part, num_tokens, num_heads, topk, extra_topk, num_sms, bounds)
    known: T | None = table.answers.get(asked)
    if known is not None:
        return known
    question = ask(num_tokens, num_heads, topk, extra_topk, num_sms=num_sms)
    override, model = guide(table, question)
    return remember(table, asked, part(table.rules, override, question, *bounds, model=model))
