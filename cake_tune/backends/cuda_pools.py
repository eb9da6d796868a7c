"""Cache pools on a GPU, several times its L2, kept from shape to shape; and rings, which walk through them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from cake_tune.backends.sizing import as_large_as_fits
from cake_tune.planner.shape import BYTES_PER_TOKEN, QUERY_DIM

DISTINCT_TOKENS = 1 << 16
"""Tokens that are quantised; a pool repeats their pages in random order, so that a wrong address shows all the same."""
MEMORY_SHARE = 8
"""A pool takes one part in so many of the free memory at most, unless it needs more."""
KEPT_POOLS = 4
"""Two sides, and two page sizes in turn, without making one anew."""

Pack = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Pool:
    """A cache of random tokens, and its slots in random order (int32)."""

    cache: Tensor
    order: Tensor

    @property
    def slots(self) -> int:
        """Tokens that the cache holds."""
        return self.order.numel()


class Pools:
    """The pools of one worker, by the side that reads them (main or extra cache) and by page size."""

    def __init__(self, pack: Pack) -> None:
        self._pack = pack
        self._pools: dict[tuple[str, int, int], Pool] = {}

    def get(self, side: str, page_size: int, seed: int, *, least: int, wanted: int) -> Pool:
        """A pool of ``least`` slots or more: ``wanted`` where it is new and memory allows; else ``MemoryError``."""
        key = (side, page_size, seed)
        found = self._pools.pop(key, None)
        if found is None or found.slots < least:
            found = None  # before the larger one is made
            while len(self._pools) >= KEPT_POOLS:
                del self._pools[next(iter(self._pools))]
            free = torch.cuda.mem_get_info()[0] // MEMORY_SHARE // BYTES_PER_TOKEN
            found = as_large_as_fits(lambda slots: self._made(page_size, slots, seed), min(wanted, free), least)
        self._pools[key] = found
        return found

    def _made(self, page_size: int, slots: int, seed: int) -> Pool:
        with memory_errors():
            random = torch.Generator("cuda").manual_seed(seed)
            num_pages = -(-slots // page_size)
            distinct = min(num_pages, -(-DISTINCT_TOKENS // page_size))
            latents = torch.randn(distinct, page_size, QUERY_DIM, generator=random, device="cuda").bfloat16()
            pages = self._pack(latents)
            cache = pages[torch.randint(distinct, (num_pages,), generator=random, device="cuda")]
            order = torch.randperm(num_pages * page_size, generator=random, dtype=torch.int32, device="cuda")
            return Pool(cache, order)


class Ring:
    """An endless supply of index sets over a pool: a slot returns only after all the others were used."""

    def __init__(self, pool: Pool, per_call: tuple[int, int]) -> None:
        """Each index set is ``[T, topk]``, as ``per_call`` says."""
        self.pool = pool
        self.per_call = per_call
        self._next = 0

    def fill(self, sets: Tensor) -> None:
        """Write the next index sets into ``sets`` ``[count, T, topk]``."""
        flat, done = sets.view(-1), 0
        while done < flat.numel():
            part = self.pool.order[self._next : self._next + flat.numel() - done]
            flat[done : done + part.numel()].copy_(part)
            done += part.numel()
            self._next = (self._next + part.numel()) % self.pool.slots

    def sets(self, count: int) -> Tensor:
        """``count`` new index sets."""
        made = torch.empty(count, *self.per_call, dtype=torch.int32, device="cuda")
        self.fill(made)
        return made


@contextmanager
def memory_errors() -> Iterator[None]:
    """What torch cannot allocate is a ``MemoryError``, after its own cache was given back."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        torch.cuda.empty_cache()
        raise MemoryError(str(error).partition("\n")[0]) from error
