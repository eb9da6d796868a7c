"""How a plan becomes a call on tensors, for every backend that runs kernels on tensors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cake_tune.backends.launcher import Launcher
from cake_tune.planner.shape import QUERY_DIM, Plan, Shape

SM_SCALE = QUERY_DIM**-0.5


@dataclass(frozen=True, slots=True)
class Caches:
    """What the calls on one shape read beside query and index sets; the tensors as in the op's contract."""

    cache: Tensor
    extra_cache: Tensor | None = None
    lengths: Tensor | None = None
    extra_lengths: Tensor | None = None
    sink: Tensor | None = None

    def optional(self, extra_indices: Tensor | None) -> dict[str, Any]:
        """The op's optional inputs, with this index set of the extra cache."""
        return {
            "topk_length": self.lengths,
            "attn_sink": self.sink,
            "extra_kv_cache": self.extra_cache,
            "extra_indices": extra_indices,
            "extra_topk_length": self.extra_lengths,
        }


class Results:
    """What the calls on one shape write: output and LSE, and the split partials of the plans that split."""

    def __init__(self, shape: Shape, device: str, before_scratch: Callable[[int], None] = lambda size: None) -> None:
        """Tensors on ``device``; ``before_scratch`` is told the bytes of a scratch to be made, and may refuse it."""
        rows = (shape.num_tokens, shape.num_heads)
        self.output = torch.empty(*rows, QUERY_DIM, dtype=torch.bfloat16, device=device)
        self.lse = torch.empty(rows, device=device)
        self._before_scratch = before_scratch
        self._scratch: dict[int, tuple[Tensor, Tensor]] = {}

    def scratch_of(self, plan: Plan) -> tuple[Tensor, ...]:
        """The split partials of ``plan``, made once per number of splits; empty where it does not split."""
        if plan.num_splits == 1:
            return ()
        if plan.num_splits not in self._scratch:
            rows, device = (*self.lse.shape, plan.num_splits), self.lse.device
            self._before_scratch(self.lse.numel() * plan.num_splits * (2 * QUERY_DIM + 4))
            partials = torch.empty(*rows, QUERY_DIM, dtype=torch.bfloat16, device=device)
            self._scratch[plan.num_splits] = (partials, torch.empty(rows, device=device))
        return self._scratch[plan.num_splits]

    def written_by(self, plan: Plan) -> tuple[Tensor, ...]:
        """Everything that ``plan`` must write."""
        return (self.output, self.lse, *self.scratch_of(plan))


def call_plan(
    launcher: Launcher,
    plan: Plan,
    query: Tensor,
    caches: Caches,
    indices: Tensor,
    extra_indices: Tensor | None,
    results: Results,
) -> None:
    """One call of ``plan`` by ``launcher``, on one index set of each cache."""
    arguments = (query, caches.cache, indices, results.output, results.lse, SM_SCALE)
    launcher.launch(plan, arguments, caches.optional(extra_indices), results.scratch_of(plan))
