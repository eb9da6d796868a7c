"""Small calls of every kernel, for ``compute-sanitizer --tool memcheck python tests/gpu/sanitize.py [--one-group]``.

Short candidate lists, each of several steps and chunks, since every memory access runs in slow motion. With
``PYTORCH_NO_CUDA_MEMORY_CACHING=1`` each tensor is an allocation of its own, so that a read behind one is seen.

``--one-group`` takes build variants whose warps all meet at the same barriers. Racecheck needs them: once the groups
of a CTA have met at barriers of their own, it reports accesses as a race that a ``__syncthreads`` lies between.
"""

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "contract"))

import torch
from contract_inputs import make_inputs
from contract_matrix import Case, run_case

from cake_tune.cuda import build_options
from cake_tune.cuda.manifest import load_manifest
from cake_tune.mla import device_of

ROUGH = {"mask": "random", "lengths": "random", "sink": "mixed", "page_size": 5, "num_tokens": 2}
CASES = [
    Case("decode", num_heads=8, topk=200, splits="one", tiles=1, **ROUGH),
    Case("decode", num_heads=16, topk=500, extra_topk=70, splits=3, tiles=1, **ROUGH),
    Case("decode", num_heads=32, topk=500, extra_topk=70, splits=2, tiles=2, **ROUGH),
    Case("prefill", num_heads=16, topk=300, tiles=1, **ROUGH),
    Case("prefill", num_heads=64, topk=300, extra_topk=70, tiles=2, **ROUGH),
    Case("prefill", num_heads=64, topk=300, tiles=4, **ROUGH),
]


def one_group_variant(case: Case) -> str | None:
    """A variant for this GPU that runs ``case`` with all warps in one group; None if the manifest has none."""
    arch = device_of(torch.device("cuda")).arch
    for variant in load_manifest().variants.values():
        one_group = dict(variant.macros)["CAKE_GROUPS"] == 1
        if one_group and arch in variant.archs and case.kernel in variant.kernels and variant.head_tiles == case.tiles:
            return variant.name
    return None


def main() -> None:
    """Run each case, and each once more with every candidate masked."""
    calls = 0
    for case in CASES:
        variant = one_group_variant(case) if "--one-group" in sys.argv else None
        if "--one-group" in sys.argv and variant is None:
            continue
        for one in (case, replace(case, mask="all")):
            inputs = make_inputs(one, "cuda")
            with build_options(variant=variant):
                run_case(one, inputs)
            torch.cuda.synchronize()
            calls += 1
    print(f"{calls} calls ran to their end")


if __name__ == "__main__":
    main()
