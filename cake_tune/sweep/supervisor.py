"""The parent's side of a worker process: asks, waits, and ends what does not answer."""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from types import MappingProxyType
from typing import Literal

from cake_tune.backends import SlowToStart, get_backend
from cake_tune.errors import DeviceUnfitError, UsageError
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.shape import Plan
from cake_tune.sweep.interrupts import withheld
from cake_tune.sweep.tasks import Board, Broken, Ready, Task
from cake_tune.sweep.worker import worker_main

START_SECONDS = 120.0
"""Longest start of a worker, which imports its tensor library. A longer timeout of the protocol holds for it too, and a
backend that has more to do than that says how long it may take (``SlowToStart``)."""
POLL_SECONDS = 0.2
NEWS_SECONDS = 30.0
"""Time between two messages about one task, or about one start."""
GRACE_SECONDS = 5.0

_STARTING = threading.Lock()
"""Held while a worker is started: its environment is this process's at that moment."""


class WorkerLostError(Exception):
    """The worker is gone.

    ``plan`` is what it was running, None if nothing in particular; ``from_outside`` is true if it was ended by a
    signal that no kernel raises, so that the plan may be innocent.
    """

    def __init__(
        self, status: Literal["crashed", "timeout"], reason: str, plan: Plan | None, *, from_outside: bool = False
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.plan = plan
        self.from_outside = from_outside


class StoppedNowError(Exception):
    """The user wants the sweep to stop without an answer to what is being asked."""


@contextmanager
def _changed(environment: Mapping[str, str]) -> Iterator[None]:
    """Have ``environment`` in this process's own, which a spawned process takes over."""
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # most real-time signals have no name
        return f"signal {number}"


def _start_seconds(name: str) -> float:
    """What the backend asks for its start; 0 if nothing."""
    try:
        backend = get_backend(name)
    except UsageError:
        return 0.0  # the worker says what is wrong
    return backend.start_seconds if isinstance(backend, SlowToStart) else 0.0


class Worker:
    """A running worker process.

    ``DeviceUnfitError`` if its backend cannot start, ``WorkerLostError`` if it is ended while it starts. ``stop_now``
    is asked a few times per second while the worker starts or works, and ends it with ``StoppedNowError``.
    ``environment`` is added to the worker's environment. ``tell`` hears of a start that takes long. On Linux a worker
    dies with the thread that started it.
    """

    def __init__(
        self,
        backend: str,
        protocol: Protocol,
        seed: int,
        stop_now: Callable[[], bool],
        environment: Mapping[str, str] = MappingProxyType({}),
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._timeout = protocol.timeout_seconds
        self._start_seconds = max(START_SECONDS, self._timeout, _start_seconds(backend))
        self._tell = tell
        self._stop_now = stop_now
        self._board = Board(context)
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, self._board, backend, protocol, seed, os.getpid())
        self._process = context.Process(target=worker_main, args=arguments, name="cake-tune-worker", daemon=True)
        # It lets signals through again, and so must be there before they are withheld.
        resource_tracker.ensure_running()
        with _STARTING, _changed(environment), withheld():
            self._process.start()
        theirs.close()
        self._await_ready()

    def ask(self, task: Task, tell: Callable[[float, Plan | None], None]) -> object:
        """The worker's answer to ``task``; ``WorkerLostError`` if it dies, breaks or falls silent: then it is gone.

        ``tell`` is told every half a minute for how many seconds the task runs, and the plan that the worker is at.
        """
        self._board.note(-1)
        start = told = time.monotonic()
        try:
            self._pipe.send(task)
            while not self._has_answer():
                if time.monotonic() - told > NEWS_SECONDS:
                    told = time.monotonic()
                    tell(told - start, self._plan_at_hand(task))
                if self._board.silent_seconds > self._timeout:
                    raise self._lost(task, "timeout", f"no answer for {self._timeout:g} s")
            answer = self._pipe.recv()
        except (EOFError, ConnectionError):
            raise self._lost(task, "crashed", self._how_it_ended()) from None
        if isinstance(answer, Broken):
            raise self._lost(task, "crashed", answer.error)
        return answer

    def close(self) -> None:
        """Let the worker end by itself, or end it."""
        self._pipe.close()
        self._process.join(GRACE_SECONDS)
        self.kill()

    def kill(self) -> None:
        """End the worker now."""
        self._process.kill()
        self._process.join()
        self._pipe.close()

    def _has_answer(self) -> bool:
        if wait([self._pipe, self._process.sentinel], POLL_SECONDS):
            return True
        if self._stop_now():
            self.kill()
            raise StoppedNowError
        return False

    def _await_ready(self) -> None:
        seconds = self._start_seconds
        start = told = time.monotonic()
        word: object = Broken(f"it did not start within {seconds:g} s; measure.timeout_seconds can allow it more")
        try:
            while (now := time.monotonic()) < start + seconds:
                if self._has_answer():
                    word = self._pipe.recv()
                    break
                if now - told > NEWS_SECONDS:
                    told = now
                    self._tell(f"the worker is starting: {now - start:.0f} s so far, at most {seconds:g} s")
        except (EOFError, ConnectionError):
            reason = self._how_it_ended()
            self.kill()
            raise WorkerLostError("crashed", reason, None) from None
        if not isinstance(word, Ready):
            self.kill()
            raise DeviceUnfitError(f"the backend does not start: {getattr(word, 'error', word)}")

    def _lost(self, task: Task, status: Literal["crashed", "timeout"], reason: str) -> WorkerLostError:
        from_outside = self._process.exitcode == -signal.SIGKILL
        self.kill()
        return WorkerLostError(status, reason, self._plan_at_hand(task), from_outside=from_outside)

    def _plan_at_hand(self, task: Task) -> Plan | None:
        place = self._board.plan_index
        return task.plans[place] if 0 <= place < len(task.plans) else None

    def _how_it_ended(self) -> str:
        self._process.join(GRACE_SECONDS)
        code = self._process.exitcode
        if code is not None and code < 0:
            return f"the process was ended by {_signal_name(-code)}"
        return f"the process ended with exit code {code}"
