"""What append, pack and dequantize refuse: the op's own errors, and their arguments."""

import re

import pytest
import torch

from cake_tune.errors import ContractError
from cake_tune.mla import (
    dequantize_sparse_mla_cache,
    nvfp4_quantize_append_sparse_mla_cache,
    nvfp4_quantize_pack_sparse_mla_cache,
)

BF16 = torch.bfloat16
PAGED = torch.zeros(4, 64, 384, dtype=torch.uint8)
MISALIGNED = torch.zeros(PAGED.numel() + 8, dtype=torch.uint8)[8:].view(PAGED.shape)
LATENTS = torch.zeros(3, 512, dtype=BF16)
SLOTS = torch.zeros(3, dtype=torch.int32)


@pytest.mark.parametrize(
    ("latents", "slots", "cache", "message"),
    [
        (LATENTS[:, :511], SLOTS, PAGED, "latent_kv: expected shape [rows, 512], got [3, 511]"),
        (LATENTS.view(3, 1, 512), SLOTS, PAGED, "latent_kv: expected shape [rows, 512], got [3, 1, 512]"),
        (LATENTS.float(), SLOTS, PAGED, "latent_kv: expected contiguous torch.bfloat16, got contiguous torch.float32"),
        (LATENTS.expand(2, 3, 512)[:, 0], SLOTS[:2], PAGED, "latent_kv: expected contiguous torch.bfloat16, got non-"),
        (
            LATENTS,
            SLOTS[:2],
            PAGED,
            "slot_mapping: expected int32 or int64 of shape [3], got contiguous torch.int32 [2]",
        ),
        (
            LATENTS,
            SLOTS.float(),
            PAGED,
            "slot_mapping: expected int32 or int64 of shape [3], got contiguous torch.float32",
        ),
        (LATENTS, SLOTS.to("meta"), PAGED, "slot_mapping: expected device cpu (latent_kv's), got meta"),
        (LATENTS, SLOTS, PAGED.to("meta"), "cache: expected device cpu (latent_kv's), got meta"),
        (LATENTS, SLOTS, PAGED.view(4, 64, 2, 192), "cache: expected shape [num_pages, page_size, 384]"),
        ([[0.0] * 512], SLOTS, PAGED, "latent_kv: expected a tensor of shape [rows, 512], got list"),
        (LATENTS, [0, 1, 2], PAGED, "slot_mapping: expected int32 or int64 of shape [3], got list"),
        (LATENTS, SLOTS, [0], "cache: expected a uint8 tensor, got list"),
        (LATENTS, SLOTS, MISALIGNED, "cache: expected a 16-byte aligned data pointer, got 0x"),
    ],
)
def test_append_refuses(latents, slots, cache, message):
    """Rows, slots and caches of the wrong kind."""
    with pytest.raises(ContractError, match=re.escape(message)):
        nvfp4_quantize_append_sparse_mla_cache(latents, slots, cache)


@pytest.mark.parametrize(
    ("latents", "layout", "message"),
    [
        (torch.zeros(2, 4, 512, dtype=BF16), "hnd", "kv_layout: expected 'HND' or 'NHD', got 'hnd'"),
        (torch.zeros(2, 4, 512), "HND", "latent_kv: expected contiguous torch.bfloat16, got contiguous torch.float32"),
        (torch.zeros(2, 4, 448, dtype=BF16), "HND", "latent_kv: expected shape [num_pages, page_size, 512]"),
        (torch.zeros(2, 4, 2, 512, dtype=BF16), "HND", "latent_kv: expected shape [num_pages, page_size, 512]"),
        (torch.zeros(2, 0, 512, dtype=BF16), "HND", "latent_kv: expected at least one token per page, got shape"),
        ([[[0.0] * 512]], "HND", "latent_kv: expected a tensor of shape [num_pages, page_size, 512]"),
        (torch.zeros(4, 2, 512, dtype=BF16).transpose(0, 1), "HND", "latent_kv: expected contiguous torch.bfloat16"),
    ],
)
def test_pack_refuses(latents, layout, message):
    """Latents and layouts of the wrong kind."""
    with pytest.raises(ContractError, match=re.escape(message)):
        nvfp4_quantize_pack_sparse_mla_cache(latents, kv_layout=layout)


@pytest.mark.parametrize(
    ("cache", "message"),
    [
        ([0], "cache: expected a uint8 tensor, got list"),
        (PAGED[..., :352], "cache: expected shape [num_pages, page_size, 384]"),
        (MISALIGNED, "cache: expected a 16-byte aligned data pointer, got 0x"),
    ],
)
def test_dequantize_refuses(cache, message):
    """What the op would refuse."""
    with pytest.raises(ContractError, match=re.escape(message)):
        dequantize_sparse_mla_cache(cache)


def test_append_writes_over_none_of_its_inputs():
    """A cache inside the latents or the slots, or one byte into them, is refused before a byte is written."""
    pool = torch.zeros(4 * 64 * 384 + 4096, dtype=torch.uint8)
    cache, rest = pool[: 4 * 64 * 384].view(4, 64, 384), pool[4 * 64 * 384 - 16 :]
    latents, slots = rest[:3072].view(BF16).view(3, 512), rest[:24].view(torch.int64)
    for name, arguments in (("latent_kv", (latents, SLOTS)), ("slot_mapping", (LATENTS, slots))):
        with pytest.raises(ContractError, match=f"cache: expected memory of its own, got memory that overlaps {name}"):
            nvfp4_quantize_append_sparse_mla_cache(*arguments, cache)
    assert not bool(pool.any())
    latents, slots = rest[16 : 16 + 3072].view(BF16).view(3, 512), rest[16:40].view(torch.int64)
    nvfp4_quantize_append_sparse_mla_cache(latents, SLOTS, cache)
    nvfp4_quantize_append_sparse_mla_cache(LATENTS, slots, cache)


def test_slots_may_be_strided():
    """A column of a table is a slot mapping; its gaps count as its memory."""
    table = torch.tensor([[5, 1], [9, 2], [7, 3]], dtype=torch.int32)
    strided, packed = torch.zeros_like(PAGED), torch.zeros_like(PAGED)
    rows = torch.randn(3, 512).bfloat16()
    nvfp4_quantize_append_sparse_mla_cache(rows, table[:, 0], strided)
    nvfp4_quantize_append_sparse_mla_cache(rows, table[:, 0].contiguous(), packed)
    assert torch.equal(strided, packed)


def test_the_append_op_itself_is_checked():
    """Compiled programs get the errors too, when they run."""
    with pytest.raises(ContractError, match="cache: expected a 16-byte aligned data pointer"):
        torch.ops.cake_tune.nvfp4_append_sparse_mla_cache(LATENTS, SLOTS, MISALIGNED)
    with pytest.raises(ContractError, match="slot_mapping: expected int32 or int64"):
        torch.ops.cake_tune.nvfp4_append_sparse_mla_cache(LATENTS, SLOTS[:2], PAGED)
