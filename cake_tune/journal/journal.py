"""The journal: an append-only file with one checksummed line per measured point, which survives kill -9.

A line is written with one call, flushed and fsynced before ``append`` returns. A process that dies while it writes
leaves at most a torn last line, which the next writer cuts off.
"""

import os
import shutil
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from filelock import FileLock, Timeout

from cake_tune.errors import JournalError
from cake_tune.journal.codec import record_to_json
from cake_tune.journal.durable import sync, sync_directory
from cake_tune.journal.line import frame
from cake_tune.journal.reader import read_journal
from cake_tune.journal.record import PointRecord
from cake_tune.journal.recovery import recover

__all__ = ["Journal", "read_journal", "recover"]


class Journal:
    """The one writer of the journal at ``path``; a context manager that holds the lock and the open file.

    ``messages`` holds what recovery found, and ``damaged`` is true if some of that is still in the file: ``archive``
    leaves it behind. ``JournalError`` if another process is writing it, with that one's pid.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(path.with_name(f".{path.name}.lock"), timeout=0)
        self._owner = path.with_name(f".{path.name}.owner")
        self._acquire()
        try:
            self.messages, self.damaged = recover(path)
            self._file = self._open()
        except BaseException:
            self._release()
            raise

    def append(self, record: PointRecord) -> None:
        """Write ``record`` durably: when this returns, the line survives a crash of the process and of the machine."""
        line = frame(record_to_json(record))
        try:
            written = self._file.write(line)
            os.fsync(self._file.fileno())
        except OSError as error:
            raise JournalError(f"{self.path}: cannot append a record: {error.strerror or error}") from error
        if written != len(line):
            raise JournalError(f"{self.path}: wrote {written} of {len(line)} bytes (is the disk full?)")

    def archive(self, keep: Collection[str] = ()) -> Path | None:
        """Set the file aside as ``journal-<date>.jsonl`` and go on with only the records whose key is in ``keep``.

        Nothing is deleted; killed at any moment, the journal holds either the old lines or the new ones. Returns the
        new place of the old file; None if it was empty.
        """
        if not self.path.stat().st_size:
            return None
        aside = self._free_name()
        kept = self.path.with_name(f".{self.path.name}.next")
        with kept.open("wb") as file:
            for record in read_journal(self.path):
                if record.key in keep:
                    file.write(frame(record_to_json(record)))
            sync(file)
        _link(self.path, aside)
        kept.replace(self.path)
        self._file.close()
        self._file = self._open()
        return aside

    def close(self) -> None:
        """Close the file and give the lock back."""
        self._file.close()
        self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self) -> BinaryIO:
        # Unbuffered: one append is one write call, so that a killed process tears at most its last line.
        file = self.path.open("ab", buffering=0)
        sync_directory(self.path.parent)
        return file

    def _acquire(self) -> None:
        try:
            self._lock.acquire()
        except Timeout:
            raise JournalError(
                f"journal: {self.path} is being written by {self._holder()}; one sweep at a time"
            ) from None
        self._owner.write_text(f"{os.getpid()}\n", encoding="ascii")

    def _holder(self) -> str:
        try:
            return f"process {int(self._owner.read_text(encoding='ascii'))}"
        except (OSError, ValueError):
            return "another process"

    def _release(self) -> None:
        self._owner.unlink(missing_ok=True)
        self._lock.release()

    def _free_name(self) -> Path:
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
        return self.path.with_name(f"{self.path.stem}-{stamp}{self.path.suffix}")


def _link(path: Path, other: Path) -> None:
    """Have ``other`` be the same file as ``path``, or a copy of it where the file system has no links."""
    try:
        os.link(path, other)
    except OSError:
        with path.open("rb") as old, other.open("xb") as new:
            try:
                shutil.copyfileobj(old, new)
                sync(new)
            except OSError:
                other.unlink()  # a part of a journal must not pass for one
                raise
