"""Compiled programs on disk, so that each one is compiled once per machine.

cuda.core's file cache makes writes atomic, so processes may share it without locks. It returns whatever bytes it finds:
each entry therefore ends in its own SHA-256, and one that does not match is compiled again and replaced. (A cubin with
bytes behind its end is still a cubin to cuobjdump.)
"""

import hashlib
import logging
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from cake_tune.cuda.compiler import compile_cubin, compiler_version
from cake_tune.cuda.manifest import Manifest, sources_hash
from cake_tune.cuda.requirements import cuda_packages
from cake_tune.cuda.specialisation import Specialisation
from cake_tune.errors import CakeTuneError

if TYPE_CHECKING:
    from cuda.core.utils import FileStreamProgramCache

DIGEST_BYTES = hashlib.sha256().digest_size
_log = logging.getLogger(__name__)


def load_cubin(manifest: Manifest, specialisation: Specialisation, directory: Path | None = None) -> bytes:
    """The cubin of ``specialisation``: from the cache in ``directory`` (None: ``cache_directory()``), else compiled.

    A cache that cannot be read or written costs a compilation and a log line, never an error. Raises ``CakeTuneError``
    if the sources are no longer those of ``manifest``: the program would be filed, and measured, under another's name.
    """
    key = program_key(manifest, specialisation)
    found = _stored(directory, key)
    if found is not None:
        return found
    cubin = compile_cubin(manifest, specialisation)
    if sources_hash(manifest.folder) != manifest.identity:
        raise CakeTuneError(f"{manifest.folder}: the kernel sources were edited while this process ran: start it again")
    try:
        _open(directory)[key] = cubin + hashlib.sha256(cubin).digest()
    except OSError as error:
        _log.warning("program cache: %s cannot be stored (%s): it will be compiled again", specialisation, error)
    return cubin


def program_key(manifest: Manifest, specialisation: Specialisation) -> str:
    """What an entry is found by: everything that its bytes follow from."""
    parts = (manifest.identity, compiler_version(), specialisation.arch, specialisation.kernel)
    options = (*manifest.compile_options, *(f"{name}={value}" for name, value in specialisation.macros(manifest)))
    return "|".join((*parts, *options))


def cache_directory() -> Path:
    """Where compiled programs are kept for this user."""
    from platformdirs import user_cache_path

    return user_cache_path("cake-tune", appauthor=False) / "programs"


def _stored(directory: Path | None, key: str) -> bytes | None:
    entry: bytes | None
    try:
        entry = _open(directory).get(key)
    except OSError as error:
        _log.warning("program cache: cannot be read (%s)", error)
        return None
    if entry is None:
        return None
    cubin, digest = entry[:-DIGEST_BYTES], entry[-DIGEST_BYTES:]
    if hashlib.sha256(cubin).digest() == digest:
        return cubin
    _log.warning("program cache: the entry of %s is damaged: compiling it again", key)
    return None


def _open(directory: Path | None) -> "FileStreamProgramCache":
    return _cache_at(cache_directory() if directory is None else directory)


@cache
def _cache_at(directory: Path) -> "FileStreamProgramCache":
    with cuda_packages():
        from cuda.core.utils import FileStreamProgramCache

    return FileStreamProgramCache(directory, max_size_bytes=1 << 30)
