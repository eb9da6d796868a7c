"""kernels/manifest.json as typed data: the kernels' instances and build variants, and where their sources are.

Standard library only: everything that builds or launches the kernels asks here instead of repeating a number.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cake_tune.errors import CakeTuneError, ContractError

SCHEMA = 1
_PACKAGE = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Source:
    """One source file of ``kernels/`` and its ``extern "C"`` entry point."""

    file: str
    entry: str


@dataclass(frozen=True, slots=True)
class Variant:
    """One choice of head tiles and build options; ``shared_bytes`` is a CTA's dynamic shared memory."""

    name: str
    kernels: tuple[str, ...]
    archs: tuple[str, ...]
    threads: int
    shared_bytes: int
    heads_per_block: int
    """Heads of a CTA: those of its head tiles, unless the variant takes more whatever the plan says."""
    macros: tuple[tuple[str, int], ...]

    @property
    def head_tiles(self) -> int:
        """Tiles of 16 heads per CTA."""
        return dict(self.macros)["CAKE_HEAD_TILES"]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What ``kernels/`` holds; ``folder`` is also the include path of every source."""

    folder: Path
    family: str
    identity: str
    """Hash of the manifest and of every source and header: changes whenever a kernel may have changed."""
    compile_options: tuple[str, ...]
    max_shared_bytes: dict[str, int]
    """Dynamic shared memory in bytes that a CTA can have, by architecture."""
    max_cluster: dict[str, int]
    """Splits that may be launched as one cluster, by architecture; 1 where clusters are not used."""
    merge_spread_bytes: dict[str, int]
    """Shared memory in bytes that a merge CTA may ask for, so that few share a multiprocessor, by architecture."""
    qk_modes: dict[str, int]
    """Value of ``CAKE_QK_NVFP4`` by query mode, the default mode first."""
    sources: dict[str, Source]
    merge_threads: int
    variants: dict[str, Variant]
    defaults: dict[tuple[str, str, int], str]
    """Variant name by (arch, kernel, head tiles)."""

    @property
    def archs(self) -> tuple[str, ...]:
        """The architectures that the kernels are written for."""
        return tuple(self.max_shared_bytes)

    @property
    def default_qk(self) -> str:
        """The query mode that runs unless another is asked for."""
        return next(iter(self.qk_modes))

    def default_variant(self, arch: str, kernel: str, head_tiles: int) -> Variant:
        """The variant that runs unless another is asked for."""
        return self.variants[self.defaults[arch, kernel, head_tiles]]

    def variant(self, name: str, arch: str, kernel: str, head_tiles: int) -> Variant:
        """The variant called ``name``; ``ContractError`` lists the names where it cannot run this."""
        found = self.variants.get(name)
        if found is not None and _fits(found, arch, kernel, head_tiles):
            return found
        known = ", ".join(other.name for other in self.variants.values() if _fits(other, arch, kernel, head_tiles))
        raise ContractError(
            f"variant: expected one of {known} for {kernel} of {head_tiles} head tiles on {arch}, got {name!r}"
        )


@cache
def load_manifest() -> Manifest:
    """The manifest of this installation's kernels."""
    return read_manifest(kernels_folder())


def kernels_folder() -> Path:
    """``kernels/`` beside the package in a checkout, or the copy inside an installed wheel."""
    for folder in (_PACKAGE.parent / "kernels", _PACKAGE / "_kernels"):
        if (folder / "manifest.json").is_file():
            return folder
    raise CakeTuneError(f"kernels: expected the kernel sources beside or inside {_PACKAGE}, found neither")


def read_manifest(folder: Path) -> Manifest:
    """The manifest of ``folder``."""
    raw = json.loads((folder / "manifest.json").read_bytes())
    if raw["schema"] != SCHEMA:
        raise CakeTuneError(f"{folder / 'manifest.json'}: expected schema {SCHEMA}, got {raw['schema']}")
    kernels = raw["kernels"]
    sources = {name: Source(kernel["source"], kernel["entry"]) for name, kernel in kernels.items()}
    return Manifest(
        folder=folder,
        family=raw["family"],
        identity=sources_hash(folder),
        compile_options=tuple(raw["compile_options"]),
        max_shared_bytes={arch: limits["max_shared_bytes"] for arch, limits in raw["archs"].items()},
        qk_modes=kernels["decode"]["qk"],
        sources=sources,
        merge_threads=kernels["merge"]["threads"],
        max_cluster={arch: limits["max_cluster"] for arch, limits in raw["archs"].items()},
        merge_spread_bytes={arch: limits["merge_spread_bytes"] for arch, limits in raw["archs"].items()},
        variants={
            name: _variant(name, variant, raw["geometry"]["heads_per_tile"])
            for name, variant in raw["variants"].items()
        },
        defaults={
            (arch, kernel, int(tiles)): name
            for arch, by_kernel in raw["defaults"].items()
            for kernel, by_tiles in by_kernel.items()
            for tiles, name in by_tiles.items()
        },
    )


def sources_hash(folder: Path) -> str:
    """Hash of the manifest and of every source and header in ``folder``."""
    digest = hashlib.sha256()
    for path in sorted((folder / "manifest.json", *folder.glob("*.cu"), *folder.glob("*.cuh"))):
        digest.update(f"\0{path.name}\0".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _variant(name: str, raw: dict[str, Any], heads_per_tile: int) -> Variant:
    return Variant(
        name=name,
        kernels=tuple(raw["kernels"]),
        archs=tuple(raw["archs"]),
        threads=raw["threads"],
        shared_bytes=raw["shared_bytes"],
        heads_per_block=raw.get("heads_per_block", heads_per_tile * raw["macros"]["CAKE_HEAD_TILES"]),
        macros=tuple(sorted(raw["macros"].items())),
    )


def _fits(variant: Variant, arch: str, kernel: str, head_tiles: int) -> bool:
    return arch in variant.archs and kernel in variant.kernels and variant.head_tiles == head_tiles
