"""From a caller's overrides to a plan that can run: explicit values are checked and resolved, the rest is looked up."""

import torch

from cake_tune.errors import ContractError
from cake_tune.mla.call import Sizes
from cake_tune.mla.device import device_of
from cake_tune.planner.lookup import decide
from cake_tune.planner.registry import table_for
from cake_tune.planner.shape import (
    MAX_CHUNKS_PER_BLOCK,
    PREFILL_TILES,
    Plan,
    decode_tiles,
    num_chunks,
    prefill_tiles,
    resolve_splits,
)


def plan_decode(
    device: torch.device, sizes: Sizes, num_splits: int | None, max_splits: int, head_tiles: int | None
) -> Plan:
    """The decode plan for a valid shape; ``num_splits`` and ``head_tiles`` override what the table in force says.

    Raises ``ContractError`` for an override that cannot run and for a ``max_splits`` below what the shape needs.
    """
    num_tokens, num_heads, topk, extra_topk = sizes
    if head_tiles is not None:
        _check_tiles(head_tiles, decode_tiles(num_heads), num_heads)
    chunks = num_chunks(topk, extra_topk)
    if num_splits is not None:
        splits, cpb = _resolve(chunks, num_splits)
        if head_tiles is not None:
            return Plan("decode", head_tiles, splits, cpb)
    elif max_splits * MAX_CHUNKS_PER_BLOCK < chunks:
        raise ContractError(
            f"max_splits: expected at least ceil({chunks} chunks / {MAX_CHUNKS_PER_BLOCK}) = "
            f"{-(-chunks // MAX_CHUNKS_PER_BLOCK)} for topk {topk} + {extra_topk}, got {max_splits}"
        )
    here = device_of(device)
    table, _ = table_for(here)
    plan = decide(
        table,
        num_tokens=num_tokens,
        num_heads=num_heads,
        topk=topk,
        extra_topk=extra_topk,
        num_sms=here.num_sms,
        max_splits=max_splits if num_splits is None else chunks,
        head_tiles=head_tiles,
        kernel="decode",
    ).plan
    return plan if num_splits is None else Plan("decode", plan.head_tiles, splits, cpb)


def plan_prefill(device: torch.device, sizes: Sizes, head_tiles: int | None) -> Plan:
    """The prefill plan for a valid shape; raises ``ContractError`` where prefill cannot run it."""
    num_tokens, num_heads, topk, extra_topk = sizes
    if num_heads not in PREFILL_TILES:
        heads = ", ".join(map(str, PREFILL_TILES))
        raise ContractError(f"q: expected one of {heads} heads for prefill (axis 1), got {num_heads}")
    chunks = num_chunks(topk, extra_topk)
    if chunks > MAX_CHUNKS_PER_BLOCK:
        raise ContractError(
            f"indices: expected at most {MAX_CHUNKS_PER_BLOCK} chunks of 64 candidates for prefill, "
            f"got {chunks} (topk {topk} + {extra_topk})"
        )
    if head_tiles is not None:
        _check_tiles(head_tiles, prefill_tiles(num_heads, chunks), num_heads)
        return Plan("prefill", head_tiles, 1, chunks)
    here = device_of(device)
    table, _ = table_for(here)
    return decide(
        table,
        num_tokens=num_tokens,
        num_heads=num_heads,
        topk=topk,
        extra_topk=extra_topk,
        num_sms=here.num_sms,
        kernel="prefill",
    ).plan


def _resolve(chunks: int, num_splits: int) -> tuple[int, int]:
    if not isinstance(num_splits, int) or num_splits < 1:
        raise ContractError(f"num_splits: expected an integer >= 1, got {num_splits!r}")
    splits, cpb = resolve_splits(chunks, num_splits)
    if cpb > MAX_CHUNKS_PER_BLOCK:
        raise ContractError(
            f"num_splits: expected at most {MAX_CHUNKS_PER_BLOCK} chunks per block, "
            f"got {cpb} ({chunks} chunks over {num_splits} splits)"
        )
    return splits, cpb


def _check_tiles(head_tiles: int, available: tuple[int, ...], num_heads: int) -> None:
    if not isinstance(head_tiles, int) or head_tiles not in available:
        raise ContractError(
            f"head_tiles: expected one of {', '.join(map(str, available))} for {num_heads} heads, got {head_tiles!r}"
        )
