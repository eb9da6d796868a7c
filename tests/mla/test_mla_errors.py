"""Every error of the contract: a ``ContractError`` that names the argument, what was expected and what came."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest
import torch
from mla_arguments import OPS, PAGE_SIZE, PAGES, call, valid_arguments

from cake_tune.errors import ContractError

BF16 = torch.bfloat16
NARROW = torch.empty(2, 32, 1024, dtype=BF16)[..., ::2]
PAGED = torch.empty(PAGES, PAGE_SIZE, 384, dtype=torch.uint8)


def strided(page_stride, page_size=PAGE_SIZE):
    """A cache view of two pages ``page_stride`` bytes apart."""
    pool = torch.zeros(2 * page_stride + page_size * 384, dtype=torch.uint8)
    return pool.as_strided((2, page_size, 384), (page_stride, 384, 1))


def misaligned(shape, dtype, byte_offset=8):
    """A contiguous tensor that starts ``byte_offset`` bytes after a 64-byte boundary."""
    elements = byte_offset // dtype.itemsize
    return torch.zeros(int(np.prod(shape)) + elements, dtype=dtype)[elements:].view(shape)


# Argument, the value that breaks it, and what the message says after the argument's name.
BROKEN = [
    ("q", [[1.0]], "expected a tensor of shape [num_tokens, num_heads, 512], got list"),
    ("q", torch.empty(2, 512, dtype=BF16), "expected a tensor of shape [num_tokens, num_heads, 512], got contiguous"),
    ("q", torch.empty(2, 24, 512, dtype=BF16), "expected one of 8, 16, 32, 48, 64, 80, 96, 112, 128 heads"),
    (
        "q",
        torch.empty(2, 32, 576, dtype=BF16),
        "expected contiguous torch.bfloat16 [2, 32, 512] on cpu, got contiguous",
    ),
    (
        "q",
        torch.empty(2, 32, 512),
        "expected contiguous torch.bfloat16 [2, 32, 512] on cpu, got contiguous torch.float32",
    ),
    ("q", NARROW, "expected contiguous torch.bfloat16 [2, 32, 512] on cpu, got non-contiguous torch.bfloat16"),
    ("q", misaligned((2, 32, 512), BF16), "expected a 16-byte aligned data pointer, got 0x"),
    ("kv_cache", None, "expected a uint8 tensor, got NoneType"),
    ("kv_cache", PAGED.view(torch.int8), "expected a uint8 tensor, got torch.int8"),
    ("kv_cache", torch.empty(4, 64, 352, dtype=torch.uint8), "expected shape [num_pages, page_size, 384], HND"),
    ("kv_cache", torch.empty(4, 2, 64, 384, dtype=torch.uint8), "expected shape [num_pages, page_size, 384], HND"),
    ("kv_cache", torch.empty(64, 384, dtype=torch.uint8), "expected shape [num_pages, page_size, 384], HND"),
    ("kv_cache", torch.empty(4, 0, 384, dtype=torch.uint8), "expected shape [num_pages, page_size, 384], HND"),
    ("kv_cache", torch.empty(4, 64, 768, dtype=torch.uint8)[..., ::2], "expected records packed inside each page"),
    ("kv_cache", torch.empty(4, 128, 384, dtype=torch.uint8)[:, ::2], "expected records packed inside each page"),
    ("kv_cache", strided(64 * 384 + 8), "expected a page stride that is a multiple of 16 bytes and at least page_size"),
    ("kv_cache", strided(63 * 384), "page_size * 384 = 24576, got 24192"),
    ("kv_cache", misaligned((4, 64, 384), torch.uint8), "expected a 16-byte aligned data pointer, got 0x"),
    ("kv_cache", PAGED.to("meta"), "expected device cpu (q's), got meta"),
    ("indices", torch.zeros(2, 130), "expected contiguous torch.int32 [2, 130] on cpu, got contiguous torch.float32"),
    ("indices", torch.zeros(2, 130, dtype=torch.int64), "expected contiguous torch.int32 [2, 130] on cpu"),
    ("indices", torch.zeros(3, 130, dtype=torch.int32), "expected contiguous torch.int32 [2, 130] on cpu"),
    ("indices", torch.zeros(130, dtype=torch.int32), "expected shape [num_tokens, topk] or [num_tokens, 1, topk]"),
    ("indices", torch.zeros(2, 2, 65, dtype=torch.int32), "expected shape [num_tokens, topk] or [num_tokens, 1, topk]"),
    ("indices", torch.zeros(2, 0, dtype=torch.int32), "expected topk >= 1, got 0"),
    ("indices", torch.zeros(2, 260, dtype=torch.int32)[:, ::2], "got non-contiguous torch.int32 [2, 130]"),
    ("indices", torch.zeros(2, 130, dtype=torch.int32, device="meta"), "torch.int32 [2, 130] on cpu, got contiguous"),
    ("indices", [[0] * 130] * 2, "expected shape [num_tokens, topk] or [num_tokens, 1, topk], got list"),
    ("output", torch.empty(2, 32, 512), "expected contiguous torch.bfloat16 [2, 32, 512] on cpu, got contiguous"),
    ("output", torch.empty(1, 32, 512, dtype=BF16), "expected contiguous torch.bfloat16 [2, 32, 512] on cpu"),
    ("output", NARROW, "expected contiguous torch.bfloat16 [2, 32, 512] on cpu, got non-contiguous"),
    ("output", torch.empty(2, 32, 512, dtype=BF16, device="meta"), "[2, 32, 512] on cpu, got contiguous"),
    ("output", misaligned((2, 32, 512), BF16), "expected a 16-byte aligned data pointer, got 0x"),
    ("out_lse", None, "expected contiguous torch.float32 [2, 32] on cpu, got None"),
    ("out_lse", torch.empty(2, 32, dtype=BF16), "expected contiguous torch.float32 [2, 32] on cpu"),
    ("out_lse", torch.empty(2, 32, 1), "expected contiguous torch.float32 [2, 32] on cpu"),
    ("out_lse", torch.empty(2, 32, device="meta"), "[2, 32] on cpu, got contiguous torch.float32 [2, 32] on meta"),
    ("out_lse", torch.empty(2, 64)[:, ::2], "got non-contiguous torch.float32 [2, 32]"),
    ("sm_scale", "1", "expected a real number, got '1'"),
    ("sm_scale", torch.tensor(1.0), "expected a real number, got Tensor"),
    ("sm_scale", True, "expected a real number, got True"),
    ("sm_scale", 1j, "expected a real number, got 1j"),
    ("sm_scale", math.inf, "expected a finite number below 2^127, got inf"),
    ("sm_scale", 2.0**127, "expected a finite number below 2^127, got 1.7"),
    ("sm_scale", Fraction(10**400), "expected a finite number below 2^127, got Fraction(1000"),
    ("sm_scale", np.float32(math.nan), "expected a finite number below 2^127, got nan"),
    ("lse_scale", None, "expected a real number, got None"),
    ("lse_scale", np.bool_(True), "expected a real number, got"),
    ("lse_scale", math.nan, "expected a finite number below 2^127, got nan"),
    ("lse_scale", -math.inf, "expected a finite number below 2^127, got -inf"),
    ("topk_length", torch.ones(1, dtype=torch.int32), "expected contiguous 1-D torch.int32 of at least num_tokens = 2"),
    ("topk_length", torch.ones(2, dtype=torch.int64), "expected contiguous 1-D torch.int32 of at least num_tokens = 2"),
    ("topk_length", torch.ones(2, 1, dtype=torch.int32), "expected contiguous 1-D torch.int32"),
    ("topk_length", torch.ones(4, dtype=torch.int32)[::2], "got non-contiguous torch.int32 [2]"),
    ("topk_length", torch.ones(2, dtype=torch.int32, device="meta"), "entries on cpu, got contiguous torch.int32 [2]"),
    ("topk_length", [130, 130], "of at least num_tokens = 2 entries on cpu, got list"),
    ("attn_sink", torch.zeros(31), "expected contiguous 1-D torch.float32 of at least num_heads = 32 entries on cpu"),
    ("attn_sink", torch.zeros(32, dtype=BF16), "expected contiguous 1-D torch.float32 of at least num_heads = 32"),
    ("attn_sink", torch.zeros(32, device="meta"), "entries on cpu, got contiguous torch.float32 [32] on meta"),
    ("extra_kv_cache", None, "expected a tensor beside extra_indices (both or neither), got None"),
    ("extra_kv_cache", strided(63 * 384), "page_size * 384 = 24576, got 24192"),
    ("extra_kv_cache", PAGED.to("meta"), "expected device cpu (q's), got meta"),
    ("extra_kv_cache", misaligned((4, 64, 384), torch.uint8), "expected a 16-byte aligned data pointer, got 0x"),
    ("extra_indices", None, "expected a tensor beside extra_kv_cache (both or neither), got None"),
    ("extra_indices", torch.zeros(2, 0, dtype=torch.int32), "expected topk >= 1, got 0"),
    ("extra_indices", torch.zeros(3, 64, dtype=torch.int32), "expected contiguous torch.int32 [2, 64] on cpu"),
    ("extra_indices", torch.zeros(2, 64), "expected contiguous torch.int32 [2, 64] on cpu, got contiguous torch.float"),
    ("extra_indices", torch.zeros(2, 64, dtype=torch.int32, device="meta"), "torch.int32 [2, 64] on cpu, got"),
    ("extra_topk_length", torch.ones(1, dtype=torch.int32), "of at least num_tokens = 2 entries"),
    ("extra_topk_length", torch.ones(2), "expected contiguous 1-D torch.int32"),
    (
        "extra_topk_length",
        torch.ones(2, dtype=torch.int32, device="meta"),
        "entries on cpu, got contiguous torch.int32",
    ),
    ("head_tiles", 3, "expected one of 1, 2 for 32 heads, got 3"),
    ("head_tiles", 0, "expected one of 1, 2 for 32 heads, got 0"),
    ("head_tiles", "2", "expected one of 1, 2 for 32 heads, got '2'"),
    ("head_tiles", True, "expected one of 1, 2 for 32 heads, got True"),
    ("head_tiles", 1.0, "expected one of 1, 2 for 32 heads, got 1.0"),
]
BROKEN_IN_DECODE = [
    ("num_splits", 0, "expected an integer >= 1, got 0"),
    ("num_splits", -1, "expected an integer >= 1, got -1"),
    ("num_splits", 1.5, "expected an integer >= 1, got 1.5"),
    ("num_splits", 2.0, "expected an integer >= 1, got 2.0"),
    ("num_splits", True, "expected an integer >= 1, got True"),
    ("num_splits", np.float64(2), "expected an integer >= 1, got"),
    ("num_splits", torch.tensor(2), "expected an integer >= 1, got Tensor"),
    ("max_splits", None, "expected an integer >= 1, got None"),
    ("max_splits", "4", "expected an integer >= 1, got '4'"),
    ("max_splits", 2.5, "expected an integer >= 1, got 2.5"),
    ("max_splits", True, "expected an integer >= 1, got True"),
    ("max_splits", 0, "expected an integer >= 1, got 0"),
    ("mid_out", None, "expected scratch for a plan of 2 splits, got None"),
    ("mid_out", torch.empty(2, 32, 1, 512, dtype=BF16), "expected shape [2, 32, >= 2, 512] for a plan of 2 splits"),
    ("mid_out", torch.empty(64, 3, 512, dtype=BF16), "expected shape [2, 32, >= 2, 512] for a plan of 2 splits"),
    ("mid_out", torch.empty(2, 16, 3, 512, dtype=BF16), "expected contiguous torch.bfloat16 [2, 32, 3, 512] on cpu"),
    ("mid_out", torch.empty(2, 32, 3, 512), "expected contiguous torch.bfloat16 [2, 32, 3, 512] on cpu"),
    ("mid_out", torch.empty(2, 32, 3, 1024, dtype=BF16)[..., ::2], "got non-contiguous torch.bfloat16 [2, 32, 3, 512]"),
    ("mid_out", misaligned((2, 32, 3, 512), BF16), "expected a 16-byte aligned data pointer, got 0x"),
    ("mid_lse", None, "expected scratch for a plan of 2 splits, got None"),
    ("mid_lse", torch.empty(2, 32, 4), "expected contiguous torch.float32 [2, 32, 3] on cpu"),
    ("mid_lse", torch.empty(2, 32, 3, dtype=BF16), "expected contiguous torch.float32 [2, 32, 3] on cpu"),
    ("mid_lse", torch.empty(2, 32, 6)[..., ::2], "got non-contiguous torch.float32 [2, 32, 3]"),
    ("mid_lse", torch.empty(2, 32, 3, device="meta"), "[2, 32, 3] on cpu, got contiguous torch.float32 [2, 32, 3] on"),
    ("mid_out", torch.empty(2, 32, 3, 512, dtype=BF16, device="meta"), "[2, 32, 3, 512] on cpu, got contiguous"),
    ("mid_out", [0], "expected shape [2, 32, >= 2, 512] for a plan of 2 splits, got list"),
]
EVERY = [("decode", *row) for row in BROKEN + BROKEN_IN_DECODE] + [("prefill", *row) for row in BROKEN]


def refused(kernel, name, message, **arguments):
    """The call is refused with the argument's name and the message, before anything is written."""
    output = arguments.get("output")
    if isinstance(output, torch.Tensor) and output.device.type == "cpu":
        output.fill_(3)
    with pytest.raises(ContractError, match=f"^{re.escape(name)}: .*{re.escape(message)}") as caught:
        call(kernel, **arguments)
    assert isinstance(caught.value, ValueError)
    assert ", got " in str(caught.value)
    if isinstance(output, torch.Tensor) and output.device.type == "cpu":
        assert bool((output == 3).all())


@pytest.mark.parametrize(("kernel", "name", "value", "message"), EVERY)
def test_a_broken_argument_is_named(kernel, name, value, message):
    """Each argument of the wrong rank, dtype, device, size, contiguity, stride or alignment."""
    refused(kernel, name, message, **valid_arguments(kernel, **{name: value}))


@pytest.mark.parametrize("kernel", OPS)
def test_the_unbroken_call_runs(kernel):
    """The arguments that the other tests break are right as they are."""
    assert call(kernel, **valid_arguments(kernel))["head_tiles"] == 1


@pytest.mark.parametrize("kernel", OPS)
def test_lengths_of_a_missing_cache_are_refused(kernel):
    """extra_topk_length without an extra cache is a mistake, not something to ignore."""
    arguments = valid_arguments(kernel, extra_kv_cache=None, extra_indices=None)
    refused(kernel, "extra_topk_length", "expected None without extra_kv_cache, got a tensor", **arguments)


def test_two_tiles_need_heads_for_them():
    """head_tiles 2 where the head count has no two-tile instance."""
    refused("decode", "head_tiles", "expected 1 for 48 heads, got 2", **valid_arguments(num_heads=48, head_tiles=2))


def test_decode_has_no_four_tiles():
    """Four tiles are prefill's alone."""
    refused(
        "decode",
        "head_tiles",
        "expected one of 1, 2 for 64 heads, got 4",
        **valid_arguments(num_heads=64, head_tiles=4),
    )


def test_splits_that_leave_too_much_are_refused():
    """More than 16 chunks for one block."""
    arguments = valid_arguments(topk=2048, num_splits=2)
    refused(
        "decode", "num_splits", "expected at most 16 chunks per block, got 17 (33 chunks over 2 splits)", **arguments
    )


def test_max_splits_below_what_the_shape_needs_is_refused():
    """33 chunks need three blocks."""
    arguments = valid_arguments(topk=2048, num_splits=None, head_tiles=None, max_splits=2)
    refused("decode", "max_splits", "expected at least ceil(33 chunks / 16) = 3", **arguments)
    # Also where num_splits is given and leaves it nothing to decide.
    for tiles in (None, 1):
        arguments |= {"num_splits": 3, "head_tiles": tiles}
        refused("decode", "max_splits", "expected at least ceil(33 chunks / 16) = 3", **arguments)


def test_prefill_is_refused_eight_heads_and_seventeen_chunks():
    """What has no prefill instance."""
    heads = valid_arguments("prefill", num_heads=8)
    refused(
        "prefill", "q", "expected one of 16, 32, 48, 64, 80, 96, 112, 128 heads for prefill (axis 1), got 8", **heads
    )
    chunks = valid_arguments("prefill", topk=1024)
    refused("prefill", "indices", "expected at most 16 chunks of 64 candidates for prefill, got 17", **chunks)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("output", "q"),
        ("output", "kv_cache"),
        ("output", "extra_kv_cache"),
        ("out_lse", "attn_sink"),
        ("out_lse", "indices"),
        ("out_lse", "output"),
        ("mid_out", "output"),
        ("mid_out", "q"),
        ("mid_lse", "out_lse"),
        ("mid_lse", "mid_out"),
        ("mid_lse", "topk_length"),
    ],
)
def test_written_memory_overlaps_nothing(written, read):
    """An output or scratch inside, or one element into, what is read or written otherwise."""
    arguments = valid_arguments()
    target, other = arguments[written], arguments[read]
    pool = torch.zeros(target.nbytes + other.nbytes, dtype=torch.uint8)
    inside = pool[: other.nbytes].view(other.dtype).view(other.shape)
    inside.copy_(other)
    start = max(0, other.nbytes - 16)
    arguments[read] = inside
    arguments[written] = pool[start : start + target.nbytes].view(target.dtype).view(target.shape)
    with pytest.raises(ContractError, match=r"expected memory of its own, got memory that overlaps") as caught:
        call(**arguments)
    assert written in str(caught.value) and read in str(caught.value)


def test_inputs_may_share_memory():
    """Two caches in one pool, as serving engines keep them, are no aliasing."""
    arguments = valid_arguments()
    arguments["extra_kv_cache"] = arguments["kv_cache"]
    assert call(**arguments)["num_splits"] == 2
