"""One shape on a GPU: the correctness gate, and samples by replaying CUDA graphs."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cake_tune.backends.base import AfterLaunch
from cake_tune.backends.cuda import CudaBackend
from cake_tune.backends.cuda_inputs import HEAD_DIM, Inputs, make_inputs
from cake_tune.backends.gate import judge
from cake_tune.cuda.options import build_options, chosen_options
from cake_tune.errors import ContractError
from cake_tune.measure.protocol import Protocol
from cake_tune.mla import (
    cake_sparse_mla_sm120_dsv4_nvfp4_decode,
    cake_sparse_mla_sm120_dsv4_nvfp4_prefill,
    dequantize_sparse_mla_cache,
    nvfp4_quantize_pack_sparse_mla_cache,
    sparse_mla_reference,
)
from cake_tune.planner.shape import Plan, Shape

SM_SCALE = HEAD_DIM**-0.5
LEAST_US = 0.5
"""An empty kernel in a graph takes longer on an H200 (0.57 us)."""
PROBE_CALLS = 4
MAX_CALLS = 400


@contextmanager
def open_session(
    shape: Shape, protocol: Protocol, seed: int, after_launch: AfterLaunch | None
) -> Iterator["CudaSession"]:
    """A session with inputs from ``seed``; what does not fit the GPU is a ``MemoryError``."""
    with _memory_errors():
        yield CudaSession(shape, protocol, make_inputs(shape, protocol, seed), after_launch)


@dataclass(frozen=True, slots=True)
class _Replay:
    """A captured run of calls, and the index sets that they read."""

    graph: torch.cuda.CUDAGraph
    indices: Tensor
    extra_indices: Tensor | None


class CudaSession:
    """Runs the plans of one shape on rotating candidates."""

    least_us = LEAST_US

    def __init__(self, shape: Shape, protocol: Protocol, inputs: Inputs, after_launch: AfterLaunch | None) -> None:
        self._protocol = protocol
        self._inputs = inputs
        self._after_launch = after_launch
        self._output = torch.empty(shape.num_tokens, shape.num_heads, HEAD_DIM, dtype=torch.bfloat16, device="cuda")
        self._lse = torch.empty(shape.num_tokens, shape.num_heads, device="cuda")
        self._scratch: dict[int, tuple[Tensor, Tensor]] = {}
        self._replays: dict[Plan, _Replay] = {}
        self._start: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        self._end: Any = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        self._check_sets = self._new_sets(1)
        self._references: dict[str, tuple[Tensor, Tensor]] = {}

    def check(self, plan: Plan) -> float:
        """Compare every token with the reference, which is worked out once per query mode."""
        for written in (self._output, self._lse, *self._scratch_of(plan)):
            written.fill_(math.nan)
        indices, extra_indices = self._check_sets
        with _options_of(plan):
            self._launch(plan, indices[0], None if extra_indices is None else extra_indices[0])
            reference = self._reference()
        if self._after_launch is not None:
            self._after_launch(plan, self._output)
        return judge(self._output, self._lse, *reference)

    def sample(self, plan: Plan, count: int) -> list[float]:
        """Each sample is one replay of about ``sample_us`` of calls, every call on candidates not read for a while."""
        replay = self._replays.get(plan)
        if replay is None:
            probe = self._capture(plan, PROBE_CALLS)
            self._time(probe)
            calls = math.ceil(self._protocol.sample_us / self._time(probe))
            replay = self._replays[plan] = self._capture(plan, min(max(calls, PROBE_CALLS), MAX_CALLS))
        return [self._time(replay) for _ in range(count)]

    def disturbance(self) -> None:
        """Not looked for: the race's own statistics have to carry throttling and what other processes do."""

    def _time(self, replay: _Replay) -> float:
        """Microseconds per call of one replay on new index sets."""
        self._inputs.main.fill(replay.indices)
        if self._inputs.extra is not None and replay.extra_indices is not None:
            self._inputs.extra.fill(replay.extra_indices)
        self._start.record()
        replay.graph.replay()
        self._end.record()
        self._end.synchronize()
        milliseconds: float = self._start.elapsed_time(self._end)
        return milliseconds * 1e3 / len(replay.indices)

    def _capture(self, plan: Plan, calls: int) -> _Replay:
        indices, extra_indices = self._new_sets(calls)
        graph = torch.cuda.CUDAGraph()
        with _options_of(plan):
            self._launch(plan, indices[0], None if extra_indices is None else extra_indices[0])
            with torch.cuda.graph(graph):
                for number in range(calls):
                    self._launch(plan, indices[number], None if extra_indices is None else extra_indices[number])
        return _Replay(graph, indices, extra_indices)

    def _launch(self, plan: Plan, indices: Tensor, extra_indices: Tensor | None) -> None:
        arguments = (self._inputs.query, self._inputs.main.cache, indices, self._output, self._lse, SM_SCALE)
        optional = self._optional(extra_indices)
        if plan.kernel == "prefill":
            cake_sparse_mla_sm120_dsv4_nvfp4_prefill(*arguments, **optional, head_tiles=plan.head_tiles)
            return
        mid_out, mid_lse = self._scratch_of(plan) or (None, None)
        cake_sparse_mla_sm120_dsv4_nvfp4_decode(
            *arguments,
            **optional,
            mid_out=mid_out,
            mid_lse=mid_lse,
            num_splits=plan.num_splits,
            head_tiles=plan.head_tiles,
        )

    def _optional(self, extra_indices: Tensor | None) -> dict[str, Any]:
        inputs = self._inputs
        return {
            "topk_length": inputs.lengths,
            "attn_sink": inputs.sink,
            "extra_kv_cache": None if inputs.extra is None else inputs.extra.cache,
            "extra_indices": extra_indices,
            "extra_topk_length": inputs.extra_lengths,
        }

    def _new_sets(self, count: int) -> tuple[Tensor, Tensor | None]:
        extra = self._inputs.extra
        return self._inputs.main.sets(count), None if extra is None else extra.sets(count)

    def _scratch_of(self, plan: Plan) -> tuple[Tensor, ...]:
        """The split partials of ``plan``, made once per number of splits; empty where it does not split."""
        if plan.num_splits == 1:
            return ()
        if plan.num_splits not in self._scratch:
            shape = (*self._lse.shape, plan.num_splits)
            with _memory_errors():
                partials = torch.empty(*shape, HEAD_DIM, dtype=torch.bfloat16, device="cuda")
                self._scratch[plan.num_splits] = partials, torch.empty(shape, device="cuda")
        return self._scratch[plan.num_splits]

    def _reference(self) -> tuple[Tensor, Tensor]:
        """On the query as the kernel in force uses it."""
        mode = chosen_options().qk
        if mode not in self._references:
            query, (indices, extra_indices) = self._inputs.query, self._check_sets
            if mode == "nvfp4":
                rows = query.view(1, -1, HEAD_DIM)
                query = dequantize_sparse_mla_cache(nvfp4_quantize_pack_sparse_mla_cache(rows)).view_as(query)
            optional = self._optional(None if extra_indices is None else extra_indices[0])
            self._references[mode] = sparse_mla_reference(
                query, self._inputs.main.cache, indices[0], SM_SCALE, **optional
            )
        return self._references[mode]


@contextmanager
def _options_of(plan: Plan) -> Iterator[None]:
    """The build options that ``plan`` names, of those that the backend takes."""
    options = dict(plan.options)
    unknown = options.keys() - CudaBackend.options
    if unknown:
        known = " or ".join(sorted(CudaBackend.options))
        raise ContractError(f"options: expected {known}, got {', '.join(sorted(unknown))}")
    with build_options(**options):
        yield


@contextmanager
def _memory_errors() -> Iterator[None]:
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise MemoryError(str(error).partition("\n")[0]) from error
