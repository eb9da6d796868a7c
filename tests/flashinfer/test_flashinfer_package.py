"""What is said when FlashInfer is missing, too old, broken or not to be driven: before anything is imported."""

import json
import re
import shutil
import sys
from pathlib import Path

import pytest

from cake_tune.errors import DeviceUnfitError
from cake_tune.flashinfer.interface import DECODE, PREFILL, check_device, drivable_package
from cake_tune.flashinfer.package import MANIFEST, find_package
from cake_tune.planner.shape import Device

RTX = Device("NVIDIA RTX PRO 6000", "sm_120a", 188)


def refusal(call):
    with pytest.raises(DeviceUnfitError) as raised:
        call()
    assert raised.value.exit_code == 6
    return str(raised.value)


def test_a_missing_package_says_how_to_get_it(missing):
    assert refusal(find_package) == "flashinfer-python is not installed: pip install 'cake-tune[flashinfer]'"


@pytest.mark.parametrize("version", ["0.7.1", "0.6.18.post1", "0.7.2rc1"])
def test_an_old_package_says_what_is_needed(installed, version):
    installed(version)
    assert refusal(find_package) == (
        f"flashinfer-python {version} has no SM120 NVFP4 Cake kernels: expected a version >= 0.7.2: "
        "pip install --upgrade 'flashinfer-python>=0.7.2'"
    )


def test_a_version_that_is_none_is_told(installed):
    installed("unknown")
    assert refusal(find_package) == "flashinfer-python: expected a version >= 0.7.2, got 'unknown'"


@pytest.mark.parametrize("version", ["0.7.2", "0.7.2.post1", "0.7.4", "0.8.0rc1", "1.0"])
def test_later_packages_are_taken(installed, version):
    folder = installed(version)
    assert (drivable_package().folder, drivable_package().version) == (folder, version)


def test_metadata_without_the_package_is_told(installed, monkeypatch):
    shutil.rmtree(installed("0.7.4"))
    # Where the tests run, one may be installed.
    monkeypatch.setattr(sys, "path", [place for place in sys.path if not Path(place, "flashinfer").exists()])
    assert refusal(find_package) == (
        "flashinfer-python 0.7.4 is installed, but holds no package flashinfer: pip install 'cake-tune[flashinfer]'"
    )


def test_a_missing_manifest_is_told(installed):
    folder = installed("0.7.4")
    (folder / MANIFEST).unlink()
    said = refusal(drivable_package)
    assert said.startswith(
        f"flashinfer-python 0.7.4: the manifest of its SM120 NVFP4 Cake kernels cannot be read from {folder / MANIFEST}"
    )
    assert said.endswith("pip install 'cake-tune[flashinfer]'")


@pytest.mark.parametrize("broken", ["{", "[]", "{}", '{"identity": 1}'])
def test_a_broken_manifest_is_told(installed, broken):
    (installed("0.7.4") / MANIFEST).write_text(broken)
    assert "the manifest of its SM120 NVFP4 Cake kernels cannot be read" in refusal(drivable_package)


def test_kernels_with_other_limits_are_not_driven(installed):
    path = installed("9.0") / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text()) | {"max_chunks_per_block": 32, "head_counts": [8, 16]}))
    assert refusal(drivable_package) == (
        "flashinfer-python 9.0: this cake-tune cannot drive its kernels: max_chunks_per_block: ours 16, theirs 32; "
        "head_counts: ours [8, 16, 32, 48, 64, 80, 96, 112, 128], theirs [8, 16]; "
        "a newer cake-tune may, or an older FlashInfer"
    )


SOURCE = "mla/_sparse_mla_sm120/_cake_dsv4_nvfp4.py"


def change(folder, before, after):
    text = (folder / SOURCE).read_text()
    assert before in text
    (folder / SOURCE).write_text(text.replace(before, after))


def test_an_argument_that_is_gone_is_told_before_the_first_call(installed):
    before = "    head_tiles: Optional[int] = None,\n) -> Dict"
    change(installed("9.0"), before, before.replace("head_tiles", "tiles"))
    said = refusal(drivable_package)
    for name in (DECODE, PREFILL):
        why = "theirs got an unexpected keyword argument 'head_tiles'"
        assert re.search(rf"{name}: ours called with q, .*, {why}", said)


def test_arguments_in_another_order_are_told(installed):
    before = "    output: torch.Tensor,\n    out_lse: torch.Tensor,\n    sm_scale: float,\n"
    after = "    out_lse: torch.Tensor,\n    output: torch.Tensor,\n    sm_scale: float,\n"
    change(installed("9.0"), before, after)
    said = refusal(drivable_package)
    assert f"{DECODE}: ours (q, kv_cache, indices, output, out_lse, sm_scale, ...), theirs (q, " in said


def test_a_function_that_is_gone_is_told(installed):
    change(installed("9.0"), f"\ndef {DECODE}(", "\ndef decode(")
    assert f"{DECODE}: expected its definition in" in refusal(drivable_package)


def test_devices_that_run_the_kernels_are_those_that_the_release_lists(site):
    package = drivable_package()
    check_device(package, RTX)
    check_device(package, Device("NVIDIA GB10", "sm_121a", 48))
    assert refusal(lambda: check_device(package, Device("NVIDIA H200", "sm_90a", 132))) == (
        "NVIDIA H200: FlashInfer's Cake kernels run on sm_120a, sm_121a, and this device is sm_90a"
    )
