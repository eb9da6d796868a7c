"""compute-sanitizer finds no bad access and no race in any kernel."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("sanitize.py")
FOUND = 9


def sanitize(tool: str, *arguments: str) -> str:
    """What compute-sanitizer says about these kernels while ``sanitize.py`` runs; skips where it is missing."""
    program = shutil.which("compute-sanitizer") or shutil.which("compute-sanitizer", path="/usr/local/cuda/bin")
    if not program:
        pytest.skip("compute-sanitizer is not installed")
    # The bindings look for driver functions of later versions, which is no error of a kernel.
    options = ["--report-api-errors", "no", "--error-exitcode", str(FOUND), "--kernel-name", "kns=cake_sparse_mla"]
    command = [program, "--tool", tool, *options, sys.executable, str(SCRIPT), *arguments]
    path = os.pathsep.join([str(SCRIPT.parents[2]), os.environ.get("PYTHONPATH", "")])
    environment = os.environ | {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1", "PYTHONPATH": path}
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_memcheck_finds_nothing():
    """No kernel reads or writes outside its allocations, and all calls run to their end."""
    said = sanitize("memcheck")
    assert "12 calls ran to their end" in said
    assert "ERROR SUMMARY: 0 errors" in said


@pytest.mark.slow
def test_racecheck_finds_nothing():
    """No two accesses to shared memory race; on the variants whose barriers racecheck follows (see ``sanitize.py``)."""
    said = sanitize("racecheck", "--one-group")
    assert int(re.search(r"(\d+) calls ran to their end", said).group(1)) > 0
    assert "RACECHECK SUMMARY: 0 hazards" in said
