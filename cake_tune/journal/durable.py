"""Making bytes and names survive a crash of the machine."""

import os
from pathlib import Path
from typing import IO


def sync(file: IO[bytes]) -> None:
    """Put everything written to ``file`` on the disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_directory(directory: Path) -> None:
    """Make a new or renamed directory entry durable (a file's fsync does not cover its name)."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
