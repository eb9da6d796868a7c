"""The on-disk program cache: hits, keys, damage and concurrency."""

import logging
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from cake_tune.cuda.manifest import load_manifest, read_manifest
from cake_tune.cuda.program_cache import DIGEST_BYTES, cache_directory, load_cubin, program_key
from cake_tune.cuda.specialisation import Specialisation, every_specialisation
from cake_tune.errors import CakeTuneError

MANIFEST = load_manifest()
MERGE = Specialisation("sm_120a", "merge")


def entries(directory):
    return [path for path in (directory / "entries").rglob("*") if path.is_file()]


def test_second_load_is_the_stored_program(tmp_path):
    """A hit returns the same bytes and leaves the entry as it was."""
    first = load_cubin(MANIFEST, MERGE, tmp_path)
    [entry] = entries(tmp_path)
    written = entry.stat().st_mtime_ns
    assert load_cubin(MANIFEST, MERGE, tmp_path) == first
    assert entry.stat().st_mtime_ns == written


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
        lambda data: data[:-1],
        lambda data: b"not a cubin" * 1000,
    ],
    ids=["emptied", "halved", "one bit", "last byte gone", "replaced"],
)
def test_damaged_entry_is_compiled_again(tmp_path, caplog, damage):
    """Whatever happened to the file, the program that comes back is whole, and so is the entry afterwards."""
    good = load_cubin(MANIFEST, MERGE, tmp_path)
    [entry] = entries(tmp_path)
    entry.write_bytes(damage(entry.read_bytes()))
    with caplog.at_level(logging.WARNING):
        assert load_cubin(MANIFEST, MERGE, tmp_path) == good
    assert "damaged" in caplog.text
    [entry] = entries(tmp_path)
    assert entry.read_bytes()[:-DIGEST_BYTES] == good


def test_every_program_has_its_own_key():
    """No two specialisations share an entry, and neither do two versions of the sources."""
    everything = [one for arch in MANIFEST.archs for one in every_specialisation(MANIFEST, arch)]
    assert len({program_key(MANIFEST, one) for one in everything}) == len(everything)
    changed = replace(MANIFEST, identity="0" * 16)
    assert program_key(changed, MERGE) != program_key(MANIFEST, MERGE)
    assert "nvrtc 13." in program_key(MANIFEST, MERGE)


def test_concurrent_loads_agree(tmp_path):
    """Threads that miss together each get the program, and leave one whole entry."""
    with ThreadPoolExecutor(4) as pool:
        cubins = set(pool.map(lambda _: load_cubin(MANIFEST, MERGE, tmp_path), range(8)))
    assert len(cubins) == 1
    [entry] = entries(tmp_path)
    assert entry.read_bytes()[:-DIGEST_BYTES] in cubins


def test_unusable_cache_costs_a_compilation_not_an_error(tmp_path, caplog):
    """Where the directory cannot be made the program is compiled, and the log says why it was not kept."""
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with caplog.at_level(logging.WARNING):
        assert load_cubin(MANIFEST, MERGE, blocked / "programs")[:4] == b"\x7fELF"
    assert "cannot be stored" in caplog.text


def test_sources_edited_meanwhile_are_refused(tmp_path):
    """A program compiled from other sources than the manifest was read with is neither returned nor kept."""
    copy = tmp_path / "kernels"
    shutil.copytree(MANIFEST.folder, copy)
    manifest = read_manifest(copy)
    with (copy / "lse.cuh").open("a") as header:
        header.write("\n// edited\n")
    with pytest.raises(CakeTuneError, match="edited while this process ran"):
        load_cubin(manifest, MERGE, tmp_path / "programs")
    assert not entries(tmp_path / "programs")


def test_cache_is_under_the_users_cache(monkeypatch, tmp_path):
    """The platform's cache directory decides, not the working directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_directory() == tmp_path / "cake-tune" / "programs"
