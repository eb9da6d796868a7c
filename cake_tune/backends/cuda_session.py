"""One shape on a GPU: the correctness gate, and samples by replaying CUDA graphs."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor

from cake_tune.backends.base import AfterLaunch
from cake_tune.backends.cuda_gpu import MeasuredGpu
from cake_tune.backends.cuda_inputs import Inputs, make_inputs
from cake_tune.backends.cuda_pools import memory_errors
from cake_tune.backends.cuda_timer import capture
from cake_tune.backends.launcher import Launcher, query_as_used
from cake_tune.backends.plan_call import SM_SCALE, Results, call_plan
from cake_tune.backends.regime import require_warm
from cake_tune.cuda.monitor import Reading
from cake_tune.measure.protocol import Protocol
from cake_tune.mla import sparse_mla_reference
from cake_tune.planner.shape import Plan, Shape

LEAST_US = 0.5
"""An empty kernel in a graph takes longer on an H200 (0.57 us)."""
PROBE_CALLS = 4
MAX_CALLS = 400


@contextmanager
def open_session(
    shape: Shape,
    protocol: Protocol,
    seed: int,
    gpu: MeasuredGpu,
    launcher: Launcher,
    after_launch: AfterLaunch | None,
) -> Iterator["CudaSession"]:
    """A session with inputs from ``seed``; what does not fit the GPU is a ``MemoryError``."""
    with memory_errors():
        inputs = make_inputs(shape, protocol, seed, gpu.pools, gpu.l2_bytes)
        yield CudaSession(shape, protocol, inputs, gpu, launcher, after_launch)


@dataclass(frozen=True, slots=True)
class _Replay:
    """A captured run of calls, and the index sets that they read (warm: one set, read by all of them)."""

    graph: torch.cuda.CUDAGraph
    calls: int
    indices: Tensor
    extra_indices: Tensor | None


class CudaSession:
    """Runs the plans of one shape on rotating candidates."""

    def __init__(
        self,
        shape: Shape,
        protocol: Protocol,
        inputs: Inputs,
        gpu: MeasuredGpu,
        launcher: Launcher,
        after_launch: AfterLaunch | None,
    ) -> None:
        self._protocol = protocol
        self._inputs = inputs
        self._gpu = gpu
        self._launcher = launcher
        self._after_launch = after_launch
        self._cold = protocol.regime == "cold"
        self._results = Results(shape, "cuda")
        self._replays: dict[Plan, _Replay] = {}
        self._check_sets = inputs.sets(1)
        self._references: dict[str, tuple[Tensor, Tensor]] = {}
        self._touched = True
        self._started_us = gpu.clock.gpu_us
        self._readings: list[Reading] = []
        self._asked = 0

    @property
    def least_us(self) -> float:
        """No launch is faster, and no read of the candidates."""
        return max(LEAST_US, self._gpu.least_us(self._inputs.read_bytes, cold=self._cold))

    def check(self, plan: Plan) -> float:
        """Compare every token with the reference, which is worked out once per query mode."""
        self._touched = True
        results, reference = self._results, self._reference(plan)
        with memory_errors():
            for written in results.written_by(plan):
                written.fill_(math.nan)
        self._gpu.clock.time(lambda: self._launch(plan, *self._check_sets, 0), 1, lead_cycles=0)
        if self._after_launch is not None:
            self._after_launch(plan, results.output)
        return self._launcher.judge(plan, results.output, results.lse, *reference)

    def sample(self, plan: Plan, count: int) -> list[float]:
        """Each sample is one replay of about ``sample_us`` of calls; cold, every call takes candidates not read lately.

        ``RegimeError`` where the calls of a warm plan do not fit the L2.
        """
        self._gpu.warm()
        replay = self._replays.get(plan)
        if replay is None:
            replay = self._replays[plan] = self._prepared(plan)
        return self._timed(replay, count)

    def sample_single_calls(self, plan: Plan, count: int) -> list[float]:
        """``count`` calls of a plan that was sampled, each launched and timed alone, in microseconds: to compare with.

        A short call ends before the host has launched the next: such times hold what the host takes.
        """
        replay = self._replays[plan]
        return self._gpu.clock.time(
            lambda: self._launch(plan, replay.indices, replay.extra_indices, 0),
            count,
            before=lambda: self._inputs.fill(replay.indices, replay.extra_indices),
        )

    def calls_per_sample(self, plan: Plan) -> int:
        """Calls in one sample of a plan that was sampled."""
        return self._replays[plan].calls

    def disturbance(self) -> str | None:
        """What NVML said against the samples since the last question: heat, power brake, idle, a clock that is off."""
        since, self._asked = self._readings[self._asked :], len(self._readings)
        found = (reading.disturbance(self._gpu.warm_clock_mhz) for reading in since)
        return next((text for text in found if text is not None), None)

    def audit(self) -> dict[str, float]:
        """How the point was measured: GPU time in calls, state of the GPU, and what the proofs rest on."""
        clocks = [reading.sm_clock_mhz for reading in self._readings if reading.sm_clock_mhz]
        return {
            "gpu_seconds": round((self._gpu.clock.gpu_us - self._started_us) / 1e6, 6),
            "copy_gb_per_s": round(self._gpu.copy_bytes_per_us / 1e3, 1),
            **({"between_uses_l2": round(self._inputs.between_bytes / self._gpu.l2_bytes, 2)} if self._cold else {}),
            **({"sm_clock_mhz": median(clocks), "least_sm_clock_mhz": min(clocks)} if clocks else {}),
            **({} if self._gpu.monitor is None else self._gpu.monitor.figures()),
        }

    def _prepared(self, plan: Plan) -> _Replay:
        """Calls for one sample of ``plan``: as many as ``sample_us`` takes."""
        if not self._cold:
            self._require_warm(plan)
        probe = self._capture(plan, PROBE_CALLS)
        calls = math.ceil(self._protocol.sample_us / min(self._timed(probe, 2)))
        return probe if calls == PROBE_CALLS else self._capture(plan, min(max(calls, 1), MAX_CALLS))

    def _capture(self, plan: Plan, calls: int) -> _Replay:
        indices, extra_indices = self._inputs.sets(calls) if self._cold else self._check_sets
        last = len(indices) - 1
        graph = capture(lambda number: self._launch(plan, indices, extra_indices, min(number, last)), calls)
        return _Replay(graph, calls, indices, extra_indices)

    def _timed(self, replay: _Replay, count: int) -> list[float]:
        """Microseconds per call of ``count`` replays, each on new index sets."""
        if self._cold and self._touched:
            self._gpu.cool(int(self._protocol.cold_factor * self._gpu.l2_bytes))
        self._touched = False

        def fill() -> None:
            if self._cold:
                self._inputs.fill(replay.indices, replay.extra_indices)

        times = self._gpu.clock.time(replay.graph.replay, count, before=fill, meanwhile=self._read)
        return [time / replay.calls for time in times]

    def _read(self) -> None:
        self._readings.append(self._gpu.reading())

    def _launch(self, plan: Plan, indices: Tensor, extra_indices: Tensor | None, number: int) -> None:
        inputs = self._inputs
        extra = None if extra_indices is None else extra_indices[number]
        call_plan(self._launcher, plan, inputs.query, inputs.caches, indices[number], extra, self._results)

    def _require_warm(self, plan: Plan) -> None:
        """All that the calls touch: cached tokens, index sets, query, and what they write."""
        given = (self._inputs.query, *(sets for sets in self._check_sets if sets is not None))
        tensors = (*given, *self._results.written_by(plan))
        require_warm(self._inputs.read_bytes + sum(tensor.nbytes for tensor in tensors), self._gpu.l2_bytes)

    def _reference(self, plan: Plan) -> tuple[Tensor, Tensor]:
        """On the query as the kernel of ``plan`` uses it."""
        mode = self._launcher.query_mode(plan)
        if mode not in self._references:
            inputs, (indices, extra_indices) = self._inputs, self._check_sets
            optional = inputs.caches.optional(None if extra_indices is None else extra_indices[0])
            self._references[mode] = sparse_mla_reference(
                query_as_used(inputs.query, mode), inputs.caches.cache, indices[0], SM_SCALE, **optional
            )
        return self._references[mode]
