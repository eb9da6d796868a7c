"""How fast the kernels are on this GPU: ``python benchmarks/kernel.py [--shapes target|grid] [--csv FILE]``.

For each shape every plan is timed (decode with each build variant, head tiles and split, prefill where it has one) and
the best is printed beside three figures of the same run: a kernel that only gathers the rows, the matrix work at the
rate of a kernel that only multiplies, and gather + matmul in PyTorch over a BF16 cache. One figure is the median of
replays of a CUDA graph of 20 calls on 10 index sets in turn, over a pool far larger than the L2 cache.
"""

import argparse
import csv
import statistics
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

from cake_tune.cuda import build_options
from cake_tune.cuda.compiler import compiler_version
from cake_tune.cuda.identity import driver_version
from cake_tune.cuda.manifest import load_manifest
from cake_tune.errors import CakeTuneError
from cake_tune.mla import cake_sparse_mla_sm120_dsv4_nvfp4_decode, cake_sparse_mla_sm120_dsv4_nvfp4_prefill
from cake_tune.planner import cake_sparse_mla_sm120_dsv4_nvfp4_num_chunks as num_chunks

CALLS, INDEX_SETS, REPLAYS = 20, 10, 11
PAGES, PAGE_SIZE = 1 << 16, 64  # 1.6 GB
LATENT, ROW_BYTES, MAX_CHUNKS = 512, 384, 16
TARGETS = [(1, 16, 512), (8, 16, 2048), (64, 16, 512), (64, 16, 2048), (64, 64, 512), (64, 128, 2048)]
GRID = [(tokens, heads, topk) for tokens in (1, 8, 64, 256) for heads in (16, 64, 128) for topk in (128, 512, 2048)]

FLOORS = r"""
typedef unsigned u32; typedef unsigned char u8;
extern "C" __global__ void __launch_bounds__(256)
gather(const u8* cache, const int* indices, long long rows, int page_size, u32* sink) {
  // A warp reads eight rows at a time, 24 lanes to a row.
  const int lane = threadIdx.x % 32;
  const long long warp = (blockIdx.x * (long long)blockDim.x + threadIdx.x) / 32;
  const long long warps = (long long)gridDim.x * blockDim.x / 32;
  u32 sum = 0;
  for (long long first = warp * 8; first < rows; first += warps * 8) {
    uint4 v[8];
#pragma unroll
    for (int i = 0; i < 8; i++) {
      const int slot = __ldg(indices + first + i), page = slot / page_size, row = slot % page_size;
      const u8* base = cache + (long long)page * page_size * 384;
      const u8* piece = lane < 22 ? base + row * 352 + lane * 16 : base + page_size * 352 + row * 32 + (lane - 22) * 16;
      v[i] = lane < 24 ? __ldg((const uint4*)piece) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) sum += v[i].x ^ v[i].y ^ v[i].z ^ v[i].w;
  }
  if (sum == 0x12345) *sink = sum;
}
extern "C" __global__ void __launch_bounds__(256) multiply(int rounds, u32* sink) {
  // mma.sync m16n8k16, eight independent accumulators per warp.
  float d[8][4] = {};
  const u32 a = threadIdx.x * 0x00010001u & 0x03ff03ffu, b = 0x3c003c00u;
  for (int r = 0; r < rounds; r++)
#pragma unroll
    for (int i = 0; i < 8; i++)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                   "{%0,%1,%2,%3}, {%4,%4,%4,%4}, {%5,%5}, {%0,%1,%2,%3};"
                   : "+f"(d[i][0]), "+f"(d[i][1]), "+f"(d[i][2]), "+f"(d[i][3]) : "r"(a), "r"(b));
  float sum = 0.f;
  for (int i = 0; i < 8; i++) sum += d[i][0] + d[i][1] + d[i][2] + d[i][3];
  if (sum == 1.2345f) *sink = 1;
}
"""


@dataclass(frozen=True)
class Plan:
    kernel: str
    variant: str
    head_tiles: int
    num_splits: int
    chunks_per_block: int


@dataclass
class Inputs:
    """One shape's tensors; ``indices`` are the index sets that the calls take in turn."""

    q: torch.Tensor
    indices: list[torch.Tensor]
    output: torch.Tensor
    out_lse: torch.Tensor
    mid_out: torch.Tensor
    mid_lse: torch.Tensor


def make_pool(generator: torch.Generator) -> torch.Tensor:
    """Random pages: any codes, scales of 0.2 to 0.5, RoPE dims of unit variance."""
    pool = torch.empty(PAGES, PAGE_SIZE, 384, dtype=torch.uint8, device="cuda")
    pages = pool.view(PAGES, PAGE_SIZE * 384)
    for first in range(0, PAGES, 8192):
        part = pages[first : first + 8192]
        data = part[:, : PAGE_SIZE * 352].view(-1, PAGE_SIZE, 352)
        scales = part[:, PAGE_SIZE * 352 :].view(-1, PAGE_SIZE, 32)
        data[..., :224].random_(0, 256, generator=generator)
        rope = torch.randn(*data.shape[:2], 64, device="cuda", generator=generator).bfloat16()
        data[..., 224:] = rope.view(torch.uint8)
        scales.random_(0x24, 0x31, generator=generator)
        scales[..., 28:] = 0
    return pool


def make_inputs(shape: tuple[int, int, int], generator: torch.Generator) -> Inputs:
    tokens, heads, topk = shape
    chunks = num_chunks(topk)

    def slots() -> torch.Tensor:
        return torch.randint(
            0, PAGES * PAGE_SIZE, (tokens, topk), dtype=torch.int32, device="cuda", generator=generator
        )

    q = torch.randn(tokens, heads, LATENT, device="cuda", generator=generator).bfloat16()
    return Inputs(
        q=q,
        indices=[slots() for _ in range(INDEX_SETS)],
        output=torch.empty_like(q),
        out_lse=torch.empty(tokens, heads, device="cuda"),
        mid_out=torch.empty(tokens, heads, chunks, LATENT, dtype=torch.bfloat16, device="cuda"),
        mid_lse=torch.empty(tokens, heads, chunks, device="cuda"),
    )


def graph_microseconds(call: Callable[[int], object]) -> float:
    """Median time of ``call(i)`` in a graph of CALLS calls."""
    call(0)  # loads and compiles outside the capture
    call(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(CALLS):
            call(i % INDEX_SETS)
    times = []
    for _ in range(REPLAYS + 2):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3 / CALLS)
    return statistics.median(times[2:])


class Floors:
    """The two floors: bytes alone and matrix products alone."""

    def __init__(self) -> None:
        device = Device()
        device.set_current()
        self.sms = torch.cuda.get_device_properties(0).multi_processor_count
        major, minor = torch.cuda.get_device_capability()
        options = ProgramOptions(std="c++17", arch=f"sm_{major}{minor}")
        code = Program(FLOORS, "c++", options).compile("cubin", name_expressions=())
        self._gather, self._multiply = code.get_kernel("gather"), code.get_kernel("multiply")
        self._device, self._sink = device, torch.zeros(1, dtype=torch.int32, device="cuda")
        self.flops_per_microsecond = self._multiply_rate()

    def _launch(self, kernel: Any, blocks: int, *arguments: Any) -> None:
        stream = self._device.create_stream(_TorchStream(torch.cuda.current_stream()))
        launch(stream, LaunchConfig(grid=blocks, block=256), kernel, *arguments)

    def _multiply_rate(self) -> float:
        rounds, blocks = 2000, self.sms * 2
        time = graph_microseconds(lambda _: self._launch(self._multiply, blocks, rounds, self._sink.data_ptr()))
        return blocks * 8 * rounds * 8 * 2 * 16 * 8 * 16 / time

    def gather_microseconds(self, pool: torch.Tensor, inputs: Inputs) -> float:
        rows = inputs.indices[0].numel()

        def call(blocks: int, i: int) -> None:
            indices = inputs.indices[i].data_ptr()
            self._launch(self._gather, blocks, pool.data_ptr(), indices, rows, PAGE_SIZE, self._sink.data_ptr())

        grids = {min(self.sms * waves, max(1, rows // 64)) for waves in (4, 8, 16)}
        return min(graph_microseconds(lambda i, b=blocks: call(b, i)) for blocks in grids)  # type: ignore[misc]


class _TorchStream:
    def __init__(self, stream: torch.cuda.Stream) -> None:
        self._handle = stream.cuda_stream

    def __cuda_stream__(self) -> tuple[int, int]:
        return (0, self._handle)


def plans(shape: tuple[int, int, int], arch: str, sms: int) -> Iterator[Plan]:
    """Every plan worth timing: all splits, unless the grid is several waves deep without them."""
    tokens, heads, topk = shape
    chunks = num_chunks(topk)
    for name, variant in load_manifest().variants.items():
        tiles = variant.head_tiles
        if arch not in variant.archs or (tiles > 1 and heads % (16 * tiles)):
            continue
        blocks = tokens * -(-heads // (16 * tiles))
        seen = set()
        for per_block in range(min(MAX_CHUNKS, chunks), 0, -1):
            splits = -(-chunks // per_block)
            deep = splits > -(-chunks // MAX_CHUNKS) and blocks * splits * variant.threads > 8 * sms * 256
            if splits in seen or deep or splits > 32:
                continue
            seen.add(splits)
            per_block = -(-chunks // splits)  # noqa: PLW2901 - as the op resolves this many splits
            if "decode" in variant.kernels:
                yield Plan("decode", name, tiles, splits, per_block)
            elif splits == 1:
                yield Plan("prefill", name, tiles, 1, per_block)


def time_plan(plan: Plan, pool: torch.Tensor, inputs: Inputs) -> float:
    scale = LATENT**-0.5

    def call(i: int) -> None:
        arguments = (inputs.q, pool, inputs.indices[i], inputs.output, inputs.out_lse, scale)
        if plan.kernel == "prefill":
            cake_sparse_mla_sm120_dsv4_nvfp4_prefill(*arguments, head_tiles=plan.head_tiles)
        else:
            cake_sparse_mla_sm120_dsv4_nvfp4_decode(
                *arguments,
                mid_out=inputs.mid_out,
                mid_lse=inputs.mid_lse,
                num_splits=plan.num_splits,
                max_splits=32,
                head_tiles=plan.head_tiles,
            )

    with build_options(variant=plan.variant):
        return graph_microseconds(call)


def torch_microseconds(inputs: Inputs, rows: torch.Tensor) -> float:
    """Gather and two products over a BF16 cache of the same number of tokens."""

    def call(i: int) -> None:
        keys = rows[inputs.indices[i].long()]
        scores = torch.matmul(inputs.q, keys.transpose(1, 2)).float() * LATENT**-0.5
        torch.matmul(torch.softmax(scores, -1).bfloat16(), keys)

    return graph_microseconds(call)


def sm_clock() -> str:
    command = ["nvidia-smi", "--query-gpu=clocks.sm", "--format=csv,noheader,nounits", "-i", "0"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", choices=("target", "grid"), default="target")
    parser.add_argument("--csv", type=Path, help="write one row per shape here")
    parser.add_argument("--all-plans", type=Path, help="write one row per timed plan here")
    options = parser.parse_args()

    generator = torch.Generator("cuda").manual_seed(0)
    pool, floors = make_pool(generator), Floors()
    rows = torch.randn(PAGES * PAGE_SIZE, LATENT, dtype=torch.bfloat16, device="cuda")
    major, minor = torch.cuda.get_device_capability()
    arch = f"sm_{major}{minor}a"
    fixed = {"gpu": torch.cuda.get_device_name(), "driver": driver_version(), "compiler": compiler_version()}
    print(", ".join(map(str, fixed.values())), f"matrix rate {floors.flops_per_microsecond / 1e6:.0f} TFLOP/s")
    print("   T   H  topk       us  gather  matrix ratio TFLOP/s  TB/s  PyTorch  plan")
    best_rows, plan_rows = [], []
    for shape in TARGETS if options.shapes == "target" else GRID:
        tokens, heads, topk = shape
        inputs = make_inputs(shape, generator)
        flops, moved = 2 * tokens * heads * topk * 2 * LATENT, tokens * topk * ROW_BYTES
        gather, matrix = floors.gather_microseconds(pool, inputs), flops / floors.flops_per_microsecond
        timed = []
        for plan in plans(shape, arch, floors.sms):
            try:
                timed.append((time_plan(plan, pool, inputs), plan))
            except CakeTuneError as error:
                print(f"{plan}: {error}")
        time, plan = min(timed, key=lambda pair: pair[0])
        clock, baseline = sm_clock(), torch_microseconds(inputs, rows)
        key = {"num_tokens": tokens, "num_heads": heads, "topk": topk}
        plan_rows += [fixed | key | vars(other) | {"us": round(us, 3)} for us, other in timed]
        best_rows.append(
            fixed
            | {"sm_clock_mhz": clock}
            | key
            | vars(plan)
            | {"us": round(time, 3), "gather_us": round(gather, 3), "matrix_us": round(matrix, 3)}
            | {"ratio": round(time / max(gather, matrix), 3), "tflops": round(flops / time / 1e6, 1)}
            | {"tb_per_s": round(moved / time / 1e6, 3), "torch_us": round(baseline, 3)}
        )
        print(
            f"{tokens:>4} {heads:>3} {topk:>5} {time:>8.2f} {gather:>7.2f} {matrix:>7.2f} "
            f"{time / max(gather, matrix):>5.2f} {flops / time / 1e6:>7.0f} {moved / time / 1e6:>5.2f} "
            f"{baseline:>8.1f}  {plan.kernel} {plan.variant} {plan.num_splits} x {plan.chunks_per_block}",
            flush=True,
        )
    for path, table in ((options.csv, best_rows), (options.all_plans, plan_rows)):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w", newline="") as file:
                writer = csv.DictWriter(file, table[0].keys())
                writer.writeheader()
                writer.writerows(table)


if __name__ == "__main__":
    main()
