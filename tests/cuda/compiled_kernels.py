"""Every program of the kernels, compiled once per test session, and its machine code."""

import os
import shutil
import subprocess
from importlib.metadata import files
from pathlib import Path

from cake_tune.cuda.build import Built, build_kernels
from cake_tune.cuda.manifest import load_manifest
from cake_tune.cuda.specialisation import Specialisation, every_specialisation

MANIFEST = load_manifest()
SPECIALISATIONS = [one for arch in MANIFEST.archs for one in every_specialisation(MANIFEST, arch)]
ATTENTION = [one for one in SPECIALISATIONS if one.variant is not None]


def build_all(directory: Path) -> dict[Specialisation, Built]:
    """All of them, compiled by as many processes as there are cores (two on a CI machine)."""
    built = build_kernels(MANIFEST.archs, jobs=min(4, os.cpu_count() or 1), directory=directory)
    return {one.specialisation: one for one in built}


def disassemble(cubin: bytes, folder: Path) -> str:
    """The machine code of ``cubin``."""
    path = folder / "program.cubin"
    path.write_bytes(cubin)
    done = subprocess.run([_nvdisasm(), "--print-code", str(path)], check=True, capture_output=True, text=True)
    return done.stdout


def _nvdisasm() -> str:
    on_path = shutil.which("nvdisasm")
    if on_path:
        return on_path
    [packaged] = (file for file in files("nvidia-cuda-nvdisasm") or () if file.name == "nvdisasm")
    return str(packaged.locate())
