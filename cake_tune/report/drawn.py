"""A plot that has been written."""

from pathlib import Path
from typing import NamedTuple


class Drawn(NamedTuple):
    """Its file, and what it shows in one line."""

    path: Path
    caption: str
