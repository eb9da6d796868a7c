"""``cake-tune build`` and what is said where something is missing."""

import sys

import pytest
from compiled_kernels import MANIFEST
from typer.testing import CliRunner

from cake_tune.cli.app import app
from cake_tune.cuda import compiler
from cake_tune.cuda.build import build_kernels
from cake_tune.cuda.compiler import compile_cubin
from cake_tune.cuda.manifest import read_manifest
from cake_tune.cuda.specialisation import Specialisation, every_specialisation
from cake_tune.errors import CakeTuneError, DeviceUnfitError, UsageError


class InThisProcess:
    """A pool without processes, so that what a test hides is hidden from it."""

    def __init__(self, *_, **__):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def map(self, work, *arguments):
        return map(work, *arguments)


MERGE = Specialisation("sm_120a", "merge")


@pytest.mark.slow
def test_build_prints_a_row_per_program(built, programs, monkeypatch):
    """Every specialisation of the architecture, with its registers and CTAs per multiprocessor."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(programs.parents[1]))
    done = CliRunner().invoke(app, ["build", "--arch", "sm_121a"])
    assert done.exit_code == 0, done.output
    header, *rows = done.output.splitlines()
    assert "registers" in header
    expected = list(every_specialisation(MANIFEST, "sm_121a"))
    assert [row.split()[0] for row in rows] == [str(one) for one in expected]
    for row, one in zip(rows, expected, strict=True):
        _, registers, _, dynamic, local, ctas = row.split()
        assert (int(registers), int(local)) == (built[one].resources.registers, 0)
        assert (int(dynamic), int(ctas)) == (one.shared_bytes, built[one].ctas_per_sm)


def test_unknown_architecture_lists_the_known_ones():
    """Before anything is compiled."""
    with pytest.raises(UsageError, match="arch: expected one of sm_90a, sm_120a, sm_121a, got 'sm_80'"):
        list(build_kernels(["sm_80"]))


@pytest.mark.parametrize("package", ["cuda.core", "cuda.bindings"])
def test_missing_packages_are_named_with_their_remedy(package, monkeypatch):
    """Without the extra, the message is the command that installs it."""
    monkeypatch.setitem(sys.modules, package, None)
    compiler.compiler_version.cache_clear()
    try:
        with pytest.raises(DeviceUnfitError, match=r"pip install 'cake-tune\[cuda\]'"):
            compile_cubin(MANIFEST, MERGE)
    finally:
        compiler.compiler_version.cache_clear()


@pytest.mark.parametrize("package", ["cuda.core", "cuda.bindings"])
def test_what_is_missing_is_said_before_any_table_is_printed(package, monkeypatch, tmp_path):
    """One error, and no header of a table without rows."""
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr("cake_tune.cuda.build.ProcessPoolExecutor", InThisProcess)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    compiler.compiler_version.cache_clear()
    try:
        done = CliRunner().invoke(app, ["build", "--arch", "sm_121a"])
    finally:
        compiler.compiler_version.cache_clear()
    assert isinstance(done.exception, DeviceUnfitError)
    assert done.stdout == ""


def test_source_that_does_not_compile_shows_the_compilers_log(tmp_path):
    """The specialisation, the compiler and its message, with the line at fault."""
    for path in MANIFEST.folder.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with (tmp_path / "merge.cu").open("a") as source:
        source.write("\nthis is no CUDA;\n")
    with pytest.raises(CakeTuneError, match=r"(?s)sm_120a/merge: nvrtc 13\..*merge\.cu\(\d+\): error"):
        compile_cubin(read_manifest(tmp_path), MERGE)
