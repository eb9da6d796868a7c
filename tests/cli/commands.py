"""Runs ``cake-tune`` as a user does: in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path


def cake_tune(*arguments: str | Path, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    """The finished command; ``variables`` join its environment."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("CAKE_TUNE")}
    command = [sys.executable, "-m", "cake_tune.cli", *map(str, arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=cwd, env=environment | variables)
