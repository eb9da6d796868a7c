"""FlashInfer's kernels behind a session: its Cake kernels with the plan pinned, and the rival they race against."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from cake_tune.backends.gate import judge
from cake_tune.backends.launcher import Arguments, QueryMode
from cake_tune.errors import ContractError
from cake_tune.flashinfer.kernels import pack_cache, run_plan, run_sparse
from cake_tune.mla import Bounds, nvfp4_quantize_pack_sparse_mla_cache
from cake_tune.planner.shape import QUERY_DIM, Plan, rival_of

PACKERS: dict[str, Callable[[Tensor], Tensor]] = {
    "cake-tune": nvfp4_quantize_pack_sparse_mla_cache,
    "flashinfer": pack_cache,
}
"""Who can write the cache; the format is one."""

CAKE_BOUNDS = Bounds(tensor=4e-2, row=6e-2, lse=2e-2)
"""The Cake kernels multiply probabilities and values in E4M3, and quantise the query with an approximate reciprocal.
On random data the first costs 2 to 3.8 % of the output's size, 4 % in the worst row; one wrong slot of 512 costs 6."""

SPARSE = "sparse"
SPARSE_BOUNDS = Bounds(tensor=0.2, row=0.3, lse=2e-2)
"""The hand-written kernels quantise the probabilities to NVFP4, and the values once more along the candidates: on
random data 10 to 13 % of the output's size, 16 % in the worst row. One wrong slot of 16 costs 40 %."""


class FlashInferLauncher:
    """Runs the plans of FlashInfer's Cake kernels, and the plan that stands for its hand-written ones."""

    def __init__(self, packer: str) -> None:
        self._pack = PACKERS[packer]

    def launch(self, plan: Plan, arguments: Arguments, optional: dict[str, Any], scratch: tuple[Tensor, ...]) -> None:
        """The plan with every part pinned; the rival decides by itself."""
        rival = rival_of(plan)
        if rival == SPARSE:
            run_sparse(arguments, optional)
        elif plan.options:
            raise ContractError(f"options: expected none, or the rival {SPARSE}, got {plan}")
        else:
            run_plan(plan, arguments, optional, *scratch)

    def query_mode(self, plan: Plan) -> QueryMode:
        """Both quantise the query's NoPE part to NVFP4."""
        return "nvfp4"

    def pack(self, latents: Tensor) -> Tensor:
        """The cache by the writer that the configuration names."""
        return self._pack(latents)

    def judge(self, plan: Plan, output: Tensor, out_lse: Tensor, reference: Tensor, reference_lse: Tensor) -> float:
        """By what the arithmetic of each can hold: the contract's bounds are those of BF16."""
        bounds = CAKE_BOUNDS if rival_of(plan) is None else SPARSE_BOUNDS
        return judge(output, out_lse, reference, reference_lse, bounds)


def compile_cake(device: str) -> None:
    """Have FlashInfer compile and load its Cake kernels, both of one build, by the smallest call of them."""
    run_plan(Plan("decode", 1, 1, 2), _smallest(device), {})


def compile_all(device: str) -> Iterator[str]:
    """Have FlashInfer compile whatever a sweep may run; the name of each part once it is there."""
    compile_cake(device)
    yield "Cake decode and prefill"
    pack_cache(torch.zeros(1, 1, QUERY_DIM, dtype=torch.bfloat16, device=device))
    yield "cache writer"
    run_sparse(_smallest(device), {})
    yield "hand-written kernels (rival: sparse)"


def _smallest(device: str) -> Arguments:
    """One token of 16 heads over 128 candidates, which every kernel serves; all of them masked."""
    q = torch.zeros(1, 16, QUERY_DIM, dtype=torch.bfloat16, device=device)
    cache = torch.zeros(1, 1, 64, 384, dtype=torch.uint8, device=device)
    indices = torch.full((1, 128), -1, dtype=torch.int32, device=device)
    return q, cache, indices, torch.empty_like(q), torch.empty(1, 16, device=device), 1.0
