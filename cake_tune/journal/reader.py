"""Reading a journal: record by record, so that a long one needs no more memory than a short one."""

from collections.abc import Callable, Iterator
from pathlib import Path

from cake_tune.errors import JournalError
from cake_tune.journal.codec import record_from_json
from cake_tune.journal.line import fault_of, intact_bodies, key_of
from cake_tune.journal.record import PointRecord


def read_journal(path: Path, tell: Callable[[str], None] = lambda text: None) -> Iterator[PointRecord]:
    """Stream the records of the journal at ``path`` in file order; of records with one key only the last is given.

    Reads the file twice and holds one record at a time, beside 8 bytes' worth of hash per key. Damaged and torn lines
    are passed over, and ``tell`` is told about each one. ``JournalError`` if the file does not exist, or an intact line
    is of another version.
    """
    if not path.is_file():
        raise JournalError(f"journal: expected a file at {path}, found none (nothing has been measured there)")
    return _stream(path, tell)


def _stream(path: Path, tell: Callable[[str], None]) -> Iterator[PointRecord]:
    superseded = _last_offsets(path, tell)
    for number, offset, body in _bodies(path):
        if superseded.get(key_of(body), offset) != offset:
            continue
        try:
            yield record_from_json(body.decode("utf-8", "replace"))
        except JournalError as error:
            raise JournalError(f"{path}:{number}: {error}") from error


def _bodies(path: Path, tell: Callable[[str], None] | None = None) -> Iterator[tuple[int, int, bytes]]:
    """Every intact record of the file as (line number, offset in the file, JSON)."""
    offset = 0
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            for body, end in intact_bodies(line):
                yield number, offset + end, body
            if tell is not None and (fault := fault_of(line, f"{path}:{number}")) is not None:
                tell(fault)
            offset += len(line)


def _last_offsets(path: Path, tell: Callable[[str], None]) -> dict[bytes, int]:
    """For keys that occur more than once: the offset of the last one. Hashes, not keys, are kept for all others."""
    seen: set[int] = set()
    last: dict[bytes, int] = {}
    for _, offset, body in _bodies(path, tell):
        key = key_of(body)
        if hash(key) in seen:
            last[key] = offset
        seen.add(hash(key))
    return last
