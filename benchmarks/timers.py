"""Whether the graph timer tells the truth: ``python benchmarks/timers.py [--csv FILE]``.

Needs the optional extra ``timers``. The same plans are timed by the graph timer that sweeps use, by CUPTI, and by plain
events around single calls, each on cold candidates. CUPTI records when every kernel of a replay starts and ends; per
call this gives

- ``cupti_sum``: the kernels' durations added up, which counts twice what overlaps;
- ``cupti_busy``: the time in which any of them runs, gaps left out and overlaps counted once;
- ``cupti_span``: from the first start to the last end of a replay, divided by its calls: what the graph timer claims.

``traced`` is the graph timer itself while CUPTI records: what the recording costs. All in microseconds.
"""

import argparse
import csv
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median

import torch

from cake_tune.backends.cuda import CudaBackend
from cake_tune.backends.cuda_session import CudaSession
from cake_tune.cuda.manifest import load_manifest
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.lookup import decide
from cake_tune.planner.registry import table_for
from cake_tune.planner.shape import Plan, Shape, prefill_tiles

SHAPES = [
    Shape(*size)
    for size in (
        (1, 16, 512),
        (8, 16, 2048),
        (64, 16, 512),
        (64, 16, 2048),
        (64, 64, 512),
        (64, 128, 2048),
        (1, 128, 2048),
        (16, 64, 1024),
        (128, 32, 640),
        (256, 64, 1024),
        (256, 128, 2048),
    )
]
DISCARD, SAMPLES = 5, 50
AGREEMENT = 0.03
LONG_US = 10.0

Span = tuple[int, int]
"""Start and end of a kernel in nanoseconds."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One plan by every timer, in microseconds per call."""

    num_tokens: int
    num_heads: int
    topk: int
    plan: str
    graph_us: float
    events_us: float
    traced_us: float
    cupti_sum_us: float
    cupti_busy_us: float
    cupti_span_us: float
    apart: float
    """Graph timer over CUPTI's span, minus one."""


def main() -> None:
    """Time everything without CUPTI first, then again under it; print a line per plan and a verdict."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--csv", type=Path)
    target = parser.parse_args().csv
    backend, cases = CudaBackend(), [(shape, plan) for shape in SHAPES for plan in plans_of(shape)]
    backend.start()
    plain = [time_plainly(backend, *case) for case in cases]
    with recorded_kernels() as kernels:
        traced = [time_traced(backend, kernels, *case) for case in cases]
    rows = [compare(*case, *before, *under) for case, before, under in zip(cases, plain, traced, strict=True)]
    report(rows)
    if target is not None:
        write_csv(rows, target)


def plans_of(shape: Shape) -> Iterator[Plan]:
    """The decode plan in force for ``shape``, and the prefill plan where it has one."""
    from cake_tune.cuda.devices import gpu_device

    device = gpu_device()
    for kernel in ("decode", "prefill"):
        if kernel == "decode" or prefill_tiles(shape.num_heads, shape.chunks):
            yield decide(
                table_for(device)[0],
                num_tokens=shape.num_tokens,
                num_heads=shape.num_heads,
                topk=shape.topk,
                num_sms=device.num_sms,
                kernel=kernel,
            ).plan


def time_plainly(backend: CudaBackend, shape: Shape, plan: Plan) -> tuple[float, float]:
    """Graph timer and single events, in microseconds."""
    with backend.open(shape, Protocol(), 0) as session:
        assert isinstance(session, CudaSession)
        session.sample(plan, DISCARD)
        graph = median(session.sample(plan, SAMPLES))
        return graph, median(session.sample_single_calls(plan, SAMPLES))


def time_traced(
    backend: CudaBackend, kernels: list[Span], shape: Shape, plan: Plan
) -> tuple[float, int, list[list[Span]]]:
    """The graph timer while CUPTI records, the calls of a replay, and the kernels of each replay.

    A call is one kernel or two: splits are merged by another kernel, but for pairs, which merge within their cluster.
    """
    from cupti import cupti

    with backend.open(shape, Protocol(), 0) as session:
        assert isinstance(session, CudaSession)
        session.sample(plan, DISCARD)
        torch.cuda.synchronize()
        cupti.activity_flush_all(1)
        kernels.clear()
        traced = median(session.sample(plan, SAMPLES))
        torch.cuda.synchronize()
        cupti.activity_flush_all(1)
        found, calls = sorted(kernels), session.calls_per_sample(plan)
        per_call, left = divmod(len(found), SAMPLES * calls)
        if left or per_call not in ((1,) if plan.num_splits == 1 else (1, 2)):
            sys.exit(f"{shape}, {plan}: expected {SAMPLES} x {calls} calls of CUPTI, got {len(found)} kernels")
        per_replay = per_call * calls
        return traced, calls, [found[first : first + per_replay] for first in range(0, len(found), per_replay)]


@contextmanager
def recorded_kernels() -> Iterator[list[Span]]:
    """Start and end of every kernel of this project that runs meanwhile, as CUPTI hands them over."""
    from cupti import cupti

    entries = {source.entry for source in load_manifest().sources.values()}
    kernels: list[Span] = []

    def completed(activities: list[object]) -> None:
        for activity in activities:
            if activity.kind == cupti.ActivityKind.CONCURRENT_KERNEL and activity.name in entries:
                kernels.append((activity.start, activity.end))

    cupti.activity_register_callbacks(lambda: (8 << 20, 0), completed)
    cupti.activity_enable(cupti.ActivityKind.CONCURRENT_KERNEL)
    try:
        yield kernels
    finally:
        cupti.activity_flush_all(1)
        cupti.activity_disable(cupti.ActivityKind.CONCURRENT_KERNEL)


def compare(
    shape: Shape, plan: Plan, graph: float, events: float, traced: float, calls: int, replays: list[list[Span]]
) -> Comparison:
    """One row; the kernels' times are medians over the replays of ``calls`` calls each."""

    def per_call(nanoseconds: list[int]) -> float:
        return median(nanoseconds) / 1e3 / calls

    span = per_call([max(end for _, end in replay) - replay[0][0] for replay in replays])
    return Comparison(
        *(shape.num_tokens, shape.num_heads, shape.topk, str(plan)),
        graph_us=graph,
        events_us=events,
        traced_us=traced,
        cupti_sum_us=per_call([sum(end - start for start, end in replay) for replay in replays]),
        cupti_busy_us=per_call([busy(replay) for replay in replays]),
        cupti_span_us=span,
        apart=graph / span - 1,
    )


def busy(kernels: list[Span]) -> int:
    """Nanoseconds in which at least one of the kernels, sorted by start, runs."""
    total, until = 0, 0
    for start, end in kernels:
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total


def report(rows: list[Comparison]) -> None:
    """A table, and how many of the longer plans agree."""
    columns = "".join(f"{name:>9}" for name in ("graph", "span", "apart", "busy", "sum", "traced", "events"))
    print(f"{'T, H, topk':<16}{'plan':<18}{columns}")
    for row in rows:
        shape = f"{row.num_tokens}, {row.num_heads}, {row.topk}"
        print(
            f"{shape:<16}{row.plan:<18}{row.graph_us:>9.2f}{row.cupti_span_us:>9.2f}{row.apart:>9.1%}"
            f"{row.cupti_busy_us:>9.2f}{row.cupti_sum_us:>9.2f}{row.traced_us:>9.2f}{row.events_us:>9.2f}"
        )
    longer = [row for row in rows if row.graph_us > LONG_US]
    agreeing = sum(abs(row.apart) <= AGREEMENT for row in longer)
    print(f"{agreeing} of {len(longer)} plans over {LONG_US:g} us: graph timer within {AGREEMENT:.0%} of CUPTI's span")


def write_csv(rows: list[Comparison], target: Path) -> None:
    """The rows with what they were measured on."""
    from cake_tune.cuda.devices import gpu_device
    from cake_tune.cuda.identity import kernel_identity

    identity = kernel_identity()
    origin = {"gpu": gpu_device().name, "driver": identity.driver, "kernels": identity.identity}
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [*origin, *(field.name for field in fields(Comparison))], lineterminator="\n")
        writer.writeheader()
        for row in rows:
            figures = {
                name: round(value, 4) if isinstance(value, float) else value for name, value in asdict(row).items()
            }
            writer.writerow({**origin, **figures})


if __name__ == "__main__":
    main()
