"""Independent tasks over worker processes: results in order, and one end for all."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import TypeVar

from cake_tune.errors import CakeTuneError
from cake_tune.journal.second import end_with_parent, may_start

_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""What the libraries behind numpy and scipy take their number of threads from."""

B = TypeVar("B")


def spread(tasks: Sequence[Callable[[], B]], processes: int, tell: Callable[[B], None]) -> list[B]:
    """What each task returns, in their order; ``tell`` hears of each, in the same order.

    ``processes`` workers share the tasks; 1, or a program that cannot start any, does them here. What a task raises is
    raised here, and so is Ctrl-C; then, or when a worker is lost (``CakeTuneError``), all workers end at once.
    """
    results: list[B] = []
    with _workers(min(processes, len(tasks))) as pool:
        if pool is None:
            waited: Iterator[Callable[[], B]] = iter(tasks)
        else:
            with _sigint_held():
                waited = iter([pool.submit(task).result for task in tasks])
        for result in waited:
            results.append(result())
            tell(results[-1])
    return results


@contextmanager
def _workers(processes: int) -> Iterator[ProcessPoolExecutor | None]:
    if processes < 2 or not may_start():
        yield None
        return
    others = active_children()
    pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"), initializer=_begin)
    try:
        yield pool
    except BaseException as error:
        # Nobody waits for what they are at, which can take long.
        for child in active_children():
            if child not in others:
                child.kill()
        if isinstance(error, BrokenProcessPool):
            raise CakeTuneError(
                "a worker process was lost (killed, or out of memory); nothing was written: try fewer --processes"
            ) from error
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _sigint_held() -> Iterator[None]:
    """Hold Ctrl-C back for a moment; processes started in it never hear of it, and leave the end to this one."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """In a worker, before numpy is loaded: one thread, since there are as many workers as cores."""
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    end_with_parent()
