"""Whose kernels a session runs: the seam between a session, which owns inputs, gate and clock, and what it launches."""

from typing import Any, Literal, Protocol

from torch import Tensor

from cake_tune.backends.gate import judge
from cake_tune.mla import (
    cake_sparse_mla_sm120_dsv4_nvfp4_decode,
    cake_sparse_mla_sm120_dsv4_nvfp4_prefill,
    dequantize_sparse_mla_cache,
    nvfp4_quantize_pack_sparse_mla_cache,
)
from cake_tune.planner.rules import DEFAULT_MAX_SPLITS
from cake_tune.planner.shape import Plan

QueryMode = Literal["bf16", "nvfp4"]
Arguments = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, float]
"""q, kv_cache, indices, output, out_lse and sm_scale, as the op takes them."""


class Launcher(Protocol):
    """Runs plans on the calls of a session; raises ``ContractError`` for a plan that it cannot run."""

    def launch(self, plan: Plan, arguments: Arguments, optional: dict[str, Any], scratch: tuple[Tensor, ...]) -> None:
        """Put one call of ``plan`` on the device; ``scratch`` is (mid_out, mid_lse), or empty for an unsplit plan."""

    def query_mode(self, plan: Plan) -> QueryMode:
        """How ``plan`` uses its query: the reference is worked out on that."""

    def pack(self, latents: Tensor) -> Tensor:
        """The cache of BF16 ``latents`` ``[pages, page_size, 512]``, its bytes as the op reads them."""

    def judge(self, plan: Plan, output: Tensor, out_lse: Tensor, reference: Tensor, reference_lse: Tensor) -> float:
        """The relative error of what ``plan`` wrote; ``WrongResultError`` where it is too large."""


class OpLauncher:
    """The op of this project, on whichever device the tensors are."""

    def launch(self, plan: Plan, arguments: Arguments, optional: dict[str, Any], scratch: tuple[Tensor, ...]) -> None:
        """The op with every part of the plan pinned."""
        if plan.kernel == "prefill":
            cake_sparse_mla_sm120_dsv4_nvfp4_prefill(*arguments, **optional, head_tiles=plan.head_tiles)
            return
        mid_out, mid_lse = scratch or (None, None)
        cake_sparse_mla_sm120_dsv4_nvfp4_decode(
            *arguments,
            **optional,
            mid_out=mid_out,
            mid_lse=mid_lse,
            num_splits=plan.num_splits,
            # Bounds what a table may say, and none is asked; but it must allow for every plan of a long list.
            max_splits=max(DEFAULT_MAX_SPLITS, plan.num_splits),
            head_tiles=plan.head_tiles,
        )

    def query_mode(self, plan: Plan) -> QueryMode:
        """As it is; build options that say otherwise are the session's affair."""
        return "bf16"

    def pack(self, latents: Tensor) -> Tensor:
        """The op's own cache writer."""
        return nvfp4_quantize_pack_sparse_mla_cache(latents)

    def judge(self, plan: Plan, output: Tensor, out_lse: Tensor, reference: Tensor, reference_lse: Tensor) -> float:
        """By the contract's accuracy."""
        return judge(output, out_lse, reference, reference_lse)


def query_as_used(query: Tensor, mode: QueryMode) -> Tensor:
    """``query`` ``[T, H, 512]`` as a kernel of that mode multiplies it: as it is, or through NVFP4 and back."""
    if mode == "bf16":
        return query
    rows = query.reshape(1, -1, query.shape[-1])
    return dequantize_sparse_mla_cache(nvfp4_quantize_pack_sparse_mla_cache(rows)).view_as(query)
