"""The slots of a sweep at work side by side: a worker process and a thread for each; the caller's thread hands out and
takes in, and it alone tells, decides and writes.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from cake_tune.errors import DeviceUnfitError
from cake_tune.spec import Spec
from cake_tune.sweep.crew import Crew
from cake_tune.sweep.slots import Slot
from cake_tune.sweep.supervisor import StoppedNowError
from cake_tune.sweep.tasks import BandTask, PointTask, StartTask, Task

POLL_SECONDS = 0.1
"""How long the caller waits for news at a time: signals are noticed in between."""


Order = Task | StartTask
"""What a slot can be told to do."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a slot says of its task: the ``result``, or the ``error`` that kept it from one."""

    slot: str
    task: Order
    result: object = None
    error: BaseException | None = None

    @property
    def retired(self) -> bool:
        """True if the slot does nothing more: no worker starts on it."""
        return isinstance(self.error, DeviceUnfitError)

    @property
    def stopped(self) -> bool:
        """True if the task was given up because the sweep stops."""
        return isinstance(self.error, StoppedNowError)


class Fleet:
    """A context manager that holds the slots' threads; leaving it lets idle workers end and kills busy ones."""

    def __init__(self, spec: Spec, slots: Sequence[Slot], tell: Callable[[str], None]) -> None:
        self._news: queue.SimpleQueue[str | Answer] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._tell = tell
        self._hands = {slot.name: _Hand(spec, slot, self._stop, self._news, several=len(slots) > 1) for slot in slots}
        self._busy: set[str] = set()

    @property
    def names(self) -> list[str]:
        """The slots that can work."""
        return list(self._hands)

    @property
    def idle(self) -> list[str]:
        """Those of them that have nothing to do."""
        return [name for name in self._hands if name not in self._busy]

    def give(self, slot: str, task: Order) -> None:
        """Have an idle slot do a task."""
        self._busy.add(slot)
        self._hands[slot].give(task)

    def answer(self) -> Answer | None:
        """The next answer; None if none comes within a moment. Messages are told while waiting."""
        try:
            while isinstance(news := self._news.get(timeout=POLL_SECONDS), str):
                self._tell(news)
        except queue.Empty:
            return None
        self._busy.discard(news.slot)
        if news.error is not None and not news.stopped:
            self._hands.pop(news.slot).join()
            if not news.retired:
                raise news.error
        return news

    def stop_now(self) -> None:
        """End every worker that is at work; what they were at is answered as stopped."""
        self._stop.set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._busy:
            self._stop.set()
        for hand in self._hands.values():
            hand.give(None)
        for hand in self._hands.values():
            hand.join()


class _Hand:
    """One slot's thread, which starts with its first task. Its worker dies with it."""

    def __init__(
        self,
        spec: Spec,
        slot: Slot,
        stop: threading.Event,
        news: "queue.SimpleQueue[str | Answer]",
        *,
        several: bool,
    ) -> None:
        self._slot = slot
        self._news = news
        self._tasks: queue.SimpleQueue[Order | None] = queue.SimpleQueue()
        prefix = f"{slot.name}: " if several else ""
        self._crew = Crew(spec, slot, stop.is_set, lambda text: news.put(prefix + text))
        self._thread = threading.Thread(target=self._work, name=f"cake-tune {slot.name}", daemon=True)

    def give(self, task: Order | None) -> None:
        """The next task; None ends the thread."""
        if task is not None and not self._thread.is_alive():
            self._thread.start()
        self._tasks.put(task)

    def join(self) -> None:
        """Wait for the end of the thread, if it ever started."""
        if self._thread.ident is not None:
            self._thread.join()

    def _work(self) -> None:
        try:
            while (task := self._tasks.get()) is not None:
                answer = self._answer(task)
                if answer.error is not None and not answer.stopped:
                    self._crew.close()
                self._news.put(answer)
                if answer.error is not None and not answer.stopped:
                    return
        finally:
            self._crew.close()

    def _answer(self, task: Order) -> Answer:
        try:
            return Answer(self._slot.name, task, self._done(task))
        except BaseException as error:  # it is the caller's thread that has to know
            return Answer(self._slot.name, task, error=error)

    def _done(self, task: Order) -> object:
        if isinstance(task, PointTask):
            return self._crew.measure_point(task)
        if isinstance(task, BandTask):
            return self._crew.measure_band(task)
        self._crew.start()
        return None
