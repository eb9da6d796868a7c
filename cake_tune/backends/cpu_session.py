"""One shape on the CPU grid: the correctness gate and the clock."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any

import torch
from torch import Tensor

from cake_tune.backends.base import AfterLaunch
from cake_tune.backends.cpu_inputs import HEAD_DIM, SLOT_BYTES, CachePools, Inputs, check_memory, make_inputs
from cake_tune.backends.gate import judge
from cake_tune.host import cpu_device
from cake_tune.measure.protocol import Protocol
from cake_tune.mla import (
    cake_sparse_mla_sm120_dsv4_nvfp4_decode,
    cake_sparse_mla_sm120_dsv4_nvfp4_prefill,
    sparse_mla_reference,
)
from cake_tune.planner.shape import Plan, Shape

SM_SCALE = HEAD_DIM**-0.5
LEAST_US = 5.0
"""No call from Python through the checks to the worker threads and back takes less."""
CORE_BYTES_PER_US = 768_000
"""What no core loads more of from its nearest cache: twice 64 bytes per cycle, at 6 GHz."""


@contextmanager
def open_session(
    shape: Shape, protocol: Protocol, seed: int, pools: CachePools, after_launch: AfterLaunch | None
) -> Iterator["CpuSession"]:
    """A session with inputs from ``seed``; what torch cannot allocate is a ``MemoryError``."""
    with _memory_errors():
        yield CpuSession(shape, protocol, make_inputs(shape, protocol, seed, pools), after_launch)


class CpuSession:
    """Runs the plans of one shape on rotating inputs.

    ``least_us`` is in microseconds: cached tokens, query and output must move, and be it from the nearest cache.
    """

    def __init__(self, shape: Shape, protocol: Protocol, inputs: Inputs, after_launch: AfterLaunch | None) -> None:
        self._protocol = protocol
        self._inputs = inputs
        self._after_launch = after_launch
        self._output = torch.empty(shape.num_tokens, shape.num_heads, HEAD_DIM, dtype=torch.bfloat16)
        self._lse = torch.empty(shape.num_tokens, shape.num_heads)
        self._scratch: dict[int, tuple[Tensor, Tensor]] = {}
        moved = inputs.candidates * SLOT_BYTES + 2 * self._output.nbytes
        self.least_us = max(LEAST_US, moved / (CORE_BYTES_PER_US * cpu_device().num_sms))
        self._reference: tuple[Tensor, Tensor] | None = None
        self._call_us: dict[Plan, float] = {}
        self._calls = 0

    def check(self, plan: Plan) -> float:
        """Compare every token with the reference, which is worked out once (it takes about as long as ten calls)."""
        with _one_thread():
            return self._checked(plan)

    def sample(self, plan: Plan, count: int) -> list[float]:
        """Each sample lasts about ``sample_us``; the inputs go on where the last sample, of whichever plan, ended."""
        samples = []
        for _ in range(count):
            calls = max(1, math.ceil(self._protocol.sample_us / self._call_us.get(plan, math.inf)))
            start = perf_counter_ns()
            for _ in range(calls):
                self._calls += 1
                self._launch(plan, self._calls)
            samples.append((perf_counter_ns() - start) / 1e3 / calls)
            self._call_us[plan] = samples[-1]
        return samples

    def disturbance(self) -> None:
        """Unknown on a CPU: the race's own statistics have to carry what other processes do."""

    def _checked(self, plan: Plan) -> float:
        if self._reference is None:
            inputs = self._inputs
            self._reference = sparse_mla_reference(
                inputs.queries[0], inputs.cache, inputs.indices[0], SM_SCALE, **self._options(0)
            )
        for written in (self._output, self._lse, *self._scratch_of(plan)):
            written.fill_(math.nan)
        self._launch(plan, 0)
        if self._after_launch is not None:
            self._after_launch(plan, self._output)
        return judge(self._output, self._lse, *self._reference)

    def _launch(self, plan: Plan, number: int) -> None:
        inputs = self._inputs
        arguments = (
            inputs.queries[number % len(inputs.queries)],
            inputs.cache,
            inputs.indices[number % len(inputs.indices)],
            self._output,
            self._lse,
            SM_SCALE,
        )
        options = self._options(number)
        if plan.kernel == "prefill":
            cake_sparse_mla_sm120_dsv4_nvfp4_prefill(*arguments, **options, head_tiles=plan.head_tiles)
            return
        mid_out, mid_lse = self._scratch_of(plan) or (None, None)
        cake_sparse_mla_sm120_dsv4_nvfp4_decode(
            *arguments,
            **options,
            mid_out=mid_out,
            mid_lse=mid_lse,
            num_splits=plan.num_splits,
            head_tiles=plan.head_tiles,
        )

    def _options(self, number: int) -> dict[str, Any]:
        inputs = self._inputs
        extra = inputs.extra_indices
        return {
            "topk_length": inputs.lengths,
            "attn_sink": inputs.sink,
            "extra_kv_cache": inputs.extra_cache,
            "extra_indices": None if extra is None else extra[number % len(extra)],
            "extra_topk_length": inputs.extra_lengths,
        }

    def _scratch_of(self, plan: Plan) -> tuple[Tensor, ...]:
        """The split partials of ``plan``, made once per number of splits; empty where it does not split."""
        if plan.num_splits == 1:
            return ()
        if plan.num_splits not in self._scratch:
            shape = (*self._lse.shape, plan.num_splits)
            check_memory("split scratch", math.prod(shape) * (2 * HEAD_DIM + 4), 1)
            with _memory_errors():
                partials = torch.empty(*shape, HEAD_DIM, dtype=torch.bfloat16)
                self._scratch[plan.num_splits] = (partials, torch.empty(shape))
        return self._scratch[plan.num_splits]


@contextmanager
def _one_thread() -> Iterator[None]:
    """Torch with the calling thread alone: a pool of its own goes on spinning on the workers' cores for a while."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def _memory_errors() -> Iterator[None]:
    """Torch reports a failed CPU allocation as a plain RuntimeError."""
    try:
        yield
    except RuntimeError as error:
        if "DefaultCPUAllocator" in str(error):
            raise MemoryError(str(error).partition("\n")[0]) from error
        raise
