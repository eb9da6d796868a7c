"""Ctrl-C, SIGTERM and a terminal that hangs up: the first asks a sweep to stop after the point at hand, the second to
stop now. They reach the whole process group, and are the parent's alone to act on.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Self

SIGNALS = tuple(signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupts:
    """Counts requests to stop while it is entered.

    A signal only counts: nothing is raised, written or told in the middle of other work. Does nothing outside the main
    thread, where signals cannot be caught.
    """

    def __init__(self, acknowledge: Callable[[], None]) -> None:
        """``acknowledge`` is called once, when the first request is noticed by one of the two questions."""
        self._acknowledge = acknowledge
        self._acknowledged = False
        self._requests = 0
        self._before: dict[signal.Signals, object] = {}

    def requested(self) -> bool:
        """True once the sweep was asked to stop."""
        if self._requests and not self._acknowledged:
            self._acknowledged = True
            self._acknowledge()
        return self._requests > 0

    def insistent(self) -> bool:
        """True once it was asked again."""
        return self.requested() and self._requests > 1

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            # A hang-up that is ignored already stays so: that is what nohup asks for.
            caught = [number for number in SIGNALS if not (number.name == "SIGHUP" and _is_ignored(number))]
            self._before = {number: signal.signal(number, self._count) for number in caught}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]

    def _count(self, number: int, frame: FrameType | None) -> None:
        self._requests += 1


@contextmanager
def withheld() -> Iterator[None]:
    """A process that is started in here gets none of ``SIGNALS`` before it calls ``ignore``: nor while it imports."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def ignore() -> None:
    """In a worker: take no notice of ``SIGNALS``, those that were withheld included."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def _is_ignored(number: signal.Signals) -> bool:
    return signal.getsignal(number) == signal.SIG_IGN
