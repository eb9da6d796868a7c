"""Everything compiled ahead: each specialisation of some architectures, and what it takes on its multiprocessor."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

from cake_tune.cuda.compiler import compiler_version
from cake_tune.cuda.elf import Resources, read_resources
from cake_tune.cuda.manifest import Manifest, load_manifest
from cake_tune.cuda.occupancy import ctas_per_sm
from cake_tune.cuda.program_cache import load_cubin
from cake_tune.cuda.specialisation import Specialisation, every_specialisation
from cake_tune.errors import UsageError


@dataclass(frozen=True, slots=True)
class Built:
    """One compiled program and what a CTA of it takes."""

    specialisation: Specialisation
    resources: Resources
    dynamic_shared_bytes: int
    ctas_per_sm: int


def build_kernels(
    archs: Sequence[str], *, jobs: int = 1, directory: Path | None = None, only_defaults: bool = False
) -> Iterator[Built]:
    """Compile every specialisation of ``archs`` into the program cache, in order; needs no GPU.

    ``jobs`` processes compile side by side (NVRTC takes one program at a time in a process). ``directory`` is the
    cache's, None for this user's. Raises ``UsageError`` for an unknown architecture.
    """
    manifest = load_manifest()
    for arch in archs:
        if arch not in manifest.archs:
            raise UsageError(f"arch: expected one of {', '.join(manifest.archs)}, got {arch!r}")
    compiler_version()  # missing packages are said once, here, and not by every process
    wanted = [one for arch in archs for one in every_specialisation(manifest, arch, only_defaults=only_defaults)]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(build_one, wanted, [directory] * len(wanted))


def build_one(specialisation: Specialisation, directory: Path | None = None) -> Built:
    """Compile one specialisation into the program cache, or find it there."""
    manifest = load_manifest()
    return describe(manifest, specialisation, load_cubin(manifest, specialisation, directory))


def describe(manifest: Manifest, specialisation: Specialisation, cubin: bytes) -> Built:
    """What ``cubin`` takes on a multiprocessor of its architecture."""
    resources = read_resources(cubin, manifest.sources[specialisation.kernel].entry)
    dynamic = specialisation.shared_bytes
    ctas = ctas_per_sm(
        specialisation.arch,
        specialisation.threads(manifest),
        resources.registers,
        resources.static_shared_bytes + dynamic,
    )
    return Built(specialisation, resources, dynamic, ctas)
