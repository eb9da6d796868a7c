"""Reading a journal: record by record, so that a long one needs no more memory than a short one."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cake_tune.errors import JournalError
from cake_tune.journal.codec import record_from_json
from cake_tune.journal.line import fault_of, intact_bodies, key_of
from cake_tune.journal.record import PointRecord


@dataclass(frozen=True, slots=True)
class Part:
    """A stretch of whole lines of the journal at ``path``, which any process can read by itself.

    From the byte ``start``, at which line number ``line`` begins, to the byte ``stop``; what is appended later is in no
    part. ``last`` holds, for the keys that occur more than once in the journal, where the record ends that counts.
    """

    path: Path
    start: int
    stop: int
    line: int
    last: Mapping[bytes, int]


def read_journal(path: Path, tell: Callable[[str], None] = lambda text: None) -> Iterator[PointRecord]:
    """Stream the records of the journal at ``path`` in file order; of records with one key only the last is given.

    Reads the file twice and holds one record at a time, beside 8 bytes' worth of hash per key. Damaged and torn lines
    are passed over, and ``tell`` is told about each one. ``JournalError`` if the file does not exist, or an intact line
    is of another version.
    """
    _check(path)
    return _stream(path, tell)


def parts_of(path: Path, most: int, tell: Callable[[str], None] = lambda text: None) -> list[Part]:
    """The journal at ``path`` as up to ``most`` parts of about as many bytes: read in turn they are ``read_journal``.

    ``tell`` is told here about the lines that are passed over. ``JournalError`` if the file does not exist.
    """
    _check(path)
    share = path.stat().st_size / most
    begins = [(0, 1)]
    end = 0
    seen: set[int] = set()
    last: dict[bytes, int] = {}
    for number, offset, line in _lines(path):
        if len(begins) < most and offset >= len(begins) * share > 0:
            begins.append((offset, number))
        end = offset + len(line)
        found = intact_bodies(line)
        for body, behind in found:
            # Hashes, not keys, are kept for all that occur once.
            key = key_of(body)
            if hash(key) in seen:
                last[key] = offset + behind
            seen.add(hash(key))
        if (fault := fault_of(line, found, f"{path}:{number}")) is not None:
            tell(fault)
    stops = [*(start for start, _ in begins[1:]), end]
    return [Part(path, start, stop, line, last) for (start, line), stop in zip(begins, stops, strict=True)]


def read_part(part: Part) -> Iterator[PointRecord]:
    """Stream the records of ``part`` that count, in file order. ``JournalError`` for a line of another version."""
    for number, offset, line in _lines(part.path, part.start, part.stop, part.line):
        for body, end in intact_bodies(line):
            if part.last.get(key_of(body), offset + end) != offset + end:
                continue
            try:
                yield record_from_json(body.decode("utf-8", "replace"))
            except JournalError as error:
                raise JournalError(f"{part.path}:{number}: {error}") from error


def _stream(path: Path, tell: Callable[[str], None]) -> Iterator[PointRecord]:
    for part in parts_of(path, 1, tell):
        yield from read_part(part)


def _check(path: Path) -> None:
    if not path.is_file():
        raise JournalError(f"journal: expected a file at {path}, found none (nothing has been measured there)")


def _lines(path: Path, start: int = 0, stop: int | None = None, first: int = 1) -> Iterator[tuple[int, int, bytes]]:
    """What lies from ``start`` to ``stop``, line by line, as (line number, offset in the file, bytes)."""
    offset = start
    with path.open("rb") as file:
        file.seek(start)
        for number, whole in enumerate(file, start=first):
            # Cut where the last line of the file was still being written.
            line = whole if stop is None else whole[: stop - offset]
            if not line:
                return
            yield number, offset, line
            offset += len(line)
