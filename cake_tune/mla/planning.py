"""From a caller's overrides to a plan that can run: explicit values are checked and resolved, the rest is looked up."""

from functools import lru_cache

import torch

from cake_tune.errors import ContractError
from cake_tune.mla.call import Sizes
from cake_tune.mla.device import device_of
from cake_tune.mla.scalars import as_integer, check_integer
from cake_tune.planner.backend import Backend
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
    device: torch.device,
    sizes: Sizes,
    num_splits: int | None,
    max_splits: int,
    head_tiles: int | None,
    backend: Backend = "cake_tune",
) -> Plan:
    """The decode plan for a valid shape; ``num_splits`` and ``head_tiles`` override what the table in force says.

    The table is that of the kernels of ``backend``.

    Raises ``ContractError`` for an override that cannot run, and for a ``max_splits`` below what the shape needs, also
    where ``num_splits`` leaves it nothing to bound.
    """
    num_tokens, num_heads, topk, extra_topk = sizes
    chunks = num_chunks(topk, extra_topk)
    if head_tiles is not None:
        head_tiles = _check_tiles(head_tiles, decode_tiles(num_heads), num_heads)
    if num_splits is not None:
        splits, cpb = _resolve(chunks, num_splits)
    if type(max_splits) is not int or max_splits < 1:
        max_splits = check_integer("max_splits", max_splits)
    if max_splits * MAX_CHUNKS_PER_BLOCK < chunks:
        raise ContractError(
            f"max_splits: expected at least ceil({chunks} chunks / {MAX_CHUNKS_PER_BLOCK}) = "
            f"{-(-chunks // MAX_CHUNKS_PER_BLOCK)} for topk {topk} + {extra_topk}, got {max_splits}"
        )
    if num_splits is not None and head_tiles is not None:
        return _decode_plan(head_tiles, splits, cpb)
    here = device_of(device)
    table, _ = table_for(here, backend=backend)
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
    return plan if num_splits is None else _decode_plan(plan.head_tiles, splits, cpb)


def plan_prefill(device: torch.device, sizes: Sizes, head_tiles: int | None, backend: Backend = "cake_tune") -> Plan:
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
        return Plan("prefill", _check_tiles(head_tiles, prefill_tiles(num_heads, chunks), num_heads), 1, chunks)
    here = device_of(device)
    table, _ = table_for(here, backend=backend)
    return decide(
        table,
        num_tokens=num_tokens,
        num_heads=num_heads,
        topk=topk,
        extra_topk=extra_topk,
        num_sms=here.num_sms,
        kernel="prefill",
    ).plan


@lru_cache(maxsize=1024)
def _decode_plan(head_tiles: int, num_splits: int, chunks_per_block: int) -> Plan:
    """Kept, as making one takes as long as finding one in a table."""
    return Plan("decode", head_tiles, num_splits, chunks_per_block)


def _resolve(chunks: int, num_splits: int) -> tuple[int, int]:
    splits, cpb = resolve_splits(chunks, check_integer("num_splits", num_splits))
    if cpb > MAX_CHUNKS_PER_BLOCK:
        raise ContractError(
            f"num_splits: expected at most {MAX_CHUNKS_PER_BLOCK} chunks per block, "
            f"got {cpb} ({chunks} chunks over {num_splits} splits)"
        )
    return splits, cpb


def _check_tiles(head_tiles: int, available: tuple[int, ...], num_heads: int) -> int:
    tiles = as_integer(head_tiles)
    if tiles is None or tiles not in available:
        listed = ("one of " if len(available) > 1 else "") + ", ".join(map(str, available))
        raise ContractError(f"head_tiles: expected {listed} for {num_heads} heads, got {head_tiles!r}")
    return tiles
