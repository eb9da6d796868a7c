"""FlashInfer's kernels with the plan pinned: the only module that imports FlashInfer, and not before it is called."""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cake_tune.errors import ContractError, DeviceUnfitError
from cake_tune.flashinfer.interface import DECODE, PACK, PREFILL, WRAPPER, check_device, drivable_package
from cake_tune.planner.shape import Device, Plan, head_blocks

if TYPE_CHECKING:
    from torch import Tensor

Arguments = tuple["Tensor", "Tensor", "Tensor", "Tensor", "Tensor", float]
"""q, kv_cache, indices, output, out_lse and sm_scale, as the op takes them."""


def run_plan(
    plan: Plan,
    arguments: Arguments,
    optional: dict[str, Any],
    mid_out: "Tensor | None" = None,
    mid_lse: "Tensor | None" = None,
) -> dict[str, int]:
    """Launch ``plan``, decode or prefill, and return the plan that FlashInfer resolved: the same one.

    No tokens launch nothing. Raises ``ContractError`` for what FlashInfer refuses, and for a resolved plan that is
    another one: the call's time would be filed under the wrong name.
    """
    num_tokens, num_heads, _ = arguments[0].shape
    expected = {"head_tiles": plan.head_tiles}
    if plan.kernel == "decode":
        expected |= {"num_splits": plan.num_splits, "chunks_per_block": plan.chunks_per_block}
        name, pinned = DECODE, {"mid_out": mid_out, "mid_lse": mid_lse, "num_splits": plan.num_splits}
    else:
        expected |= {"num_ctas": num_tokens * head_blocks(num_heads, plan.head_tiles)}
        name, pinned = PREFILL, {}
    if not num_tokens:
        return expected
    resolved: dict[str, int] = _call(name, *arguments, **optional, **pinned, head_tiles=plan.head_tiles)
    got = {part: resolved.get(part) for part in expected}
    if got != expected:
        raise ContractError(f"flashinfer: expected {plan} to run as {expected}, it resolved to {got}")
    return resolved


def run_sparse(arguments: Arguments, optional: dict[str, Any]) -> None:
    """Launch the hand-written kernels on the same call; FlashInfer chooses kernel, splits and scratch by itself.

    Warm a shape up before it is captured in a CUDA graph. Raises ``ContractError`` for what they do not serve.
    """
    *tensors, out_lse, sm_scale = arguments
    try:
        _sparse().run(*tensors, sm_scale, **optional, out_lse=out_lse)
    except ValueError as error:
        raise ContractError(f"flashinfer: {error}") from error


def pack_cache(latents: "Tensor") -> "Tensor":
    """FlashInfer's ``nvfp4_quantize_pack_sparse_mla_cache``: uint8 ``[pages, 1, page_size, 384]`` of BF16 latents."""
    packed: Tensor = _call(PACK, latents)
    return packed


@cache
def check_served(device: Device) -> None:
    """Raise ``DeviceUnfitError`` unless FlashInfer is there and its Cake kernels run on ``device``; asked once each."""
    check_device(drivable_package(), device)


@cache
def load_mla() -> Any:
    """``flashinfer.mla``, imported; ``DeviceUnfitError`` where it is missing, unfit, or does not load."""
    package = drivable_package()
    try:
        return import_module("flashinfer.mla")
    except Exception as error:
        raise DeviceUnfitError(
            f"{package} cannot be imported ({type(error).__name__}: {error}): pip install 'cake-tune[flashinfer]'"
        ) from error


def _call(name: str, *arguments: Any, **keywords: Any) -> Any:
    try:
        return getattr(load_mla(), name)(*arguments, **keywords)
    except ValueError as error:
        raise ContractError(f"flashinfer: {error}") from error


@cache
def _sparse() -> Any:
    """The wrapper around the hand-written kernels; it keeps prepared calls and scratch, so there is one."""
    return getattr(load_mla(), WRAPPER)(kv_cache_format="nvfp4", backend="sparse")
