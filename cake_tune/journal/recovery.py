"""Making a journal fit for appending after its writer died, or its file was damaged."""

from pathlib import Path

from cake_tune.journal.durable import sync
from cake_tune.journal.line import fault_of, intact_bodies


def recover(path: Path) -> list[str]:
    """Make the journal at ``path`` fit for appending; return what a person should know, one message per fault.

    A torn last line is cut off. A damaged line elsewhere stays in the file, is reported, and is passed over by every
    reader, so that its point is measured again. A journal that does not exist is fine.
    """
    if not path.exists():
        return []
    messages = []
    offset = keep = 0
    ends_clean = True
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            found = intact_bodies(line)
            if line.endswith(b"\n"):
                keep = offset + len(line)
            else:
                ends_clean = False
                keep = offset + found[-1][1] if found else offset
            if (fault := fault_of(line, found, f"{path}:{number}")) is not None:
                messages.append(fault)
            offset += len(line)
    if not ends_clean:
        _cut(path, keep)
    return messages


def _cut(path: Path, keep: int) -> None:
    """Truncate to ``keep`` bytes and end the last kept line, whose line feed is what tearing took."""
    with path.open("r+b") as file:
        file.truncate(keep)
        file.seek(max(0, keep - 1))
        if keep and file.read(1) != b"\n":
            file.write(b"\n")
        sync(file)
