"""The public planners, with FlashInfer's names and keywords; they answer from the table in force.

Source of the interface: FlashInfer 0.7.2, ``flashinfer.mla``. All are pure functions of integers: ``num_tokens`` T,
``num_heads`` H, ``topk`` and ``extra_topk`` candidates per token in the main and the extra cache (0: none), and
``num_sms`` multiprocessors of the device (worker threads on a CPU). All raise ``ContractError``, a ``ValueError``,
naming the argument that is out of range, and ``TableError`` when the table given cannot be read or answer.
"""

from cake_tune.planner import lookup
from cake_tune.planner.lookup import Question, ask, find_override
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
    num_chunks,
    scratch_bytes,
)
from cake_tune.planner.table import Override, PlannerTable


def cake_sparse_mla_sm120_dsv4_nvfp4_num_chunks(topk: int, extra_topk: int = 0) -> int:
    """Chunks of 64 candidates of one token, the most splits a plan can have: each cache is padded by itself."""
    _check_topks(topk, extra_topk)
    return num_chunks(topk, extra_topk)


def cake_sparse_mla_sm120_dsv4_nvfp4_scratch_bytes(
    num_tokens: int, num_heads: int, topk: int, extra_topk: int = 0
) -> int:
    """Bytes of split scratch (``mid_out`` and ``mid_lse``) that cover every plan of the shape."""
    check_shape(num_tokens, num_heads, topk, extra_topk)
    return scratch_bytes(num_tokens, num_heads, topk, extra_topk)


def cake_sparse_mla_sm120_dsv4_nvfp4_plan_head_tiles(
    *, num_tokens: int, num_heads: int, topk: int, extra_topk: int = 0, num_sms: int
) -> int:
    """Tiles of 16 heads in one decode block: 1, or 2 for 32, 64, 96 and 128 heads."""
    question = ask(num_tokens, num_heads, topk, extra_topk, num_sms=num_sms)
    table, override = _found(question)
    return lookup.decode_head_tiles(table.rules, override, question)


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
    question = ask(num_tokens, num_heads, topk, extra_topk, num_sms=num_sms)
    table, override = _found(question)
    return lookup.decode_splits(table.rules, override, question, max_splits=max_splits, head_tiles=head_tiles)


def cake_sparse_mla_sm120_dsv4_nvfp4_select_kernel(
    *, num_tokens: int, num_heads: int, topk: int, extra_topk: int = 0, num_sms: int
) -> Kernel:
    """The faster kernel, "decode" or "prefill"; decode wherever prefill cannot run."""
    question = ask(num_tokens, num_heads, topk, extra_topk, num_sms=num_sms)
    table, override = _found(question)
    return lookup.select_kernel(table.rules, override, question)


def cake_sparse_mla_sm120_dsv4_nvfp4_plan_prefill(
    *, num_tokens: int, num_heads: int, topk: int, extra_topk: int = 0, num_sms: int
) -> int:
    """Tiles of 16 heads in one prefill block: 1, 2 or 4, as the head count has them.

    Answers for any number of chunks, as FlashInfer does, though prefill itself holds at most 16. ``ContractError`` for
    8 heads, which prefill does not have.
    """
    question = ask(num_tokens, num_heads, topk, extra_topk, num_sms=num_sms)
    table, override = _found(question)
    return lookup.prefill_head_tiles(table.rules, override, question)


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


def _found(question: Question) -> tuple[PlannerTable, Override | None]:
    table, _ = table_for(num_sms=question.num_sms)
    return table, find_override(table, question)


def _check_topks(topk: int, extra_topk: int) -> None:
    check_shape(0, HEAD_COUNTS[0], topk, extra_topk)
