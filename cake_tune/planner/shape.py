"""The words of the planner: shapes, plans, devices, and the integer facts that tie them together.

Pure integers and dataclasses: this module imports nothing outside the standard library.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from operator import index
from typing import Literal, SupportsIndex, get_args

from cake_tune.errors import ContractError

QUERY_DIM = 512
"""Dims of a query, of a cached latent (key and value alike) and of an output: 448 without RoPE, then 64 with."""

BYTES_PER_TOKEN = 384
"""Bytes of one token in the NVFP4 cache."""

CHUNK = 64
"""Candidates per chunk: the unit in which a token's selected slots are padded, split and processed."""

MAX_CHUNKS_PER_BLOCK = 16
"""Most chunks that one block (CTA) can hold."""

HEADS_PER_TILE = 16
"""Heads of one head tile: the M of the matrix instruction."""

HEAD_COUNTS = (8, 16, 32, 48, 64, 80, 96, 112, 128)
"""Head counts of the decode kernel."""

DECODE_TWO_TILE_HEADS = (32, 64, 96, 128)
"""Head counts for which decode has an instance with two head tiles."""

PREFILL_TILES = {16: (1,), 32: (1, 2), 48: (1,), 64: (1, 2, 4), 80: (1,), 96: (1, 2), 112: (1,), 128: (1, 2, 4)}
"""Head tiles of the prefill instances, by head count."""

Kernel = Literal["decode", "prefill"]

KERNELS: tuple[Kernel, ...] = get_args(Kernel)


def other_kernel(kernel: Kernel) -> Kernel:
    """The one of the two kernels that ``kernel`` is not."""
    return "prefill" if kernel == "decode" else "decode"


RIVAL = "rival"
"""The option that names another kernel than those of this family; see ``rival_of``."""


@dataclass(frozen=True, slots=True, order=True)
class Shape:
    """What the caller asks for.

    ``num_tokens`` queries of ``num_heads`` heads, each over ``topk`` candidates of the main cache and ``extra_topk``
    of the extra one (0: single cache). ``page_size`` and ``extra_page_size`` count tokens per page; ``lengths`` and
    ``sink`` say whether per-token valid lengths and an attention sink are passed. The planners decide from the first
    four alone.
    """

    num_tokens: int
    num_heads: int
    topk: int
    extra_topk: int = 0
    page_size: int = 64
    extra_page_size: int = 64
    lengths: bool = False
    sink: bool = False

    @property
    def chunks(self) -> int:
        """Chunks of one token: main and extra tails are padded separately."""
        return num_chunks(self.topk, self.extra_topk)


@dataclass(frozen=True, slots=True, order=True)
class Plan:
    """How a shape runs: kernel, head tiles, splits, chunks per block, and build options as sorted (name, value) pairs.

    A prefill plan has ``num_splits == 1`` and holds all chunks in one block.
    """

    kernel: Kernel
    head_tiles: int
    num_splits: int
    chunks_per_block: int
    options: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        splits = "" if self.kernel == "prefill" else f"/s{self.num_splits}x{self.chunks_per_block}"
        options = "".join(f"/{name}={value}" for name, value in self.options)
        return f"{self.kernel}/t{self.head_tiles}{splits}{options}"


@dataclass(frozen=True, slots=True)
class Device:
    """What a table belongs to: ``name`` as the driver gives it, ``arch`` ("sm_120a", "sm_90a", "cpu", "simulated"),
    ``num_sms`` (multiprocessors, or worker threads on a CPU) and ``l2_bytes`` (last-level cache).
    """

    name: str
    arch: str
    num_sms: int
    l2_bytes: int = 0

    @property
    def is_gpu(self) -> bool:
        """True for a real GPU: only its own tables may answer for it."""
        return self.arch.startswith("sm_")


def num_chunks(topk: int, extra_topk: int = 0) -> int:
    """Chunks of one token's main and extra candidates: ``ceil(topk/64) + ceil(extra_topk/64)``."""
    return -(-topk // CHUNK) + -(-extra_topk // CHUNK)


def scratch_bytes(num_tokens: int, num_heads: int, topk: int, extra_topk: int = 0) -> int:
    """Upper bound in bytes of the split scratch for a shape: BF16 and LSE partials for every chunk, LSEs, alignment."""
    rows = num_tokens * num_heads
    return rows * num_chunks(topk, extra_topk) * 1028 + rows * 4 + 48


def resolve_splits(chunks: int, num_splits: int) -> tuple[int, int]:
    """The (num_splits, chunks_per_block) that an explicit ``num_splits`` resolves to; different requests can alias."""
    chunks_per_block = -(-chunks // num_splits)
    return -(-chunks // chunks_per_block), chunks_per_block


def distinct_splits(chunks: int) -> list[tuple[int, int]]:
    """Every distinct (num_splits, chunks_per_block) of ``chunks``, fewest splits first, at most 16 chunks a block."""
    widest = min(chunks, MAX_CHUNKS_PER_BLOCK)
    return sorted({resolve_splits(chunks, -(-chunks // cpb)) for cpb in range(1, widest + 1)})


def decode_tiles(num_heads: int) -> tuple[int, ...]:
    """Head tiles that decode has for ``num_heads``: (1,) or (1, 2)."""
    return (1, 2) if num_heads in DECODE_TWO_TILE_HEADS else (1,)


def prefill_tiles(num_heads: int, chunks: int) -> tuple[int, ...]:
    """Head tiles that prefill has for ``num_heads`` and ``chunks``; empty where prefill cannot run."""
    return PREFILL_TILES.get(num_heads, ()) if chunks <= MAX_CHUNKS_PER_BLOCK else ()


def head_blocks(num_heads: int, head_tiles: int) -> int:
    """Blocks over the heads of one token: ``ceil(num_heads / (16 * head_tiles))``."""
    return -(-num_heads // (HEADS_PER_TILE * head_tiles))


def every_plan(shape: Shape) -> Iterator[Plan]:
    """Every distinct plan that can run ``shape``: decode by head tiles and splits, then prefill by head tiles."""
    check_shape(shape.num_tokens, shape.num_heads, shape.topk, shape.extra_topk)
    for tiles in decode_tiles(shape.num_heads):
        for splits, cpb in distinct_splits(shape.chunks):
            yield Plan("decode", tiles, splits, cpb)
    for tiles in prefill_tiles(shape.num_heads, shape.chunks):
        yield Plan("prefill", tiles, 1, shape.chunks)


def rival_plan(shape: Shape, name: str) -> Plan:
    """The plan that stands for a rival on ``shape``: the simplest decode plan, with the rival's name as an option."""
    splits, chunks_per_block = distinct_splits(shape.chunks)[0]
    return Plan("decode", 1, splits, chunks_per_block, ((RIVAL, name),))


def rival_of(plan: Plan) -> str | None:
    """The name of the rival that ``plan`` stands for, or None for a plan of this family.

    A rival is a kernel that does the same work and decides by itself how: it is measured beside the plans, its other
    parts mean nothing, and no table may hold it.
    """
    return dict(plan.options).get(RIVAL)


def simplest(plans: Iterable[Plan]) -> Plan:
    """Which of equally fast plans of one shape to take: fewest splits, least scratch, fewest options, plain order.

    The scratch of a shape grows with the splits and with nothing else, so that fewest splits means least scratch.
    """
    return min(plans, key=lambda plan: (plan.num_splits, len(plan.options), plan))


def integers(**values: object) -> list[int]:
    """The values as ints, in order; ``ContractError`` names the first that is no integer (a bool is none)."""
    read = []
    for name, value in values.items():
        if not isinstance(value, SupportsIndex) or isinstance(value, bool):
            raise ContractError(f"{name}: expected an integer, got {value!r}")
        try:
            read.append(index(value))
        except TypeError:  # an array of several values, say
            raise ContractError(f"{name}: expected an integer, got {value!r}") from None
    return read


def check_shape(num_tokens: int, num_heads: int, topk: int, extra_topk: int = 0) -> None:
    """Raise ``ContractError`` naming the first of the four that is no integer, or out of range."""
    if not (int is type(num_tokens) is type(num_heads) is type(topk) is type(extra_topk)):
        integers(num_tokens=num_tokens, num_heads=num_heads, topk=topk, extra_topk=extra_topk)
    if num_tokens < 0:
        raise ContractError(f"num_tokens: expected an integer >= 0, got {num_tokens}")
    if num_heads not in HEAD_COUNTS:
        raise ContractError(f"num_heads: expected one of {', '.join(map(str, HEAD_COUNTS))}, got {num_heads}")
    if topk < 1:
        raise ContractError(f"topk: expected an integer >= 1, got {topk}")
    if extra_topk < 0:
        raise ContractError(f"extra_topk: expected an integer >= 0, got {extra_topk}")


def check_plan(plan: Plan, num_heads: int, chunks: int) -> None:
    """Raise ``ContractError`` unless ``plan`` is resolved and can run ``num_heads`` heads over ``chunks`` chunks.

    A rival is no plan of the family, so it is refused too.
    """
    if plan.options and rival_of(plan) is not None:
        raise ContractError(f"options: expected a plan of the family, got the rival {plan}")
    tiles = decode_tiles(num_heads) if plan.kernel == "decode" else prefill_tiles(num_heads, chunks)
    if plan.head_tiles not in tiles:
        listed = ", ".join(map(str, tiles)) or "none"
        raise ContractError(
            f"head_tiles: {plan.kernel} of {num_heads} heads and {chunks} chunks has {listed}, got {plan.head_tiles}"
        )
    if plan.num_splits < 1:
        raise ContractError(f"num_splits: expected an integer >= 1, got {plan.num_splits}")
    splits, cpb = resolve_splits(chunks, plan.num_splits) if plan.kernel == "decode" else (1, chunks)
    if (plan.num_splits, plan.chunks_per_block) != (splits, cpb):
        raise ContractError(
            f"num_splits, chunks_per_block: {chunks} chunks resolve to {splits}, {cpb}, "
            f"got {plan.num_splits}, {plan.chunks_per_block}"
        )
    if cpb > MAX_CHUNKS_PER_BLOCK:
        raise ContractError(f"chunks_per_block: expected at most {MAX_CHUNKS_PER_BLOCK}, got {cpb}")
