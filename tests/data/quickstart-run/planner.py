"""Planner of the Cake SM120 NVFP4 sparse-MLA kernels, fitted to measurements.

Which kernel runs a shape, and with how many head tiles and splits, as pure functions of
integers. Thresholds that follow the grid are shares of num_sms.

Evidence:
    device       AMD EPYC (cpu, 2 workers, L2 32 MiB)
    kernel       cake_sparse_mla_sm120_dsv4_nvfp4, identity 1cf6414042d4c46b, compiler
                 torch 2.13.0+cpu
    measured     cake-tune sweep on backend cpu, sweep cpu-quickstart, 2026-11-29
    timer        paired-race/1, warm; times within 2.00 % of each other are ties
    shapes       24: 6 (num_heads, topk, extra_topk) at 1 to 16 tokens
    top-ks       crossover calibrated at 512, 1024
    regret       mean 0.07 %, p95 0.00 %, worst 1.59 % over 24 shapes
    held out     mean 1.04 %, p95 7.69 %, worst 10.85 % over 24 shapes
    elsewhere    other num_heads and topk: rules, mean regret 1.04% on held-out ones
                 (rules + exceptions 2.03%, cost model 3.47%); other num_tokens of
                 measured ones: cost model, mean regret 1.54% on held-out ones (rules
                 3.21%, rules + exceptions 3.21%)
    exceptions   2 intervals of num_tokens, for num_sms 2 only
    note         measured on cpu, not on a GPU: it never answers for one
    tool         cake-tune 0.1.0
"""

from functools import lru_cache
from math import inf
from typing import NamedTuple

CHUNK = 64  # candidates that one step of a CTA covers
MAX_CHUNKS_PER_CTA = 16
HEADS_PER_TILE = 16
HEAD_COUNTS = (8, 16, 32, 48, 64, 80, 96, 112, 128)
TWO_TILE_HEADS = (32, 64, 96, 128)
PREFILL_TILES = {
    16: (1,),
    32: (1, 2),
    48: (1,),
    64: (1, 2, 4),
    80: (1,),
    96: (1, 2),
    112: (1,),
    128: (1, 2, 4),
}

MEASURED_SMS = 2

# The num_tokens measured of each (num_heads, topk, extra_topk).
# fmt: off
_TOKENS = (1, 2, 4, 8, 16)
_MEASURED: dict[tuple[int, int, int], tuple[int, ...]] = {
    (heads, topk, extra_topk): _TOKENS
    for heads in (16, 32, 64)
    for topk, extra_topk in ((512, 0), (1024, 0))
}
_MEASURED |= {
    (32, 512, 0): _TOKENS[:4],
    (32, 1024, 0): _TOKENS[:4],
    (64, 512, 0): _TOKENS[:3],
    (64, 1024, 0): _TOKENS[:3],
}
# fmt: on


class _Plan(NamedTuple):
    kernel: str
    head_tiles: int
    num_splits: int
    chunks_per_block: int


# The measured plan from a first to a last num_tokens, by (num_heads, topk, extra_topk),
# where the rules lose; the comment says how much.
_EXCEPTIONS = {
    (16, 512, 0): ((1, 1, _Plan("decode", 1, 1, 8)),),  # 8.3 %
    (64, 1024, 0): ((1, 1, _Plan("prefill", 2, 1, 16)),),  # 4.2 %
}


class _Cost(NamedTuple):
    """A CTA: how many share an SM, its times, and what each further one there costs."""

    heads_per_cta: int
    ctas_per_sm: int
    cta_us: float
    chunk_us: float
    crowding: float


_COSTS = {
    ("decode", 1): _Cost(16, 1, 202.0, 23.06, 0.5),
    ("decode", 2): _Cost(32, 1, 202.9, 47.78, 0.5),
    ("prefill", 1): _Cost(16, 1, 164.3, 24.26, 0.5),
    ("prefill", 2): _Cost(32, 1, 150.0, 51.4, 0.5),
    ("prefill", 4): _Cost(64, 2, 6.87, 119.2, 0.7907),
}
LAUNCH_US = 131.0  # every call
GATHER_US = 16.65  # a chunk's share of the memory, per running CTA
REREAD = 0.995  # the share of that for further head blocks
MERGE_US = 75.12  # every call that splits
MERGE_BATCH = 1  # splits that the merge reads in one step
MERGE_STEP_US = 9.469  # per step begun
MERGE_ROW_US = 0.00742  # per split, token and head
WAVE_SHARE = 0.3769  # of the time that rounds up to whole waves
SHARPNESS = 1.086  # of the change from compute- to memory-bound


def cake_sparse_mla_sm120_dsv4_nvfp4_select_kernel(
    *, num_tokens: int, num_heads: int, topk: int, extra_topk: int = 0, num_sms: int
) -> str:
    """Return "decode" or "prefill", whichever is faster; decode where prefill cannot run."""
    _check(num_tokens, num_heads, topk, extra_topk, num_sms)
    measured = _exception(num_tokens, num_heads, topk, extra_topk, num_sms)
    if measured is not None:
        return measured.kernel
    chunks = _num_chunks(topk, extra_topk)
    if _modelled(num_tokens, num_heads, topk, extra_topk, num_sms):
        cheapest = _cheapest(num_tokens, num_heads, chunks, num_sms)
        if cheapest is not None:
            return cheapest.kernel
    if num_heads not in PREFILL_TILES or chunks > MAX_CHUNKS_PER_CTA:
        return "decode"
    candidates = topk + extra_topk
    if num_heads >= 64 and candidates >= 512:
        return "decode" if num_tokens <= 1 else "prefill"
    if num_heads >= 64:
        return "decode" if num_tokens <= 16 else "prefill"
    if candidates >= 512:
        return "decode" if num_tokens <= 1 else "prefill"
    return "prefill"


def cake_sparse_mla_sm120_dsv4_nvfp4_plan_head_tiles(
    *, num_tokens: int, num_heads: int, topk: int, extra_topk: int = 0, num_sms: int
) -> int:
    """Return the 16-head tiles of a decode CTA: 1, or 2 where the head count has them."""
    _check(num_tokens, num_heads, topk, extra_topk, num_sms)
    measured = _exception(num_tokens, num_heads, topk, extra_topk, num_sms)
    if measured is not None and measured.kernel == "decode":
        return measured.head_tiles
    chunks = _num_chunks(topk, extra_topk)
    if _modelled(num_tokens, num_heads, topk, extra_topk, num_sms):
        cheapest = _cheapest(num_tokens, num_heads, chunks, num_sms, "decode")
        if cheapest is not None:
            return cheapest.head_tiles
    if num_heads not in TWO_TILE_HEADS:
        return 1
    ctas = num_tokens * (num_heads // HEADS_PER_TILE)  # of the one-tile, unsplit grid
    if num_heads >= 64 and chunks <= 2 and num_sms <= ctas <= 2 * num_sms:
        return 2
    if num_heads >= 64 and chunks <= 2 and num_sms <= ctas <= 8 * num_sms:
        return 1
    if ctas >= num_sms:
        return 2
    if num_heads == 32 and ctas >= num_sms * 2 // 3:
        return 2
    if num_heads == 32 and chunks >= 8 and ctas >= num_sms // 3:
        return 2
    if num_heads == 64 and chunks >= 8 and num_sms // 3 <= ctas <= num_sms * 2 // 3:
        return 2
    if num_heads >= 96 and chunks >= 16 and ctas >= num_sms // 3:
        return 2
    return 1


def cake_sparse_mla_sm120_dsv4_nvfp4_plan_splits(
    *,
    num_tokens: int,
    num_heads: int,
    topk: int,
    extra_topk: int = 0,
    num_sms: int,
    max_splits: int = 16,
    head_tiles: int = 1,
) -> tuple[int, int]:
    """Return (num_splits, chunks_per_block) of decode with ``head_tiles`` tiles."""
    _check(num_tokens, num_heads, topk, extra_topk, num_sms)
    if head_tiles != 1 and not (head_tiles == 2 and num_heads in TWO_TILE_HEADS):
        raise ValueError(f"head_tiles: {num_heads} heads do not have {head_tiles}")
    measured = _exception(num_tokens, num_heads, topk, extra_topk, num_sms)
    if (
        measured is not None
        and (measured.kernel, measured.head_tiles) == ("decode", head_tiles)
        and measured.num_splits <= max_splits
    ):
        return measured.num_splits, measured.chunks_per_block
    chunks = _num_chunks(topk, extra_topk)
    if _modelled(num_tokens, num_heads, topk, extra_topk, num_sms):
        cheapest = _cheapest(
            num_tokens, num_heads, chunks, num_sms, "decode", head_tiles, max_splits
        )
        if cheapest is not None:
            return cheapest.num_splits, cheapest.chunks_per_block
    fewest = -(-chunks // MAX_CHUNKS_PER_CTA)
    if fewest > max_splits:
        raise ValueError(
            f"max_splits: {chunks} chunks need at least {fewest}, got {max_splits}"
        )
    splits = fewest
    if max_splits > 1 and chunks > 2:
        ctas = num_tokens * -(-num_heads // (HEADS_PER_TILE * head_tiles))
        grid_cap = num_sms
        for multiple in (2, 4, 8, 16):
            wanted = fewest * multiple
            if (
                wanted > max_splits
                or ctas * wanted > grid_cap
                or -(-chunks // wanted) < 2
            ):
                break
            splits = wanted
    chunks_per_block = -(-chunks // splits)
    return -(-chunks // chunks_per_block), chunks_per_block


def cake_sparse_mla_sm120_dsv4_nvfp4_plan_prefill(
    *, num_tokens: int, num_heads: int, topk: int, extra_topk: int = 0, num_sms: int
) -> int:
    """Return the 16-head tiles of a prefill CTA: 1, 2 or 4, as the head count has them."""
    _check(num_tokens, num_heads, topk, extra_topk, num_sms)
    measured = _exception(num_tokens, num_heads, topk, extra_topk, num_sms)
    if measured is not None and measured.kernel == "prefill":
        return measured.head_tiles
    if _modelled(num_tokens, num_heads, topk, extra_topk, num_sms):
        chunks = _num_chunks(topk, extra_topk)
        cheapest = _cheapest(num_tokens, num_heads, chunks, num_sms, "prefill")
        if cheapest is not None:
            return cheapest.head_tiles
    tiles = PREFILL_TILES.get(num_heads)
    if tiles is None:
        raise ValueError(f"num_heads: prefill has {[*PREFILL_TILES]}, got {num_heads}")
    if 2 in tiles and num_tokens <= 1:
        return 2
    return tiles[-1]


def _exception(
    num_tokens: int, num_heads: int, topk: int, extra_topk: int, num_sms: int
) -> _Plan | None:
    if num_sms != MEASURED_SMS:
        return None
    group = (num_heads, topk, extra_topk)
    if num_tokens not in _MEASURED.get(group, ()):
        return None
    for first, last, plan in _EXCEPTIONS.get(group, ()):
        if first <= num_tokens <= last:
            return plan
    return None


def _modelled(
    num_tokens: int, num_heads: int, topk: int, extra_topk: int, num_sms: int
) -> bool:
    """Whether the cost model decides: for shapes that were not measured."""
    tokens = _MEASURED.get((num_heads, topk, extra_topk))
    unmeasured = tokens is not None and num_tokens not in tokens
    return unmeasured and num_sms == MEASURED_SMS


@lru_cache(maxsize=4096)
def _cheapest(
    num_tokens: int,
    num_heads: int,
    chunks: int,
    num_sms: int,
    kernel: str | None = None,
    head_tiles: int | None = None,
    max_splits: int = 16,
) -> _Plan | None:
    """The plan that takes least by the cost model, the simplest of equals."""
    best, least = None, inf
    for plan in _plans(num_heads, chunks):
        if (
            kernel in (None, plan.kernel)
            and head_tiles in (None, plan.head_tiles)
            and plan.num_splits <= max_splits
        ):
            us = _us(max(num_tokens, 1), num_heads, chunks, plan, num_sms)
            if us < least:
                best, least = plan, us
    return best


def _plans(num_heads: int, chunks: int) -> list[_Plan]:
    """Every plan of a shape, fewest splits first."""
    plans = []
    if chunks <= MAX_CHUNKS_PER_CTA:
        for tiles in PREFILL_TILES.get(num_heads, ()):
            plans.append(_Plan("prefill", tiles, 1, chunks))
    widest = min(chunks, MAX_CHUNKS_PER_CTA)
    for splits in sorted({-(-chunks // held) for held in range(1, widest + 1)}):
        for tiles in (1, 2) if num_heads in TWO_TILE_HEADS else (1,):
            plans.append(_Plan("decode", tiles, splits, -(-chunks // splits)))
    return plans


def _us(
    num_tokens: int, num_heads: int, chunks: int, plan: _Plan, num_sms: int
) -> float:
    """Microseconds of a plan: CTAs that queue for the SMs and share the memory, a merge."""
    cost = _COSTS.get((plan.kernel, plan.head_tiles))
    if cost is None:
        return inf
    splits, most = plan.num_splits, plan.chunks_per_block
    head_blocks = -(-num_heads // cost.heads_per_cta)
    rows = num_tokens * head_blocks
    gather = GATHER_US * (1 + (head_blocks - 1) * REREAD) / head_blocks
    us, parts = LAUNCH_US, splits
    us += _row_by_row(cost, gather, rows, splits, chunks, most, num_sms)
    if parts > 1:
        steps = -(-parts // MERGE_BATCH)
        written = MERGE_ROW_US * num_tokens * num_heads * parts
        us += MERGE_US + MERGE_STEP_US * steps + written
    return us


def _row_by_row(
    cost: _Cost,
    gather: float,
    rows: int,
    splits: int,
    chunks: int,
    most: int,
    num_sms: int,
) -> float:
    """When the last CTA ends: whole waves for a share of the time, a flow for the rest."""
    places, ctas = num_sms * cost.ctas_per_sm, rows * splits
    waves, last = divmod(ctas - 1, places)
    end = cost.cta_us + most * _chunk_us(cost, gather, last + 1, num_sms)
    if not waves:
        return end
    each = _chunk_us(cost, gather, places, num_sms)
    mean, saved = cost.cta_us + each * chunks / splits, each * (splits * most - chunks)
    # The first places to be free are those of the shorter CTAs.
    begin = waves * mean + saved * (1 / splits - ((last + 1) * splits <= places))
    return WAVE_SHARE * begin + (1 - WAVE_SHARE) * mean * (ctas / places - 1) + end


def _chunk_us(cost: _Cost, gather: float, active: int, num_sms: int) -> float:
    """A chunk of one of ``active`` CTAs: computing, or its share of the memory."""
    computing = cost.chunk_us * (1 + cost.crowding * ((active - 1) // num_sms))
    larger, smaller = max(computing, gather * active), min(computing, gather * active)
    if larger <= 0:
        return 0.0
    norm: float = larger * (1 + (smaller / larger) ** SHARPNESS) ** (1 / SHARPNESS)
    return norm


def _num_chunks(topk: int, extra_topk: int) -> int:
    return -(-topk // CHUNK) + -(-extra_topk // CHUNK)


def _check(
    num_tokens: int, num_heads: int, topk: int, extra_topk: int, num_sms: int
) -> None:
    if num_heads not in HEAD_COUNTS:
        raise ValueError(f"num_heads: expected one of {HEAD_COUNTS}, got {num_heads}")
    bounds = {
        "num_tokens": (num_tokens, 0),
        "topk": (topk, 1),
        "extra_topk": (extra_topk, 0),
        "num_sms": (num_sms, 1),
    }
    for name, (value, least) in bounds.items():
        if value < least:
            raise ValueError(f"{name}: expected at least {least}, got {value}")
