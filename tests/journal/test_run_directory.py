"""A run directory names its files, and its provenance is whole or absent."""

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
from journal_records import record

from cake_tune.errors import JournalError
from cake_tune.journal.journal import Journal
from cake_tune.journal.run import RunDirectory, RunInfo, slug
from cake_tune.journal.run_codec import OPTIONAL
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


def test_the_workload_of_a_run_is_in_its_file_only_if_there_is_one(tmp_path):
    run, weighted = RunDirectory(tmp_path), replace(INFO, weights={1: 120.0, 64: 0.5})
    run.write_info(weighted)
    assert run.read_info() == weighted
    assert weighted.origin == INFO.origin
    run.write_info(INFO)
    assert "weights" not in json.loads(run.run_json.read_text())
    assert run.read_info() == INFO


def test_a_run_lives_under_its_device_and_sweep():
    run = RunDirectory.of(Path("results"), Device("NVIDIA H200", "sm_90a", 132), "dsv4-nvfp4")
    assert run.path == Path("results/nvidia-h200/dsv4-nvfp4")
    assert run.journal == run.path / "journal.jsonl"


@pytest.mark.parametrize(
    ("device", "directory"),
    [
        (INFO.device, "cpu-amd-epyc-9b14-2"),
        (Device("AMD EPYC 9B14", "cpu", 4), "cpu-amd-epyc-9b14-4"),
        (Device("Simulated", "simulated", 24), "simulated-24"),
        (Device("Faults over AMD EPYC 9B14", "simulated", 2), "simulated-faults-over-amd-epyc-9b14-2"),
    ],
)
def test_the_directory_of_a_device_that_is_no_gpu_says_so(device, directory):
    assert RunDirectory.of(Path("results"), device, "quick").path == Path("results", directory, "quick")


@pytest.mark.parametrize("name", ["../../etc", "..", "", "a/b", "ÄÖ", ".hidden", "-x"])
def test_a_slug_is_one_harmless_path_component(name):
    part = slug(name)
    assert part and Path(part).name == part and not part.startswith((".", "-"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "JSON"),
        ("{}", "version: expected 1, got None"),
        ('{"version": 9}', "version: expected 1, got 9"),
        ("[]", "an object"),
        ("3", "an object"),
        ("null", "an object"),
        ("[" * 100_000 + "]" * 100_000, "nested too deeply"),
        ('{"version": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
    ],
    ids=lambda text: text[:20],
)
def test_a_broken_provenance_file_is_named(tmp_path, text, said):
    run = RunDirectory(tmp_path)
    run.run_json.write_text(text)
    with pytest.raises(JournalError, match=f"run.json.*{said}"):
        run.read_info()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"tie_band": "x"}, "tie_band: expected a fraction or null, got 'x'"),
        ({"tie_band": -5}, "tie_band: expected a fraction or null, got -5"),
        ({"tie_band": float("nan")}, "tie_band: expected a fraction or null, got nan"),
        ({"tie_band": True}, "tie_band: expected a fraction or null, got True"),
        ({"device": []}, r"device: expected an object with string keys, got \[\]"),
        ({"device": {"name": "A", "arch": "cpu"}}, "device.l2_bytes: expected a value, found none"),
        (
            {"device": {"name": "A", "arch": "cpu", "num_sms": "2", "l2_bytes": 0}},
            "device.num_sms: expected an integer",
        ),
        ({"device": {"name": 1, "arch": "cpu", "num_sms": 2, "l2_bytes": 0}}, "device.name: expected a string, got 1"),
        ({"kernel": {"family": None}}, "kernel.family: expected a string, got None"),
        ({"protocol": {"samples": [1]}}, r"protocol.samples: expected a number or a string, got \[1\]"),
        ({"protocol": {"alpha": float("inf")}}, "protocol.alpha: expected a number"),
        ({"host": {"python": 3}}, "host.python: expected a string, got 3"),
        ({"spec_text": None}, "spec_text: expected a string, got None"),
        ({"weights": []}, r"weights: expected an object with string keys, got \[\]"),
        ({"weights": {"x": 1}}, "weights: expected num_tokens as keys, got 'x'"),
        ({"weights": {"4": -1}}, "weights.4: expected a finite number >= 0, got -1"),
        ({"weights": {"4": float("inf")}}, "weights.4: expected a finite number >= 0, got inf"),
    ],
    ids=str,
)
def test_a_field_of_the_wrong_kind_is_named(tmp_path, change, said):
    run = RunDirectory(tmp_path)
    run.write_info(INFO)
    run.run_json.write_text(json.dumps(json.loads(run.run_json.read_text()) | change))
    with pytest.raises(JournalError, match=f"run.json: {said}"):
        run.read_info()


@pytest.mark.parametrize("depth", [500, 900, 960, 990, 1000, 2000])
def test_json_at_any_depth_is_refused_in_few_words(tmp_path, depth):
    """Also where it can just be read, and what is wrong with it can just not be shown."""
    run = RunDirectory(tmp_path)
    run.write_info(INFO)
    given = json.loads(run.run_json.read_text()) | {"host": "deep"}
    run.run_json.write_text(json.dumps(given).replace('"deep"', "[" * depth + "]" * depth))
    with pytest.raises(JournalError, match=r"run.json: (host: expected an object|.*nested too deeply)") as caught:
        run.read_info()
    assert len(str(caught.value).removeprefix(str(run.run_json))) < 200


@pytest.mark.parametrize("name", [field.name for field in fields(RunInfo) if field.name not in OPTIONAL])
def test_a_missing_field_is_named(tmp_path, name):
    run = RunDirectory(tmp_path)
    run.write_info(INFO)
    kept = {key: value for key, value in json.loads(run.run_json.read_text()).items() if key != name}
    run.run_json.write_text(json.dumps(kept))
    with pytest.raises(JournalError, match=f"run.json: {name}: expected a value, found none"):
        run.read_info()


def own(number: int, **changes):
    return record(f"{replace(INFO, **changes).origin}-{number}")


def run_with(path, records) -> RunDirectory:
    run = RunDirectory(path)
    run.write_info(INFO)
    with Journal(run.journal) as journal:
        for item in records:
            journal.append(item)
    return run


def test_the_records_of_a_run_are_read_and_damage_is_told_once(tmp_path):
    run = run_with(tmp_path, [own(1), own(2), own(3)])
    assert list(run.read_records()) == [own(1), own(2), own(3)]
    assert run.messages == []
    lines = run.journal.read_bytes().splitlines(keepends=True)
    run.journal.write_bytes(lines[0] + lines[1].replace(b"rounds", b"rouNds") + lines[2][:-30])
    for _ in range(2):
        assert list(run.read_records()) == [own(1)]
        assert [text.partition(": ")[0] for text in run.messages] == [f"{run.journal}:2", f"{run.journal}:3"]


def test_audits_and_twins_are_no_points(tmp_path):
    audit, twins = replace(own(2), audits=own(1).key, gpu="GPU-b"), replace(own(3), twins=True)
    run = run_with(tmp_path, [own(1), audit, twins])
    assert list(run.read_records()) == [own(1)]
    assert list(run.read_all()) == [own(1), audit, twins]


@pytest.mark.parametrize(
    "change",
    [
        {"device": Device("NVIDIA H200", "sm_90a", 132)},
        {"device": replace(INFO.device, num_sms=4)},
        {"kernel": replace(INFO.kernel, compiler="torch 3")},
        {"backend": "simulated"},
        {"protocol": INFO.protocol | {"samples": 21}},
    ],
    ids=str,
)
def test_records_of_another_origin_are_refused(tmp_path, change):
    run = run_with(tmp_path, [own(1), own(2, **change)])
    with pytest.raises(JournalError, match=f"keys {INFO.origin}-…\\), got one with the key {own(2, **change).key}"):
        list(run.read_records())


def test_what_else_is_in_the_file_of_a_run_makes_no_other_origin():
    assert replace(INFO, tie_band=None, sweep="b", started="later", host={}, in_force="b").origin == INFO.origin


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
