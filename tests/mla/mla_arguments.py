"""One valid call of the op, to be broken one argument at a time."""

import torch

from cake_tune.mla import (
    cake_sparse_mla_sm120_dsv4_nvfp4_decode,
    cake_sparse_mla_sm120_dsv4_nvfp4_prefill,
    nvfp4_quantize_pack_sparse_mla_cache,
)

PAGES, PAGE_SIZE = 4, 64
OPS = {"decode": cake_sparse_mla_sm120_dsv4_nvfp4_decode, "prefill": cake_sparse_mla_sm120_dsv4_nvfp4_prefill}

ORDER = (
    "q", "kv_cache", "indices", "output", "out_lse", "sm_scale", "topk_length", "attn_sink", "extra_kv_cache",
    "extra_indices", "extra_topk_length", "lse_scale", "mid_out", "mid_lse", "num_splits", "head_tiles",
)  # fmt: skip


def valid_arguments(kernel="decode", num_tokens=2, num_heads=32, topk=130, **changes):
    """Keyword arguments of a call with everything in it: two splits, an extra cache, lengths and a sink."""
    rng = torch.Generator().manual_seed(7)
    latents = torch.randn(2 * PAGES, PAGE_SIZE, 512, generator=rng).bfloat16()
    arguments = {
        "q": torch.randn(num_tokens, num_heads, 512, generator=rng).bfloat16(),
        "kv_cache": nvfp4_quantize_pack_sparse_mla_cache(latents[:PAGES]),
        "indices": torch.randint(PAGES * PAGE_SIZE, (num_tokens, topk), generator=rng, dtype=torch.int32),
        "output": torch.empty(num_tokens, num_heads, 512, dtype=torch.bfloat16),
        "out_lse": torch.empty(num_tokens, num_heads),
        "sm_scale": 0.05,
        "topk_length": torch.full((num_tokens,), topk, dtype=torch.int32),
        "attn_sink": torch.zeros(num_heads),
        "extra_kv_cache": nvfp4_quantize_pack_sparse_mla_cache(latents[PAGES:]),
        "extra_indices": torch.randint(PAGES * PAGE_SIZE, (num_tokens, 64), generator=rng, dtype=torch.int32),
        "extra_topk_length": torch.full((num_tokens,), 64, dtype=torch.int32),
        "head_tiles": 1,
    }
    if kernel == "decode":
        arguments |= {
            "num_splits": 2,
            "mid_out": torch.empty(num_tokens, num_heads, 3, 512, dtype=torch.bfloat16),
            "mid_lse": torch.empty(num_tokens, num_heads, 3),
        }
    return arguments | changes


def call(kernel="decode", **arguments):
    """Call the op with keyword arguments alone."""
    return OPS[kernel](**arguments)


def op_arguments(**arguments):
    """The same as positional arguments of the custom op."""
    arguments = {"lse_scale": 1.0} | arguments
    return tuple(arguments[name] for name in ORDER if name in arguments)
