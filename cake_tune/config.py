"""Which sparse-MLA decode shapes are supported, family by family, with the top-ks whose crossover was calibrated.

Source of the interface: FlashInfer 0.7.2, ``flashinfer.mla.SparseMLASm120DecodeConfig``. The calibrated top-ks of the
NVFP4 family come from the planner table in force: the one given, else the own one of the device that ``use_device``
was told, else the shipped RTX PRO 6000's. Those of the FP8 families are FlashInfer's published ones. Loads no torch and
looks for no device by itself.
"""

import json
from dataclasses import dataclass

from cake_tune.errors import UsageError
from cake_tune.planner.registry import SHIPPED, table_for
from cake_tune.planner.shape import BYTES_PER_TOKEN, HEAD_COUNTS, QUERY_DIM

KV_CACHE_FORMATS = ("fp8", "nvfp4")


@dataclass(frozen=True)
class SparseMLASm120DecodeConfig:
    """The decode shapes of one kernel family.

    ``d_qk``: query and key dims. ``page_block_size``: tokens per page. ``max_num_tokens``: most query tokens routed to
    decode. ``topks``: the calibrated top-ks, the points of the crossover sweep. ``min_topk``: fewest candidates.
    ``head_counts``: the head counts served, None for every one up to ``max_num_heads``. ``topk_is_runtime``: any top-k
    from ``min_topk`` on is served, else only ``topks``. ``extra_page_block_sizes``: page sizes of a second cache, where
    they are restricted.
    """

    d_qk: int
    page_block_size: int
    max_num_tokens: int
    topks: frozenset[int]
    min_topk: int
    max_num_heads: int
    kv_cache_format: str = "fp8"
    bytes_per_token: int = 0
    head_counts: frozenset[int] | None = None
    topk_is_runtime: bool = True
    extra_page_block_sizes: frozenset[int] = frozenset()

    def supported_num_heads(self) -> tuple[int, ...]:
        """The head counts served, ascending."""
        if self.head_counts is None:
            return tuple(range(1, self.max_num_heads + 1))
        return tuple(sorted(self.head_counts))

    def supported_topk(self, num_heads: int | None = None) -> tuple[int, ...]:
        """The calibrated top-ks, ascending; empty for a head count that is not served."""
        if num_heads is not None and not self._serves_heads(num_heads):
            return ()
        return tuple(sorted(self.topks))

    def supports_decode(
        self, num_heads: int, topk: int, *, num_tokens: int = 1, page_block_size: int | None = None
    ) -> bool:
        """Whether decode serves the shape; None for ``page_block_size`` leaves it out of the question."""
        return (
            num_tokens <= self.max_num_tokens
            and page_block_size in (None, self.page_block_size)
            and self._serves_heads(num_heads)
            and (topk >= self.min_topk if self.topk_is_runtime else topk in self.topks)
        )

    def _serves_heads(self, num_heads: int) -> bool:
        if self.head_counts is None:
            return 1 <= num_heads <= self.max_num_heads
        return num_heads in self.head_counts


def supported_sparse_mla_sm120_configs(*, kv_cache_format: str = "fp8") -> dict[str, SparseMLASm120DecodeConfig]:
    """The families of a cache format, "fp8" or "nvfp4", by name; ``UsageError``, a ``ValueError``, for another format.

    ``TableError`` when the planner table given (``use_table``, ``CAKE_TUNE_TABLE``) cannot be read, or is not of a GPU
    while ``use_device`` was told one.
    """
    if kv_cache_format == "fp8":
        return _fp8_configs()
    if kv_cache_format == "nvfp4":
        return {"dsv4": _nvfp4_config()}
    raise UsageError(f"kv_cache_format: expected one of {', '.join(KV_CACHE_FORMATS)}, got {kv_cache_format!r}")


def _fp8_configs() -> dict[str, SparseMLASm120DecodeConfig]:
    families = json.loads((SHIPPED / "families" / "fp8.json").read_text(encoding="utf-8"))
    return {
        name: SparseMLASm120DecodeConfig(**{**family, "topks": frozenset(family["topks"])})
        for name, family in families.items()
    }


def _nvfp4_config() -> SparseMLASm120DecodeConfig:
    table, _ = table_for()
    return SparseMLASm120DecodeConfig(
        d_qk=QUERY_DIM,
        page_block_size=64,
        max_num_tokens=64,
        topks=frozenset(table.calibrated_topks),
        min_topk=1,
        max_num_heads=max(HEAD_COUNTS),
        kv_cache_format="nvfp4",
        bytes_per_token=BYTES_PER_TOKEN,
        head_counts=frozenset(HEAD_COUNTS),
    )
