"""The op: sparse MLA decode and prefill over an NVFP4 paged latent cache, on CUDA tensors and on CPU tensors."""

from cake_tune.mla.accuracy import CONTRACT, Bounds, check_accuracy
from cake_tune.mla.checks import checked_slots
from cake_tune.mla.device import cpu_workers, device_of
from cake_tune.mla.ops import cake_sparse_mla_sm120_dsv4_nvfp4_decode, cake_sparse_mla_sm120_dsv4_nvfp4_prefill
from cake_tune.mla.quantize import (
    dequantize_sparse_mla_cache,
    nvfp4_quantize_append_sparse_mla_cache,
    nvfp4_quantize_pack_sparse_mla_cache,
)
from cake_tune.mla.reference import sparse_mla_reference
from cake_tune.mla.route import decode, prefill

__all__ = [
    "CONTRACT",
    "Bounds",
    "cake_sparse_mla_sm120_dsv4_nvfp4_decode",
    "cake_sparse_mla_sm120_dsv4_nvfp4_prefill",
    "check_accuracy",
    "checked_slots",
    "cpu_workers",
    "decode",
    "dequantize_sparse_mla_cache",
    "device_of",
    "nvfp4_quantize_append_sparse_mla_cache",
    "nvfp4_quantize_pack_sparse_mla_cache",
    "prefill",
    "sparse_mla_reference",
]
