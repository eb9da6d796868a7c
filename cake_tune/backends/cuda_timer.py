"""CUDA graphs of repeated calls, and the clock that times their replays without stopping between them."""

from collections.abc import Callable
from typing import Any

import torch

LEAD_CYCLES = 100_000
"""SM clock cycles (some 50 us) that the GPU waits before a series, so that the host is ahead of it from the start."""


def capture(launch: Callable[[int], None], calls: int) -> torch.cuda.CUDAGraph:
    """A graph of ``launch(0)`` ... ``launch(calls - 1)``; the first has run before, so that its kernel is loaded."""
    launch(0)
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            for number in range(calls):
                launch(number)
        finally:
            graph.capture_end()
    torch.cuda.current_stream().wait_stream(stream)
    return graph


class ReplayClock:
    """Times series of replays on the current stream, and keeps count of the time that the GPU spent on them.

    A series is put in the GPU's queue as a whole and waited for once. ``gpu_us`` runs from the start of a series' first
    replay to the end of its last: the refills between them are the measurement's work too.
    """

    def __init__(self) -> None:
        self.gpu_us = 0.0
        self._events: list[tuple[Any, Any]] = []

    def time(
        self,
        replay: Callable[[], None],
        count: int,
        *,
        before: Callable[[], None] = lambda: None,
        meanwhile: Callable[[], None] = lambda: None,
        lead_cycles: int = LEAD_CYCLES,
    ) -> list[float]:
        """Microseconds of each of ``count`` replays.

        ``before`` puts on the stream what a replay needs and its time does not hold; ``meanwhile`` is called once,
        while the GPU works.
        """
        events, stream = self._pairs(count), torch.cuda.current_stream()
        torch.cuda._sleep(lead_cycles)  # type: ignore[no-untyped-call]
        for start, end in events:
            before()
            start.record(stream)
            replay()
            end.record(stream)
        meanwhile()
        events[-1][1].synchronize()
        self.gpu_us += events[0][0].elapsed_time(events[-1][1]) * 1e3
        return [start.elapsed_time(end) * 1e3 for start, end in events]

    def _pairs(self, count: int) -> list[tuple[Any, Any]]:
        while len(self._events) < count:
            self._events.append((_event(), _event()))
        return self._events[:count]


def _event() -> Any:
    return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
