"""A run directory names its files, and its provenance is whole or absent."""

import json
from pathlib import Path

import pytest

from cake_tune.errors import JournalError
from cake_tune.journal.run import RunDirectory, RunInfo, slug
from cake_tune.planner.shape import Device
from cake_tune.planner.table import KernelIdentity

INFO = RunInfo(
    device=Device("AMD EPYC 9B14", "cpu", 2, 1 << 25),
    kernel=KernelIdentity("dsv4-nvfp4", "0123", "torch 2.13", ""),
    backend="cpu",
    sweep="quick",
    spec_text="name: quick\n# ünïcode\n",
    spec_path="sweeps/quick.yaml",
    protocol={"regime": "cold", "samples": 20, "alpha": 0.05},
    tie_band=0.01,
    tool_version="0.1.0",
    started="2026-01-01T00:00:00+00:00",
    host={"python": "3.11"},
    in_force="published GB10",
)


def test_provenance_is_equal_after_its_way_through_the_file(tmp_path):
    run = RunDirectory(tmp_path / "new" / "run")
    run.write_info(INFO)
    assert run.read_info() == INFO
    assert [file.name for file in run.path.iterdir()] == ["run.json"]


def test_a_run_lives_under_its_device_and_sweep():
    run = RunDirectory.of(Path("results"), Device("NVIDIA H200", "sm_90a", 132), "dsv4-nvfp4")
    assert run.path == Path("results/nvidia-h200/dsv4-nvfp4")
    assert run.journal == run.path / "journal.jsonl"


@pytest.mark.parametrize("name", ["../../etc", "..", "", "a/b", "ÄÖ", ".hidden", "-x"])
def test_a_slug_is_one_harmless_path_component(name):
    part = slug(name)
    assert part and Path(part).name == part and not part.startswith((".", "-"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "JSON"),
        ("{}", "version"),
        ('{"version": 9}', "version 1"),
        ("[]", "fields of a run"),
        ("3", "fields of a run"),
    ],
)
def test_a_broken_provenance_file_is_named(tmp_path, text, said):
    run = RunDirectory(tmp_path)
    run.run_json.write_text(text)
    with pytest.raises(JournalError, match=f"run.json.*{said}"):
        run.read_info()


def test_an_unknown_field_is_refused(tmp_path):
    run = RunDirectory(tmp_path)
    run.write_info(INFO)
    fields = json.loads(run.run_json.read_text())
    run.run_json.write_text(json.dumps(fields | {"colour": "red"}))
    with pytest.raises(JournalError, match="colour"):
        run.read_info()


def test_no_run_is_a_journal_error(tmp_path):
    with pytest.raises(JournalError, match="expected a run directory"):
        RunDirectory(tmp_path).read_info()
