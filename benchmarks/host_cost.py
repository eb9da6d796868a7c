"""What one call costs the host: ``python benchmarks/host_cost.py [--device cpu]``.

``checks`` is the op with the launch taken out: checks and planning. On a GPU, ``launch`` is the launch of a call made
before, and ``whole call`` both. Runs are short enough that the GPU's queue never fills. Each figure is the median of
the runs and, behind it, the fastest run: what the machine does beside the call is in the first only.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from unittest.mock import patch

import torch

from cake_tune.mla import cake_sparse_mla_sm120_dsv4_nvfp4_decode, cake_sparse_mla_sm120_dsv4_nvfp4_prefill, ops
from cake_tune.mla.call import AttentionCall

CALLS, RUNS = 100, 60
TOPK, PAGES, PAGE_SIZE = 512, 64, 64


def arguments(device: str, heads: int, dual: bool) -> tuple[list[object], dict[str, object]]:
    """One token over small caches, with every optional tensor if ``dual``."""
    q = torch.randn(1, heads, 512, device=device).bfloat16()
    pool = torch.zeros(2, PAGES, 1, PAGE_SIZE, 384, dtype=torch.uint8, device=device)
    indices = torch.randint(0, PAGES * PAGE_SIZE, (2, 1, TOPK), dtype=torch.int32, device=device)
    output, out_lse = torch.empty_like(q), torch.empty(1, heads, device=device)
    optional: dict[str, object] = {}
    if dual:
        lengths = torch.full((1,), TOPK, dtype=torch.int32, device=device)
        optional = {
            "topk_length": lengths,
            "attn_sink": torch.zeros(heads, device=device),
            "extra_kv_cache": pool[1],
            "extra_indices": indices[1],
            "extra_topk_length": lengths,
        }
    return [q, pool[0], indices[0], output, out_lse, 0.04], optional


def microseconds(call: Callable[[], object], device: str) -> str:
    """Microseconds of one call on the host: median and least."""
    runs = []
    for _ in range(RUNS + 3):
        if device == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(CALLS):
            call()
        runs.append((time.perf_counter() - start) / CALLS * 1e6)
    return f"{statistics.median(runs[3:]):>10.2f} {min(runs[3:]):>7.2f}"


def measure(name: str, call: Callable[[], object], device: str) -> None:
    """Print the parts of one call."""
    seen: list[AttentionCall] = []
    with patch.object(ops, "launch", seen.append):
        call()
    with patch.object(ops, "launch", lambda _: None):
        checks = microseconds(call, device)
    line = f"{name:<52}{checks}"
    if device == "cuda":
        from cake_tune.mla.launch import launch

        line += microseconds(lambda: launch(seen[0]), device) + microseconds(call, device)
    print(line)


def main() -> None:
    """Print a line per kind of call."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cuda" if torch.cuda.is_available() else "cpu")
    device = parser.parse_args().device
    scratch = {
        "mid_out": torch.empty(1, 16, 16, 512, dtype=torch.bfloat16, device=device),
        "mid_lse": torch.empty(1, 16, 16, device=device),
    }
    print(f"{'us on the host, median and least':<52}{'checks':>18}{'launch':>18}{'whole call':>18}")
    decode, prefill = cake_sparse_mla_sm120_dsv4_nvfp4_decode, cake_sparse_mla_sm120_dsv4_nvfp4_prefill
    for dual in (False, True):
        given, optional = arguments(device, 16, dual)
        kind = "two caches, lengths, sink" if dual else "one cache"
        measure(f"decode, planned, split, {kind}", lambda: decode(*given, **scratch, **optional), device)  # noqa: B023
        measure(f"decode, one split, {kind}", lambda: decode(*given, num_splits=1, **optional), device)  # noqa: B023
        measure(f"prefill, planned, {kind}", lambda: prefill(*given, **optional), device)  # noqa: B023


if __name__ == "__main__":
    main()
