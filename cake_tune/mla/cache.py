"""Pages of the NVFP4 latent cache: where the bytes of a token are, whatever view of the pool the caller passes.

A page of ``page_size`` tokens holds ``page_size`` data rows of 352 bytes (224 bytes of E2M1 codes, two dims per byte
with the even dim in the low nibble, then 128 bytes of BF16 RoPE), then ``page_size`` scale rows of 32 bytes (28 E4M3
scales, 4 bytes of padding). So the last axis of a cache tensor (384) is a logical record, not a contiguous one, and
pages are addressed by bytes from the base pointer and the page stride.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from cake_tune.errors import ContractError

HEAD_DIM = 512
"""Dims of a latent: queries, keys and values."""
NOPE_DIM = 448
"""Leading dims, kept as E2M1 codes with E4M3 scales."""
ROPE_DIM = HEAD_DIM - NOPE_DIM
"""Trailing dims, kept as BF16."""
GROUP = 16
"""NoPE dims that share one scale."""
CODE_BYTES = NOPE_DIM // 2
DATA_BYTES = CODE_BYTES + 2 * ROPE_DIM
SCALES = NOPE_DIM // GROUP
SCALE_BYTES = 32
RECORD_BYTES = DATA_BYTES + SCALE_BYTES
ALIGNMENT = 16
"""Bytes that base pointers and page strides are multiples of: the width of one vector load."""


class CachePages(NamedTuple):
    """A cache view reduced to its bytes: page ``p`` starts ``p * page_stride`` bytes after ``tensor``'s first byte."""

    tensor: Tensor
    num_pages: int
    page_size: int
    page_stride: int
    span_bytes: int
    """Bytes from the first byte of the first page to the end of the last page."""

    @property
    def num_slots(self) -> int:
        """Tokens that the pages can hold: valid slots are below it."""
        return self.num_pages * self.page_size

    def windows(self, byte_offset: int, width: int, dtype: torch.dtype) -> Tensor:
        """Every ``width``-element window of ``dtype`` that starts at a multiple of 16 bytes after ``byte_offset``.

        The windows overlap, so the view costs nothing, and row ``n`` of it is found with one index whatever the page
        size and stride, as all rows of the format start at multiples of 16 bytes. On the CPU alone.
        """
        size = dtype.itemsize
        last = self.span_bytes - byte_offset - width * size
        # By way of NumPy, for a storage that starts with the pages: torch counts an offset in elements from the start
        # of the storage, which another library's memory may have at an odd address.
        flat = torch.from_numpy(byte_view(self).numpy()).view(dtype)
        return flat.as_strided((max(0, last // ALIGNMENT + 1), width), (ALIGNMENT // size, 1), byte_offset // size)

    def data_rows(self) -> Tensor:
        """View ``[num_pages, page_size, 352]`` of the data rows."""
        return self._rows(0, DATA_BYTES)

    def scale_rows(self) -> Tensor:
        """View ``[num_pages, page_size, 32]`` of the scale rows, padding included."""
        return self._rows(self.page_size * DATA_BYTES, SCALE_BYTES)

    def _rows(self, byte_offset: int, width: int) -> Tensor:
        shape, strides = (self.num_pages, self.page_size, width), (self.page_stride, width, 1)
        return self.tensor.as_strided(shape, strides, self.tensor.storage_offset() + byte_offset)


def byte_view(pages: CachePages) -> Tensor:
    """All bytes of the pages, padding between them included, as one flat uint8 view."""
    return pages.tensor.as_strided((pages.span_bytes,), (1,))


def parse_cache(name: str, tensor: Tensor) -> CachePages:
    """The pages behind a cache view; ``name`` is the argument's name in errors.

    Takes uint8 ``[num_pages, page_size, 384]``, HND ``[num_pages, 1, page_size, 384]`` or NHD
    ``[num_pages, page_size, 1, 384]``; a 4-D view whose axis 1 is 1 is HND. Raises ``ContractError`` on another shape
    or dtype, records that are not packed inside a page, or a page stride that is too small or no multiple of 16.
    """
    if not isinstance(tensor, Tensor) or tensor.dtype is not torch.uint8:
        got = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
        raise ContractError(f"{name}: expected a uint8 tensor, got {got}")
    shape, strides = tensor.shape, tensor.stride()
    if len(shape) == 4:
        num_pages, page_size, heads, width = shape
        page_stride, row_stride, _, byte_stride = strides
        if page_size == 1:  # HND
            page_size, heads, row_stride = heads, 1, strides[2]
    elif len(shape) == 3:
        (num_pages, page_size, width), heads = shape, 1
        page_stride, row_stride, byte_stride = strides
    else:
        heads = 0
    if heads != 1 or width != RECORD_BYTES or page_size < 1:
        raise ContractError(
            f"{name}: expected shape [num_pages, page_size, {RECORD_BYTES}], HND [num_pages, 1, page_size, "
            f"{RECORD_BYTES}] or NHD [num_pages, page_size, 1, {RECORD_BYTES}], got {list(shape)}"
        )
    if byte_stride != 1 or (page_size > 1 and row_stride != RECORD_BYTES):
        raise ContractError(f"{name}: expected records packed inside each page, got strides {list(strides)}")
    packed = page_size * RECORD_BYTES
    if num_pages < 2:  # and then a span of nothing for no pages
        page_stride = packed
    if page_stride < packed or page_stride % ALIGNMENT:
        raise ContractError(
            f"{name}: expected a page stride that is a multiple of {ALIGNMENT} bytes and at least "
            f"page_size * {RECORD_BYTES} = {packed}, got {page_stride}"
        )
    return CachePages(tensor, num_pages, page_size, page_stride, (num_pages - 1) * page_stride + packed)
