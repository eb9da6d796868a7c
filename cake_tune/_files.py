"""Files that a reader sees old or new, never in part."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any


@contextmanager
def whole_file(path: Path, *, binary: bool = False) -> Iterator[IO[Any]]:
    """A file to write in place of ``path``: it takes the name when the block ends, and is dropped when that raises.

    Text is UTF-8 with its line ends as written. The content is on the disk before the name changes. An ``OSError``
    names ``path``, also where the system named nothing, as on a full disk.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") if binary else temporary.open("w", encoding="utf-8", newline="\n") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        if error.errno is not None and error.filename in (None, str(temporary)):
            error.filename, error.filename2 = str(path), None
        raise
    finally:
        with suppress(OSError):  # what went wrong before is what the caller must hear of
            temporary.unlink(missing_ok=True)
