"""A second process for runs whose journal is long: a short one is read before a process has started."""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import current_process, get_context, parent_process
from pathlib import Path
from threading import Thread
from typing import TypeVar

from cake_tune.journal.run import RunDirectory

LARGE = 64 * 2**20
"""Bytes from which a journal counts as long."""

A = TypeVar("A")
B = TypeVar("B")


@contextmanager
def second_process(run: RunDirectory) -> Iterator[Executor | None]:
    """An executor with one process beside this one if the journal of ``run`` is long, else None.

    None, too, where no process can be started from here (see ``may_start``). The process ends with this one, however
    this one ends.
    """
    if not run.journal.exists() or run.journal.stat().st_size < LARGE or not may_start():
        yield None
        return
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=end_with_parent) as second:
        yield second


def begun(second: Executor | None, function: Callable[[], B]) -> Callable[[], B]:
    """What waits for the result of ``function``, begun in the process ``second``.

    Without one, or if it is lost before it has answered (killed, or unable to start), ``function`` runs here, when its
    result is asked for.
    """
    if second is None:
        return function
    try:
        future = second.submit(function)
    except BrokenProcessPool:
        return function

    def result() -> B:
        try:
            return future.result()
        except BrokenProcessPool:
            return function()

    return result


def halved(second: Executor | None, function: Callable[[A], B], items: Sequence[A]) -> list[B]:
    """``function`` of each of ``items``, in their order: the second half in the process ``second``, if there is one.

    What it raises for the first of the items for which it raises is raised here.
    """
    middle = len(items) if second is None else (len(items) + 1) // 2
    theirs = [begun(second, partial(function, item)) for item in items[middle:]]
    return [function(item) for item in items[:middle]] + [result() for result in theirs]


def may_start() -> bool:
    """Whether this process may have children, each of which loads its program anew.

    Not a daemonic process, nor a program that is read from standard input, nor one that does not ask whether it is
    ``__main__``: each child would run it as a whole.
    """
    if current_process().daemon:
        return False
    main = sys.modules["__main__"]
    program = getattr(main, "__file__", None)
    package = getattr(getattr(main, "__spec__", None), "name", "").rpartition(".")[2] == "__main__"
    if program is None or package:  # ``python -c``, and ``python -m`` of a package: neither is loaded anew
        return True
    try:
        return b"__main__" in Path(program).read_bytes()
    except OSError:
        return False


def end_with_parent() -> None:
    """In another process: end at once on Ctrl-C, unless its parent ignores that, and when its parent is gone."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    Thread(target=_follow, daemon=True).start()


def _follow() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
