"""The op under its short names, on the kernels of the user's choice: this project's, or FlashInfer's.

FlashInfer's own routes ask the thresholds in its source and accept no table; these ask the table in force
for its kernels, and hand FlashInfer the plan.
"""

from typing import Any

from torch import Tensor

from cake_tune.errors import ContractError
from cake_tune.mla.checks import sizes_of
from cake_tune.mla.device import device_of
from cake_tune.mla.ops import cake_sparse_mla_sm120_dsv4_nvfp4_decode, cake_sparse_mla_sm120_dsv4_nvfp4_prefill
from cake_tune.mla.planning import plan_decode, plan_prefill
from cake_tune.planner.backend import BACKENDS, Backend
from cake_tune.planner.shape import Plan


def decode(
    q: Tensor,
    kv_cache: Tensor,
    indices: Tensor,
    output: Tensor,
    out_lse: Tensor,
    sm_scale: float,
    *,
    topk_length: Tensor | None = None,
    attn_sink: Tensor | None = None,
    extra_kv_cache: Tensor | None = None,
    extra_indices: Tensor | None = None,
    extra_topk_length: Tensor | None = None,
    mid_out: Tensor | None = None,
    mid_lse: Tensor | None = None,
    lse_scale: float = 1.0,
    num_splits: int | None = None,
    max_splits: int = 16,
    head_tiles: int | None = None,
    backend: Backend = "cake_tune",
) -> dict[str, int]:
    """``cake_sparse_mla_sm120_dsv4_nvfp4_decode``, whose arguments these are, on the kernels of ``backend``.

    "cake_tune" runs this project's kernels. "flashinfer" runs FlashInfer's (``pip install 'cake-tune[flashinfer]'``, a
    GPU of compute capability 12.0 or 12.1) with the plan that the table in force for them has for the shape; what is
    given of ``num_splits`` and ``head_tiles`` overrides it. It checks the tensors by FlashInfer's rules.

    Returns the plan that ran. Raises ``ContractError`` for what the kernels refuse, and ``DeviceUnfitError`` without
    FlashInfer or a GPU that it runs on.
    """
    optional: dict[str, Any] = {
        "topk_length": topk_length,
        "attn_sink": attn_sink,
        "extra_kv_cache": extra_kv_cache,
        "extra_indices": extra_indices,
        "extra_topk_length": extra_topk_length,
        "lse_scale": lse_scale,
    }
    if _on_flashinfer(backend):
        plan = plan_decode(q.device, sizes_of(q, indices, extra_indices), num_splits, max_splits, head_tiles, backend)
        if plan.num_splits == 1:
            mid_out = mid_lse = None
        return _run(plan, (q, kv_cache, indices, output, out_lse, sm_scale), optional, mid_out, mid_lse)
    return cake_sparse_mla_sm120_dsv4_nvfp4_decode(
        q, kv_cache, indices, output, out_lse, sm_scale, **optional, mid_out=mid_out, mid_lse=mid_lse,
        num_splits=num_splits, max_splits=max_splits, head_tiles=head_tiles,
    )  # fmt: skip


def prefill(
    q: Tensor,
    kv_cache: Tensor,
    indices: Tensor,
    output: Tensor,
    out_lse: Tensor,
    sm_scale: float,
    *,
    topk_length: Tensor | None = None,
    attn_sink: Tensor | None = None,
    extra_kv_cache: Tensor | None = None,
    extra_indices: Tensor | None = None,
    extra_topk_length: Tensor | None = None,
    lse_scale: float = 1.0,
    head_tiles: int | None = None,
    backend: Backend = "cake_tune",
) -> dict[str, int]:
    """``cake_sparse_mla_sm120_dsv4_nvfp4_prefill``, whose arguments these are, on the kernels of ``backend``.

    Backends, returns and errors are those of ``decode``; FlashInfer adds its launch hints to the plan that it returns.
    """
    optional: dict[str, Any] = {
        "topk_length": topk_length,
        "attn_sink": attn_sink,
        "extra_kv_cache": extra_kv_cache,
        "extra_indices": extra_indices,
        "extra_topk_length": extra_topk_length,
        "lse_scale": lse_scale,
    }
    if _on_flashinfer(backend):
        plan = plan_prefill(q.device, sizes_of(q, indices, extra_indices), head_tiles, backend)
        return _run(plan, (q, kv_cache, indices, output, out_lse, sm_scale), optional)
    return cake_sparse_mla_sm120_dsv4_nvfp4_prefill(
        q, kv_cache, indices, output, out_lse, sm_scale, **optional, head_tiles=head_tiles
    )


def _on_flashinfer(backend: str) -> bool:
    if backend not in BACKENDS:
        raise ContractError(f"backend: expected {' or '.join(BACKENDS)}, got {backend!r}")
    return backend == "flashinfer"


def _run(
    plan: Plan,
    arguments: tuple[Tensor, Tensor, Tensor, Tensor, Tensor, float],
    optional: dict[str, Any],
    mid_out: Tensor | None = None,
    mid_lse: Tensor | None = None,
) -> dict[str, int]:
    from cake_tune.flashinfer.kernels import check_served, run_plan

    q = arguments[0]
    if q.is_cuda:
        check_served(device_of(q.device))
    return run_plan(plan, arguments, optional, mid_out, mid_lse)
