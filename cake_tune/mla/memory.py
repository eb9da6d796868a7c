"""Where the tensors of a call lie: pointers of vector loads are aligned, and what is written is apart from all else."""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from torch import Tensor

from cake_tune.errors import ContractError
from cake_tune.mla.cache import ALIGNMENT, CachePages

Span = tuple[int, int]
"""Addresses of a tensor's first byte and of the one after its last."""


def span(tensor: Tensor) -> Span:
    """Where a tensor lies, from its first element to its last."""
    start = tensor.data_ptr()
    if tensor.numel() == 0:
        return start, start
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (last + 1) * tensor.itemsize


def cache_span(pages: CachePages) -> Span:
    """Where a cache lies, the padding between its pages included."""
    start = pages.tensor.data_ptr()
    return start, start + pages.span_bytes


def check_aligned(name: str, address: int) -> None:
    """``ContractError`` unless vector loads and stores can start at ``address``."""
    if address % ALIGNMENT:
        raise ContractError(f"{name}: expected a {ALIGNMENT}-byte aligned data pointer, got {address:#x}")


def check_apart(written: Mapping[str, Span], read: Mapping[str, Span]) -> None:
    """``ContractError`` that names two spans, one of them written, that share a byte; what is only read may."""
    left, only_read = dict(written), dict(read)
    while left:
        name, (start, stop) = left.popitem()
        for other, (other_start, other_stop) in (left | only_read).items():
            if start < other_stop and other_start < stop:
                raise ContractError(f"{name}: expected memory of its own, got memory that overlaps {other}")


def are_apart(starts: list[int], stops: list[int], written: Sequence[Span]) -> bool:
    """Whether no span of ``written``, none of them empty, shares a byte with any other; what is only read may.

    ``starts`` and ``stops`` are those of all spans, and are sorted here. A span has its bytes to itself exactly when
    the others that start before its end are those that stop before its start, and it takes two searches to count both.
    """
    starts.sort()
    stops.sort()
    for start, stop in written:  # noqa: SIM110  (a generator takes a third as long again)
        if bisect_left(starts, stop) - bisect_right(stops, start) != 1:
            return False
    return True
