"""A grid of blocks over the cores: what the multiprocessors of a GPU are, worker threads are here.

Each worker holds one core: it is pinned where the system allows it, and runs torch with one thread, so that the grid
alone decides what is parallel. Blocks are handed out in order to whichever worker is free.
"""

import os
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

import torch

from cake_tune.mla.device import cpu_workers, usable_cores
from cake_tune.mla.workspace import Workspace

POLL_SECONDS = 0.05
"""How long the caller waits for a worker at a time. A signal that another thread was given, or that came just before
the wait, does not end a wait: Python acts on it when the caller's thread runs again."""

Kernel = Callable[[int, Workspace], None]
"""Runs the block of the given number with the worker's workspace."""

_pools: dict[int, list["_Worker"]] = {}
_starting = threading.Lock()


def run_grid(kernel: Kernel, blocks: int) -> None:
    """Run ``kernel`` for every block number below ``blocks`` and return when all have ended.

    The first error of a block ends the launch and is raised here; an interrupt ends it too.
    """
    workers = _workers()[:blocks]
    launch = _Launch(kernel, blocks)
    try:
        for worker in workers:
            worker.launches.put(launch)
        errors = [launch.end() for _ in workers]
    except BaseException:
        launch.stopped = True
        raise
    for error in errors:
        if error is not None:
            raise error


class _Launch:
    """One kernel over its blocks; the counter hands out block numbers, the queue collects the workers' ends."""

    def __init__(self, kernel: Kernel, blocks: int) -> None:
        self.kernel = kernel
        self.blocks = iter(range(blocks))
        self.ends: SimpleQueue[BaseException | None] = SimpleQueue()
        self.stopped = False

    def end(self) -> BaseException | None:
        """Wait until a worker has ended: its error, or None."""
        while True:
            try:
                return self.ends.get(timeout=POLL_SECONDS)
            except Empty:
                continue

    def drain(self, workspace: Workspace) -> None:
        failure = None
        try:
            for block in self.blocks:
                if self.stopped:
                    break
                self.kernel(block, workspace)
        except BaseException as error:
            failure, self.stopped = error, True
        self.ends.put(failure)


class _Worker(threading.Thread):
    """A thread that holds one core and its workspace, and drains launches until the process ends."""

    def __init__(self, core: int | None) -> None:
        super().__init__(name=f"cake-tune-worker-{core}", daemon=True)
        self.core = core
        self.launches: SimpleQueue[_Launch] = SimpleQueue()
        self.ready = threading.Event()

    def run(self) -> None:
        if self.core is not None:
            os.sched_setaffinity(0, {self.core})
        # Asked first: a thread that never was takes the process's count at its first parallel operator.
        torch.get_num_threads()
        torch.set_num_threads(1)
        # Not no_grad alone: only here may tensors be written that a caller made in inference mode.
        with torch.inference_mode():
            workspace = Workspace()
            self.ready.set()
            while True:
                launch = self.launches.get()
                launch.drain(workspace)


def _workers() -> list[_Worker]:
    count = cpu_workers()
    pool = _pools.get(count)
    if pool is None:
        with _starting:
            pool = _pools.get(count) or _start(count)
            _pools[count] = pool
    return pool


def _start(count: int) -> list[_Worker]:
    """Start the workers, and put back torch's thread count for the rest of the process.

    ``torch.set_num_threads`` takes effect in the calling thread and is also what threads started later begin with; the
    caller's own count is unharmed, so setting it once more restores the default.
    """
    cores = usable_cores() if hasattr(os, "sched_setaffinity") else []
    threads = torch.get_num_threads()
    workers = [_Worker(cores[index % len(cores)] if cores else None) for index in range(count)]
    for worker in workers:
        worker.start()
        worker.ready.wait()
    torch.set_num_threads(threads)
    return workers


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork: the child starts its own.
    os.register_at_fork(after_in_child=_pools.clear)
