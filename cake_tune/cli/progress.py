"""A sweep's progress: a bar on a terminal, plain lines elsewhere, or JSON lines for machines."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

from cake_tune.journal.record import PointRecord
from cake_tune.planner.shape import Shape

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from cake_tune.sweep import Progress


@contextmanager
def progress_for(*, as_json: bool) -> Iterator["Progress"]:
    """The progress that suits where output goes: JSON lines if asked for, a bar on a terminal, else plain lines."""
    if as_json:
        yield JsonProgress()
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.fields[left]}"))
        with Progress(*columns, TextColumn("{task.description}"), console=Console(stderr=True)) as bar:
            yield BarProgress(bar)
    else:
        yield LineProgress()


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
        self._bar.update(self._task, completed=done, total=total, description=_name(shape), left=_left(seconds_left))

    def finished(self, record: PointRecord, done: int, total: int, seconds_left: float | None) -> None:
        """A point is in the journal."""
        self._bar.update(self._task, completed=done, total=total, left=_left(seconds_left))
        if record.best is None:
            self.message(_outcome(record))


def _name(shape: Shape) -> str:
    extra = f"+{shape.extra_topk}" if shape.extra_topk else ""
    return f"T={shape.num_tokens} H={shape.num_heads} topk={shape.topk}{extra}"


def _outcome(record: PointRecord) -> str:
    times = {row.plan: row.median_us for row in record.rows}
    best = record.best
    if best is None:
        return f"{_name(record.shape)}: {record.status}: {record.error or 'no plan has a time'}"
    us = times.get(best)
    tied = f", tied with {len(record.tied) - 1}" if len(record.tied) > 1 else ""
    return f"{_name(record.shape)}: {best}{f' {us:.1f} us' if us is not None else ''}{tied}"


def _left(seconds: float | None) -> str:
    return "" if seconds is None else f" {int(seconds) // 60}:{int(seconds) % 60:02d} left"
