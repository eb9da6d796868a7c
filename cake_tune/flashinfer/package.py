"""The installed FlashInfer: folder, version, sources and the manifest of its Cake kernels. None of it is imported."""

import json
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

from cake_tune.errors import DeviceUnfitError
from cake_tune.flashinfer.sources import Sources

DISTRIBUTION = "flashinfer-python"
LEAST_VERSION = "0.7.2"
"""The first release with the SM120 NVFP4 Cake kernels and their planners under the names used here."""
INSTALL = "pip install 'cake-tune[flashinfer]'"
MANIFEST = Path("data", "csrc", "cake_dsv4", "sm_120a", "cake_sparse_mla_dsv4_nvfp4_manifest.json")
SOURCES = Path("mla")


@dataclass(frozen=True)
class Package:
    """One FlashInfer by its folder (the one that holds ``mla/`` and ``data/``) and its version."""

    folder: Path
    version: str

    @cached_property
    def manifest(self) -> dict[str, Any]:
        """What the kernels' generator says of them; ``DeviceUnfitError`` where it is missing or broken."""
        path = self.folder / MANIFEST
        try:
            read: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(read["identity"], str):
                raise TypeError(f"identity: expected a text, got {read['identity']!r}")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DeviceUnfitError(
                f"{self}: the manifest of its SM120 NVFP4 Cake kernels cannot be read from {path} ({error!r}): "
                f"{INSTALL}"
            ) from error
        return read

    @cached_property
    def sources(self) -> Sources:
        """Its Python sources of sparse MLA, parsed on demand."""
        return Sources(self.folder / SOURCES)

    @property
    def identity(self) -> str:
        """The kernels' identity in the manifest, with the version of the package that compiles and launches them."""
        return f"{self.manifest['identity']}+{DISTRIBUTION}-{self.version}"

    def __str__(self) -> str:
        return f"{DISTRIBUTION} {self.version}"


def find_package() -> Package:
    """The installed FlashInfer; ``DeviceUnfitError`` where it is missing, unusable or older than ``LEAST_VERSION``."""
    try:
        installed = version(DISTRIBUTION)
    except PackageNotFoundError:
        raise DeviceUnfitError(f"{DISTRIBUTION} is not installed: {INSTALL}") from None
    return _package(installed)


@cache
def _package(installed: str) -> Package:
    try:
        old = Version(installed) < Version(LEAST_VERSION)
    except InvalidVersion:
        raise DeviceUnfitError(f"{DISTRIBUTION}: expected a version >= {LEAST_VERSION}, got {installed!r}") from None
    if old:
        raise DeviceUnfitError(
            f"{DISTRIBUTION} {installed} has no SM120 NVFP4 Cake kernels: expected a version >= {LEAST_VERSION}: "
            f"pip install --upgrade '{DISTRIBUTION}>={LEAST_VERSION}'"
        )
    spec = find_spec("flashinfer")
    if spec is None or spec.origin is None or not spec.submodule_search_locations:  # a bare folder has no origin
        raise DeviceUnfitError(f"{DISTRIBUTION} {installed} is installed, but holds no package flashinfer: {INSTALL}")
    return Package(Path(next(iter(spec.submodule_search_locations))), installed)
