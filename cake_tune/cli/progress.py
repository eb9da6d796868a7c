"""A sweep's progress: a bar on a terminal, plain lines elsewhere, or JSON lines for machines."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING

from cake_tune.journal.record import PointRecord
from cake_tune.planner.shape import Shape
from cake_tune.sweep.words import shape_text

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from cake_tune.sweep import Progress


@contextmanager
def progress_for(*, as_json: bool) -> Iterator["Progress"]:
    """The progress that suits where output goes: JSON lines if asked for, a bar on a terminal, else plain lines.

    Whoever reads it may hang up: the sweep goes on without.
    """
    if as_json:
        yield Unheard(JsonProgress(), sys.stdout)
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[left]}"))
        with Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True)) as bar:
            yield Unheard(BarProgress(bar), sys.stderr)
    else:
        yield Unheard(LineProgress(), sys.stderr)


class Unheard:
    """A progress that loses its stream, and nothing else, when that cannot be written: the journal is what counts."""

    def __init__(self, progress: "Progress", stream: IO[str]) -> None:
        self._progress = progress
        self._stream = stream

    def message(self, text: str) -> None:
        """Something a person should know."""
        self._try(lambda: self._progress.message(text))

    def started(self, shape: Shape, done: int, total: int, seconds_left: float | None) -> None:
        """A point starts."""
        self._try(lambda: self._progress.started(shape, done, total, seconds_left))

    def finished(self, record: PointRecord, done: int, total: int, seconds_left: float | None) -> None:
        """A point is in the journal."""
        self._try(lambda: self._progress.finished(record, done, total, seconds_left))

    def _try(self, say: Callable[[], None]) -> None:
        try:
            say()
        except OSError as error:
            # All that comes later on this stream, the last lines of the command included, goes nowhere as well.
            with Path(os.devnull).open("wb") as nowhere:
                os.dup2(nowhere.fileno(), self._stream.fileno())
            if self._stream is not sys.stderr:
                print(f"nobody reads the events any more ({error.strerror}); the sweep goes on", file=sys.stderr)


class JsonProgress:
    """One JSON object per event on stdout."""

    def message(self, text: str) -> None:
        """Something a person should know."""
        self._write(event="message", text=text)

    def started(self, shape: Shape, done: int, total: int, seconds_left: float | None) -> None:
        """A point starts."""
        self._write(event="started", shape=asdict(shape), done=done, total=total, seconds_left=seconds_left)

    def finished(self, record: PointRecord, done: int, total: int, seconds_left: float | None) -> None:
        """A point is in the journal."""
        self._write(
            event="finished",
            shape=asdict(record.shape),
            status=record.status,
            best=asdict(record.best) if record.best else None,
            done=done,
            total=total,
            seconds_left=seconds_left,
        )

    def _write(self, **event: object) -> None:
        print(json.dumps(event), flush=True)


class LineProgress:
    """One line per finished point on stderr."""

    def message(self, text: str) -> None:
        """Something a person should know."""
        print(text, file=sys.stderr, flush=True)

    def started(self, shape: Shape, done: int, total: int, seconds_left: float | None) -> None:
        """A point starts; its line comes when it ends."""

    def finished(self, record: PointRecord, done: int, total: int, seconds_left: float | None) -> None:
        """A point is in the journal."""
        print(f"[{done}/{total}] {_outcome(record)}{_left(seconds_left)}", file=sys.stderr, flush=True)


class BarProgress:
    """A bar with the time left and the point at hand; points that failed scroll above it."""

    def __init__(self, bar: "Bar") -> None:
        self._bar = bar
        self._task = bar.add_task("starting", total=None, left="")

    def message(self, text: str) -> None:
        """Something a person should know."""
        self._bar.console.print(text, markup=False, highlight=False)

    def started(self, shape: Shape, done: int, total: int, seconds_left: float | None) -> None:
        """A point starts."""
        left = _left(seconds_left)
        self._bar.update(self._task, completed=done, total=total, description=shape_text(shape), left=left)

    def finished(self, record: PointRecord, done: int, total: int, seconds_left: float | None) -> None:
        """A point is in the journal."""
        self._bar.update(self._task, completed=done, total=total, left=_left(seconds_left))
        if record.best is None:
            self.message(_outcome(record))


def _outcome(record: PointRecord) -> str:
    times = {row.plan: row.median_us for row in record.rows}
    best = record.best
    if best is None:
        return f"{shape_text(record.shape)}: {record.status}: {record.error or 'no plan has a time'}"
    us = times.get(best)
    tied = f", tied with {len(record.tied) - 1}" if len(record.tied) > 1 else ""
    return f"{shape_text(record.shape)}: {best}{f' {us:.1f} us' if us is not None else ''}{tied}"


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f" {int(seconds) // 60}:{int(seconds) % 60:02d} left"
