"""The parent's side of a worker process: asks, waits, and ends what does not answer."""

import multiprocessing
import os
import signal
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Literal

from cake_tune.errors import DeviceUnfitError
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.shape import Plan
from cake_tune.sweep.tasks import Board, Broken, Ready, Task
from cake_tune.sweep.worker import worker_main

START_SECONDS = 120.0
"""Longest start of a worker (it imports its tensor library)."""
POLL_SECONDS = 0.2
GRACE_SECONDS = 5.0


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


class Worker:
    """A running worker process. ``DeviceUnfitError`` if its backend cannot start."""

    def __init__(self, backend: str, protocol: Protocol, seed: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._timeout = protocol.timeout_seconds
        self._board = Board(context)
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, self._board, backend, protocol, seed, os.getpid())
        self._process = context.Process(target=worker_main, args=arguments, name="cake-tune-worker", daemon=True)
        self._process.start()
        theirs.close()
        self._await_ready()

    def ask(self, task: Task, stop_now: Callable[[], bool]) -> object:
        """The worker's answer to ``task``; ``WorkerLostError`` if it dies, breaks or falls silent, and then it is gone.

        ``stop_now`` is asked a few times per second and ends the worker with ``StoppedNowError``.
        """
        self._board.note(-1)
        try:
            self._pipe.send(task)
            while not self._has_answer():
                if stop_now():
                    raise StoppedNowError
                if self._board.silent_seconds > self._timeout:
                    raise self._lost(task, "timeout", f"no answer for {self._timeout:g} s")
            answer = self._pipe.recv()
        except (EOFError, ConnectionError):
            raise self._lost(task, "crashed", self._how_it_ended()) from None
        except StoppedNowError:
            self.kill()
            raise
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
        return bool(wait([self._pipe, self._process.sentinel], POLL_SECONDS))

    def _await_ready(self) -> None:
        try:
            word = self._pipe.recv() if self._pipe.poll(START_SECONDS) else Broken("it did not start in time")
        except EOFError:
            word = Broken(self._how_it_ended())
        if not isinstance(word, Ready):
            self.kill()
            raise DeviceUnfitError(f"worker: expected the backend to start, got {getattr(word, 'error', word)}")

    def _lost(self, task: Task, status: Literal["crashed", "timeout"], reason: str) -> WorkerLostError:
        place = self._board.plan_index
        plan = task.plans[place] if 0 <= place < len(task.plans) else None
        from_outside = self._process.exitcode == -signal.SIGKILL
        self.kill()
        return WorkerLostError(status, reason, plan, from_outside=from_outside)

    def _how_it_ended(self) -> str:
        self._process.join(GRACE_SECONDS)
        code = self._process.exitcode
        if code is not None and code < 0:
            return f"the process was ended by {signal.Signals(-code).name}"
        return f"the process ended with exit code {code}"
