"""The rule family: how a plan follows from integers, with every calibrated number held as data.

The shape of the rules is FlashInfer 0.7.2's; the numbers are those of a table. Where a rule is a list, its entries are
tried in order and the first that matches decides.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from cake_tune.errors import ContractError, TableError
from cake_tune.planner.shape import (
    DECODE_TWO_TILE_HEADS,
    HEADS_PER_TILE,
    MAX_CHUNKS_PER_BLOCK,
    PREFILL_TILES,
    Kernel,
    head_blocks,
    num_chunks,
    prefill_tiles,
    resolve_splits,
)

DEFAULT_MAX_SPLITS = 16
"""Most splits a plan takes unless the caller says otherwise, as in FlashInfer."""


@dataclass(frozen=True, slots=True)
class Share:
    """A count that scales with the device: ``num_sms * numerator // denominator``; ``"numerator/denominator"`` in JSON.

    Not reduced, so that ``Share(50, 132)`` reads as the 50 blocks of 132 multiprocessors at which it was fitted.
    """

    numerator: int
    denominator: int

    def __post_init__(self) -> None:
        if not (0 <= self.numerator < 10**9 and 1 <= self.denominator < 10**9):
            raise TableError(f"expected a share n/d with n >= 0 and d >= 1, of at most nine digits, got {self}")

    def of(self, num_sms: int) -> int:
        """The share of ``num_sms``, rounded down."""
        return num_sms * self.numerator // self.denominator

    def __str__(self) -> str:
        return f"{self.numerator}/{self.denominator}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TileBand:
    """Decode takes ``head_tiles`` inside this band of heads, chunks and blocks; all bounds are inclusive.

    Blocks are those of one-tile plans, ``num_tokens * (num_heads // 16)``. None leaves a side open.
    """

    min_heads: int = 0
    max_heads: int | None = None
    min_chunks: int = 0
    max_chunks: int | None = None
    min_blocks: Share | None = None
    max_blocks: Share | None = None
    head_tiles: int

    def __post_init__(self) -> None:
        _check_range("heads", self.min_heads, self.max_heads)
        _check_range("chunks", self.min_chunks, self.max_chunks)
        _check_one_of("head_tiles", self.head_tiles, (1, 2))

    def holds(self, num_heads: int, chunks: int, blocks: int, num_sms: int) -> bool:
        """Whether the band covers a shape on ``num_sms`` multiprocessors."""
        return (
            self.min_heads <= num_heads
            and (self.max_heads is None or num_heads <= self.max_heads)
            and self.min_chunks <= chunks
            and (self.max_chunks is None or chunks <= self.max_chunks)
            and (self.min_blocks is None or blocks >= self.min_blocks.of(num_sms))
            and (self.max_blocks is None or blocks <= self.max_blocks.of(num_sms))
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """Split a grid of at least ``min_blocks`` blocks when that fills its last wave.

    With ``num_splits`` splits the last wave holds ``num_splits * blocks mod num_sms`` blocks; the split is taken when
    it is full (the remainder is 0) or holds at least ``min_last_wave``.
    """

    min_chunks: int
    min_blocks: Share
    min_last_wave: Share
    num_splits: int

    def __post_init__(self) -> None:
        _check_count("min_chunks", self.min_chunks)
        if self.num_splits < 2:
            raise TableError(f"num_splits: expected an integer >= 2, got {self.num_splits}")

    def holds(self, chunks: int, blocks: int, num_sms: int) -> bool:
        """Whether a grid of ``blocks`` unsplit blocks is better split."""
        if chunks < self.min_chunks or blocks < self.min_blocks.of(num_sms):
            return False
        last_wave = self.num_splits * blocks % num_sms
        return last_wave == 0 or last_wave >= self.min_last_wave.of(num_sms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Splitting:
    """How far decode splits: through ``multiples`` of the fewest possible splits, while every bound holds.

    ``grid_cap`` bounds blocks * splits and ``stream_cap`` num_tokens * splits; ``min_cpb`` is the fewest chunks per
    block, ``min_cpb_alone`` the same when the unsplit grid is a single block. Up to ``whole_chunks`` chunks are
    never split. A grid that stays at the fewest splits may still be split by ``tail``.
    """

    grid_cap: Share
    stream_cap: Share
    min_cpb: int
    min_cpb_alone: int
    whole_chunks: int
    multiples: tuple[int, ...]
    tail: Tail | None = None

    def __post_init__(self) -> None:
        for name in ("min_cpb", "min_cpb_alone"):
            _check_one_of(name, getattr(self, name), range(1, MAX_CHUNKS_PER_BLOCK + 1))
        _check_count("whole_chunks", self.whole_chunks)
        # A block holds at most 16 chunks, so 16 times the fewest splits leaves one chunk per block.
        if list(self.multiples) != sorted(set(self.multiples) & set(range(2, MAX_CHUNKS_PER_BLOCK + 1))):
            raise TableError(f"multiples: expected ascending integers from 2 to 16, got {list(self.multiples)}")

    def splits(self, num_tokens: int, blocks: int, chunks: int, num_sms: int, max_splits: int) -> int:
        """Splits to ask for when the unsplit grid has ``blocks`` blocks of ``chunks`` chunks."""
        fewest = -(-chunks // MAX_CHUNKS_PER_BLOCK)
        if fewest > max_splits:
            raise ContractError(
                f"max_splits: {chunks} chunks need at least {fewest} splits "
                f"(at most {MAX_CHUNKS_PER_BLOCK} chunks per block), got {max_splits}"
            )
        if chunks <= self.whole_chunks or max_splits <= 1:
            return fewest
        grid_cap, stream_cap = self.grid_cap.of(num_sms), self.stream_cap.of(num_sms)
        min_cpb = self.min_cpb_alone if blocks == 1 else self.min_cpb
        taken = fewest
        for multiple in self.multiples:
            wanted = fewest * multiple
            if (
                wanted > max_splits
                or blocks * wanted > grid_cap
                or num_tokens * wanted > stream_cap
                or -(-chunks // wanted) < min_cpb
            ):
                break
            taken = wanted
        tail = self.tail
        if taken == fewest and tail and tail.num_splits <= max_splits and tail.holds(chunks, blocks, num_sms):
            return max(taken, tail.num_splits)
        return taken


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeLimit:
    """From ``min_heads`` heads and ``min_candidates`` candidates on, decode up to ``num_tokens`` (None: always)."""

    min_heads: int = 0
    min_candidates: int = 0
    num_tokens: int | None

    def __post_init__(self) -> None:
        for name in ("min_heads", "min_candidates", "num_tokens"):
            _check_count(name, getattr(self, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillBand:
    """Prefill takes ``head_tiles``, where it has them, up to ``max_tokens`` in this band; bounds are inclusive."""

    min_heads: int = 0
    max_heads: int | None = None
    min_candidates: int = 0
    max_candidates: int | None = None
    max_tokens: int | None = None
    head_tiles: int

    def __post_init__(self) -> None:
        _check_range("heads", self.min_heads, self.max_heads)
        _check_range("candidates", self.min_candidates, self.max_candidates)
        _check_count("max_tokens", self.max_tokens)
        _check_one_of("head_tiles", self.head_tiles, (1, 2, 4))

    def holds(self, num_tokens: int, num_heads: int, candidates: int) -> bool:
        """Whether the band covers a shape."""
        return (
            self.min_heads <= num_heads
            and (self.max_heads is None or num_heads <= self.max_heads)
            and self.min_candidates <= candidates
            and (self.max_candidates is None or candidates <= self.max_candidates)
            and (self.max_tokens is None or num_tokens <= self.max_tokens)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The constants of one table and the decisions they give.

    ``tile_bands``: decode head tiles, 1 where no band matches. ``splitting``: decode splits. ``decode_max_tokens``:
    the crossover; prefill where no class matches. ``prefill_bands``: prefill head tiles, the most the head count has
    where no band matches.
    """

    tile_bands: tuple[TileBand, ...]
    splitting: Splitting
    decode_max_tokens: tuple[DecodeLimit, ...]
    prefill_bands: tuple[PrefillBand, ...]

    def head_tiles(self, num_tokens: int, num_heads: int, chunks: int, num_sms: int) -> int:
        """Head tiles of decode: 1 or 2, and 1 for head counts without a two-tile instance."""
        if num_heads not in DECODE_TWO_TILE_HEADS:
            return 1
        blocks = num_tokens * (num_heads // HEADS_PER_TILE)
        for band in self.tile_bands:
            if band.holds(num_heads, chunks, blocks, num_sms):
                return band.head_tiles
        return 1

    def splits(
        self, num_tokens: int, num_heads: int, chunks: int, num_sms: int, *, max_splits: int, head_tiles: int
    ) -> tuple[int, int]:
        """The resolved (num_splits, chunks_per_block) of decode; ``ContractError`` when ``max_splits`` is too few."""
        blocks = num_tokens * head_blocks(num_heads, head_tiles)
        return resolve_splits(chunks, self.splitting.splits(num_tokens, blocks, chunks, num_sms, max_splits))

    def kernel(self, num_tokens: int, num_heads: int, topk: int, extra_topk: int) -> Kernel:
        """The faster kernel; decode wherever prefill cannot run."""
        if not prefill_tiles(num_heads, num_chunks(topk, extra_topk)):
            return "decode"
        candidates = topk + extra_topk
        for limit in self.decode_max_tokens:
            if num_heads >= limit.min_heads and candidates >= limit.min_candidates:
                return "decode" if limit.num_tokens is None or num_tokens <= limit.num_tokens else "prefill"
        return "prefill"

    def prefill_tiles(self, num_tokens: int, num_heads: int, topk: int, extra_topk: int) -> int:
        """Head tiles of prefill, also for more chunks than prefill can hold; ``ContractError`` for heads it lacks."""
        available = PREFILL_TILES.get(num_heads)
        if available is None:
            listed = ", ".join(map(str, PREFILL_TILES))
            raise ContractError(f"num_heads: expected one of {listed} for prefill, got {num_heads}")
        for band in self.prefill_bands:
            if band.head_tiles in available and band.holds(num_tokens, num_heads, topk + extra_topk):
                return band.head_tiles
        return available[-1]


def _check_range(name: str, least: int, most: int | None) -> None:
    if least < 0 or (most is not None and most < least):
        raise TableError(f"min_{name}, max_{name}: expected 0 <= min <= max, got {least} and {most}")


def _check_count(name: str, value: int | None) -> None:
    if value is not None and value < 0:
        raise TableError(f"{name}: expected an integer >= 0, got {value}")


def _check_one_of(name: str, value: int, allowed: Iterable[int]) -> None:
    if value not in allowed:
        raise TableError(f"{name}: expected one of {', '.join(map(str, allowed))}, got {value}")
