"""Making a journal fit for appending after its writer died, or its file was damaged."""

from pathlib import Path

from cake_tune.journal.durable import sync
from cake_tune.journal.line import fault_of, intact_bodies


def recover(path: Path) -> tuple[list[str], bool]:
    """Make the journal at ``path`` fit for appending: what a person should know, and whether damage is still in it.

    There is one message per fault. A torn last line is cut off. A damaged line elsewhere stays in the file, and is
    passed over by every reader, so that its point is measured again. A journal that does not exist is fine.
    """
    if not path.exists():
        return [], False
    messages, keep = _scan(path)
    if keep is None:
        return messages, bool(messages)
    _cut(path, keep)
    # What ended without a line feed is a line now, and a damaged one if it holds more than a record.
    left, _ = _scan(path)
    return messages + [message for message in left if message not in messages], bool(left)


def _scan(path: Path) -> tuple[list[str], int | None]:
    """The faults of a journal, and how much of it to keep if it does not end with a line feed."""
    messages = []
    offset, keep = 0, None
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            found = intact_bodies(line)
            if not line.endswith(b"\n"):
                keep = offset + (found[-1][1] if found else 0)
            if (fault := fault_of(line, found, f"{path}:{number}")) is not None:
                messages.append(fault)
            offset += len(line)
    return messages, keep


def _cut(path: Path, keep: int) -> None:
    """Truncate to ``keep`` bytes and end the last kept line, whose line feed is what tearing took."""
    with path.open("r+b") as file:
        file.truncate(keep)
        file.seek(max(0, keep - 1))
        if keep and file.read(1) != b"\n":
            file.write(b"\n")
        sync(file)
