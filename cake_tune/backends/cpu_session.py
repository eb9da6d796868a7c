"""One shape on the CPU grid: the correctness gate and the clock."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter_ns

import torch
from torch import Tensor

from cake_tune.backends.base import AfterLaunch
from cake_tune.backends.cpu_inputs import SLOT_BYTES, CachePools, Inputs, check_memory, make_inputs
from cake_tune.backends.launcher import Launcher, query_as_used
from cake_tune.backends.plan_call import SM_SCALE, Caches, Results, call_plan
from cake_tune.host import cpu_device
from cake_tune.measure.protocol import Protocol
from cake_tune.mla import sparse_mla_reference
from cake_tune.planner.shape import Plan, Shape

LEAST_US = 5.0
"""No call from Python through the checks to the worker threads and back takes less."""
CORE_BYTES_PER_US = 768_000
"""What no core loads more of from its nearest cache: twice 64 bytes per cycle, at 6 GHz."""


@contextmanager
def open_session(
    shape: Shape,
    protocol: Protocol,
    seed: int,
    pools: CachePools,
    launcher: Launcher,
    after_launch: AfterLaunch | None,
) -> Iterator["CpuSession"]:
    """A session with inputs from ``seed``; what torch cannot allocate is a ``MemoryError``."""
    with _memory_errors():
        yield CpuSession(shape, protocol, make_inputs(shape, protocol, seed, pools), launcher, after_launch)


class CpuSession:
    """Runs the plans of one shape on rotating inputs.

    ``least_us`` is in microseconds: cached tokens, query and output must move, and be it from the nearest cache.
    """

    def __init__(
        self,
        shape: Shape,
        protocol: Protocol,
        inputs: Inputs,
        launcher: Launcher,
        after_launch: AfterLaunch | None,
    ) -> None:
        self._protocol = protocol
        self._inputs = inputs
        self._launcher = launcher
        self._after_launch = after_launch
        self._caches = Caches(inputs.cache, inputs.extra_cache, inputs.lengths, inputs.extra_lengths, inputs.sink)
        self._results = Results(shape, "cpu", lambda size: check_memory("split scratch", size, 1))
        moved = inputs.candidates * SLOT_BYTES + 2 * self._results.output.nbytes
        self.least_us = max(LEAST_US, moved / (CORE_BYTES_PER_US * cpu_device().num_sms))
        self._references: dict[str, tuple[Tensor, Tensor]] = {}
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
        results, reference = self._results, self._reference(plan)
        with _memory_errors():
            for written in results.written_by(plan):
                written.fill_(math.nan)
        self._launch(plan, 0)
        if self._after_launch is not None:
            self._after_launch(plan, results.output)
        return self._launcher.judge(plan, results.output, results.lse, *reference)

    def _reference(self, plan: Plan) -> tuple[Tensor, Tensor]:
        mode = self._launcher.query_mode(plan)
        if mode not in self._references:
            inputs, optional = self._inputs, self._caches.optional(self._extra_indices(0))
            query = query_as_used(inputs.queries[0], mode)
            self._references[mode] = sparse_mla_reference(query, inputs.cache, inputs.indices[0], SM_SCALE, **optional)
        return self._references[mode]

    def _launch(self, plan: Plan, number: int) -> None:
        inputs = self._inputs
        query, indices = inputs.queries[number % len(inputs.queries)], inputs.indices[number % len(inputs.indices)]
        call_plan(self._launcher, plan, query, self._caches, indices, self._extra_indices(number), self._results)

    def _extra_indices(self, number: int) -> Tensor | None:
        extra = self._inputs.extra_indices
        return None if extra is None else extra[number % len(extra)]


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
