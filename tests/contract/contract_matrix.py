"""One generator of contract cases for every device: the CPU runs a covering selection, a GPU runs more of the same.

``cases()`` covers every pair of axis values, and every distinct split of every topk and tile; ``check_case`` runs one
on a device and judges it against the reference at the contract's accuracy. Tests on a GPU take ``cases(full=True)``.
"""

import itertools
import random
from dataclasses import dataclass, fields, replace

import torch
from contract_inputs import ContractInputs, make_inputs
from covering import cover_pairs
from torch import Tensor

from cake_tune.mla import (
    cake_sparse_mla_sm120_dsv4_nvfp4_decode,
    cake_sparse_mla_sm120_dsv4_nvfp4_prefill,
    check_accuracy,
    sparse_mla_reference,
)
from cake_tune.planner.shape import (
    HEAD_COUNTS,
    PREFILL_TILES,
    decode_tiles,
    distinct_splits,
    head_blocks,
    num_chunks,
    prefill_tiles,
)

TOPKS = (1, 63, 64, 65, 128, 512, 1152, 2048)
PAGE_SIZES = (1, 2, 32, 48, 64, 128)

AXES: dict[str, tuple[object, ...]] = {
    "num_tokens": (1, 2, 3, 5, 17),
    "num_heads": HEAD_COUNTS,
    "topk": TOPKS,
    "extra_topk": (0, 1, 64, 100, 512),
    "page_size": PAGE_SIZES,
    "extra_page_size": PAGE_SIZES,
    "layout": ("3-D", "HND", "NHD"),
    "padding": (0, 16, 272),
    "lengths": ("none", "full", "random", "zeros among full", "out of range"),
    "mask": ("none", "random", "whole rows"),
    "sink": ("none", "finite", "+large", "-large", "-inf", "mixed"),
    "lse_scale": (1.0, 0.6931471805599453, -2.0, 0.0),
    "splits": ("one", "two", "three", "five", "most", "planner"),
    "tiles": ("fewest", "most", "planner"),
    "indices_rank": (2, 3),
}
PREFILL_AXES = {axis: values for axis, values in AXES.items() if axis != "splits"} | {
    "num_heads": tuple(PREFILL_TILES),
    "topk": tuple(topk for topk in TOPKS if topk <= 512),
}

CPU_WORK = 1 << 19
"""Most tokens x heads x candidates of a case in the covering selection; longer ones run with fewer tokens."""


@dataclass(frozen=True, slots=True)
class Case:
    """One call of the op: a value for every axis."""

    kernel: str = "decode"
    num_tokens: int = 1
    num_heads: int = 16
    topk: int = 64
    extra_topk: int = 0
    page_size: int = 64
    extra_page_size: int = 64
    layout: str = "HND"
    padding: int = 0
    lengths: str = "none"
    mask: str = "none"
    sink: str = "none"
    lse_scale: float = 1.0
    splits: str | int = "planner"
    tiles: str | int = "planner"
    indices_rank: int = 2

    def __str__(self) -> str:
        """What differs from the defaults, for test ids."""
        plain = Case()
        return "-".join(
            f"{field.name}={getattr(self, field.name)}"
            for field in fields(self)
            if getattr(self, field.name) != getattr(plain, field.name)
        )

    @property
    def chunks(self) -> int:
        return num_chunks(self.topk, self.extra_topk)


def cases(full: bool = False) -> list[Case]:
    """The selection: pairs of all axes, then every split; ``full`` covers the pairs four times over, at any size."""
    selection: dict[Case, None] = {}
    for seed in range(4 if full else 1):
        for kernel, axes in (("decode", AXES), ("prefill", PREFILL_AXES)):
            for values in cover_pairs(axes, random.Random(seed)):
                case = Case(kernel, **values)
                selection[case if full else _affordable(case)] = None
    selection |= dict.fromkeys(every_split())
    selection[Case("prefill", num_tokens=2, num_heads=64, topk=1024, sink="finite")] = None
    return list(selection)


def every_split() -> list[Case]:
    """Every distinct number of splits of every topk, alone and with an extra cache, in one and two tiles."""
    found = []
    for topk, extra, (heads, tiles) in itertools.product(TOPKS, (0, 65), ((16, 1), (32, 2))):
        for splits, _ in distinct_splits(num_chunks(topk, extra)):
            case = Case(num_tokens=2, num_heads=heads, topk=topk, extra_topk=extra, splits=splits, tiles=tiles)
            found.append(replace(case, mask="random", lengths="random", sink="mixed", page_size=48))
    return found


def overrides(case: Case) -> dict[str, int | None]:
    """The num_splits and head_tiles arguments of a case; prefill has no num_splits."""
    tiles = decode_tiles(case.num_heads) if case.kernel == "decode" else prefill_tiles(case.num_heads, case.chunks)
    named_tiles = {"fewest": tiles[0], "most": tiles[-1], "planner": None}
    head_tiles = case.tiles if isinstance(case.tiles, int) else named_tiles[case.tiles]
    if case.kernel == "prefill":
        return {"head_tiles": head_tiles}
    options = [splits for splits, _ in distinct_splits(case.chunks)]
    named = {"one": 1, "two": 2, "three": 3, "five": 5, "most": options[-1]}
    if case.splits == "planner":
        return {"head_tiles": head_tiles, "num_splits": None}
    wanted = case.splits if isinstance(case.splits, int) else named[case.splits]
    return {"head_tiles": head_tiles, "num_splits": max(wanted, options[0])}


def run_case(case: Case, inputs: ContractInputs) -> dict[str, int]:
    """Call the op on the inputs; returns the plan it reports."""
    arguments = inputs.arguments | overrides(case)
    if case.kernel == "prefill":
        return cake_sparse_mla_sm120_dsv4_nvfp4_prefill(*inputs.positional, **arguments)
    return cake_sparse_mla_sm120_dsv4_nvfp4_decode(
        *inputs.positional, **arguments, mid_out=inputs.mid_out, mid_lse=inputs.mid_lse, max_splits=case.chunks
    )


def check_case(case: Case, device: str) -> float:
    """Run a case on ``device`` and judge everything it promises; returns the relative error."""
    inputs = make_inputs(case, device)
    before = {name: _bytes(tensor) for name, tensor in inputs.read.items()}
    plan = run_case(case, inputs)
    _check_plan(case, plan)
    reference = sparse_mla_reference(inputs.q, inputs.cache, inputs.indices, inputs.sm_scale, **inputs.arguments)
    error = check_accuracy(inputs.output, inputs.out_lse, *reference)
    for name, tensor in inputs.read.items():
        assert torch.equal(_bytes(tensor), before[name]), f"{name} was written"
    return error


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.clone(memory_format=torch.contiguous_format).view(torch.uint8)


def _check_plan(case: Case, plan: dict[str, int]) -> None:
    asked = overrides(case)
    if asked["head_tiles"] is not None:
        assert plan["head_tiles"] == asked["head_tiles"]
    if case.kernel == "prefill":
        assert plan["num_ctas"] == case.num_tokens * head_blocks(case.num_heads, plan["head_tiles"])
        return
    assert (plan["num_splits"], plan["chunks_per_block"]) in distinct_splits(case.chunks)
    if asked["num_splits"] is not None:
        assert plan["num_splits"] <= asked["num_splits"]


def _affordable(case: Case) -> Case:
    per_token = case.num_heads * (case.topk + case.extra_topk)
    return replace(case, num_tokens=max(1, min(case.num_tokens, CPU_WORK // per_token)))
