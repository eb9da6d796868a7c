"""The packed ``AttentionArgs`` is the struct of the ABI, field for field."""

import ctypes
import re

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from cake_tune.cuda.arguments import ARGUMENTS, pack_arguments, page_divider
from cake_tune.cuda.manifest import kernels_folder
from cake_tune.mla.cache import parse_cache
from cake_tune.mla.call import AttentionCall

C_TYPES = {"int": ctypes.c_int32, "u32": ctypes.c_uint32, "s64": ctypes.c_int64, "float": ctypes.c_float}
FIELD = re.compile(r"^\s+(?:const )?(\w+)(\*?) (\w+);\s+//\s+(\d+)\b", re.MULTILINE)


def structure(name, known):
    """The ctypes structure of ``struct name`` in args.cuh, its offsets checked against the header's comments."""
    text = (kernels_folder() / "args.cuh").read_text()
    body = re.search(rf"struct {name} \{{(.*?)\n\}};", text, re.DOTALL).group(1)
    found = FIELD.findall(body)
    types = [ctypes.c_uint64 if pointer else (C_TYPES | known)[kind] for kind, pointer, _, _ in found]
    fields = list(zip([field for _, _, field, _ in found], types, strict=True))
    made = type(name, (ctypes.LittleEndianStructure,), {"_fields_": fields})
    for _, _, field, offset in found:
        assert getattr(made, field).offset == int(offset)
    return made


CACHE_ARGS = structure("CacheArgs", {})
ATTENTION_ARGS = structure("AttentionArgs", {"CacheArgs": CACHE_ARGS})


def a_call(*, dual, splits):
    tokens, heads, topk, extra_topk = 3, 32, 300, 100 if dual else 0
    pool = torch.zeros(4, 48 * 384 + 32, dtype=torch.uint8)[:, : 48 * 384].view(4, 1, 48, 384)
    extra = torch.zeros(5, 3, 384, dtype=torch.uint8) if dual else None
    capacity = splits + 2
    return AttentionCall(
        kernel="decode",
        q=torch.zeros(tokens, heads, 512, dtype=torch.bfloat16),
        cache=parse_cache("kv_cache", pool),
        indices=torch.zeros(tokens, topk, dtype=torch.int32),
        output=torch.zeros(tokens, heads, 512, dtype=torch.bfloat16),
        out_lse=torch.zeros(tokens, heads),
        sm_scale=0.25,
        lse_scale=-1.5,
        topk_length=torch.zeros(tokens, dtype=torch.int32) if dual else None,
        attn_sink=torch.zeros(heads) if dual else None,
        extra_cache=parse_cache("extra_kv_cache", extra) if dual else None,
        extra_indices=torch.zeros(tokens, 1, extra_topk, dtype=torch.int32) if dual else None,
        extra_topk_length=None,
        mid_out=torch.zeros(tokens, heads, capacity, 512, dtype=torch.bfloat16) if splits > 1 else None,
        mid_lse=torch.zeros(tokens, heads, capacity) if splits > 1 else None,
        num_tokens=tokens,
        num_heads=heads,
        topk=topk,
        extra_topk=extra_topk,
        head_tiles=2,
        num_splits=splits,
        chunks_per_block=-(-(5 + (2 if dual else 0)) // splits),
    )


def packed(call):
    buffer = ctypes.create_string_buffer(ARGUMENTS.size)
    pack_arguments(buffer, call)
    return ATTENTION_ARGS.from_buffer_copy(buffer)


def address(tensor):
    return 0 if tensor is None else tensor.data_ptr()


def test_size_is_the_headers():
    """No padding is missing at the end."""
    assert ctypes.sizeof(ATTENTION_ARGS) == ARGUMENTS.size == 192
    assert ctypes.sizeof(CACHE_ARGS) == 56


@pytest.mark.parametrize("dual", [False, True])
@pytest.mark.parametrize("splits", [1, 3])
def test_every_field_is_where_the_header_has_it(dual, splits):
    """Pointers, sizes and factors, with and without the optional tensors."""
    call = a_call(dual=dual, splits=splits)
    args = packed(call)
    assert args.query == call.q.data_ptr()
    assert args.output == call.output.data_ptr()
    assert args.out_lse == call.out_lse.data_ptr()
    assert (args.mid_out, args.mid_lse) == (address(call.mid_out), address(call.mid_lse))
    assert args.sink == address(call.attn_sink)
    assert (args.num_tokens, args.num_heads) == (3, 32)
    assert args.num_chunks == (7 if dual else 5)
    assert (args.chunks_per_block, args.num_splits) == (call.chunks_per_block, splits)
    assert args.mid_splits == (5 if splits == 3 else 1)
    assert args.score_scale == pytest.approx(0.25 * 1.4426950408889634)
    assert args.lse_scale == -1.5


def test_caches_carry_their_own_pages():
    """Page size and stride of each cache, the list's width and stride, and lengths where there are any."""
    call = a_call(dual=True, splits=1)
    args = packed(call)
    main, extra = args.main, args.extra
    assert (main.cache, main.indices) == (call.cache.tensor.data_ptr(), call.indices.data_ptr())
    assert (main.page_stride, main.page_size, main.width, main.index_stride) == (48 * 384 + 32, 48, 300, 300)
    assert (main.lengths, extra.lengths) == (address(call.topk_length), 0)
    assert (extra.cache, extra.indices) == (call.extra_cache.tensor.data_ptr(), call.extra_indices.data_ptr())
    assert (extra.page_stride, extra.page_size, extra.width, extra.index_stride) == (3 * 384, 3, 100, 100)
    assert (main.page_magic, main.page_shift) == page_divider(48)


def test_absent_cache_is_all_zero():
    """The ABI wants 56 zero bytes."""
    assert bytes(packed(a_call(dual=False, splits=1)).extra) == bytes(56)


@given(st.integers(1, 2**31 - 1), st.integers(0, 2**31 - 1))
@example(1, 2**31 - 1)
@example(2**31 - 1, 2**31 - 1)
@example(3, 2**31 - 2)
def test_page_divider_divides(page_size, slot):
    """The kernel's multiply and shift is the integer division, and its operands fit 32 bits."""
    magic, shift = page_divider(page_size)
    assert 0 < magic < 2**32
    assert shift < 32
    assert 2 * slot * magic < 2**64
    assert (2 * slot * magic >> 32) >> shift == slot // page_size


@given(st.integers(1, 2**16), st.integers(1, 2**15))
def test_page_divider_divides_at_page_edges(page_size, pages):
    """The last slot of a page and the first of the next are told apart."""
    magic, shift = page_divider(page_size)
    edge = min(page_size * pages, 2**31 - 1)
    for slot in (edge - 1, edge):
        assert (2 * slot * magic >> 32) >> shift == slot // page_size
