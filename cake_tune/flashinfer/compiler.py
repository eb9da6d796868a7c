"""Which CUDA compiler FlashInfer builds its kernels with on this machine: part of what was measured."""

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

DEFAULT_HOME = Path("/usr/local/cuda")
_RELEASE = re.compile(r"release [0-9.]+, V([0-9.]+)")


@cache
def compiler_version() -> str:
    """``nvcc 13.0.88``, of the nvcc that FlashInfer finds; "" where there is none, as with kernels built elsewhere."""
    nvcc = _find_nvcc()
    if nvcc is None:
        return ""
    try:
        said = subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
    release = _RELEASE.search(said)
    return f"nvcc {release[1]}" if release else ""


def _find_nvcc() -> str | None:
    """In ``CUDA_HOME`` or ``CUDA_PATH``, on the search path, else where CUDA installs itself."""
    home = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH")
    if home:
        return shutil.which("nvcc", path=str(Path(home, "bin")))
    return shutil.which("nvcc") or shutil.which("nvcc", path=str(DEFAULT_HOME / "bin"))
