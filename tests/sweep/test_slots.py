"""Which devices a sweep uses: GPUs by number or UUID, of one kind; simulated ones by number."""

from dataclasses import dataclass

import pytest

from cake_tune.backends import get_backend
from cake_tune.cuda import devices
from cake_tune.errors import DeviceUnfitError, UsageError
from cake_tune.planner.shape import Device
from cake_tune.sweep.slots import chosen, same_kind, slots_for


@dataclass(frozen=True)
class Gpu:
    uuid: str
    name: str = "NVIDIA H200"
    num_sms: int = 132
    index: int = 0


DEVICE = Device("NVIDIA H200", "sm_90a", 132)
VISIBLE = [Gpu("GPU-aa1"), Gpu("GPU-aa2"), Gpu("GPU-b")]


@pytest.mark.parametrize(
    ("asked", "places"),
    [
        (None, [0]),
        ("all", [0, 1, 2]),
        ("1", [0]),
        ("3", [0, 1, 2]),
        ("GPU-b", [2]),
        ("GPU-b,GPU-aa1", [2, 0]),
        ("GPU-aa2", [1]),
    ],
)
def test_gpus_are_taken_in_the_order_asked_for(asked, places):
    assert chosen(VISIBLE, asked) == [VISIBLE[place] for place in places]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("0", "from 1 to 3 visible GPUs, got 0"),
        ("4", "from 1 to 3 visible GPUs, got 4"),
        ("-1", r"UUIDs of visible GPUs \(GPU-aa1, GPU-aa2, GPU-b\), got '-1'"),
        ("GPU-a", "got 'GPU-a'"),
        ("GPU-c", "got 'GPU-c'"),
        ("", "got ''"),
        ("GPU-b,", "got ''"),
        ("GPU-b,GPU-b", "GPU-b is named twice"),
        ("\u0663", "got '\u0663'"),
    ],
)
def test_what_is_not_there_is_refused(asked, said):
    with pytest.raises(UsageError, match=f"--gpus: .*{said}"):
        chosen(VISIBLE, asked)


@pytest.mark.parametrize("other", [Gpu("GPU-c", name="NVIDIA H100"), Gpu("GPU-c", num_sms=114)], ids=str)
def test_gpus_of_two_kinds_are_refused(other):
    same_kind(VISIBLE)
    with pytest.raises(
        DeviceUnfitError, match=r"GPUs of one kind, got NVIDIA H200 with 132 SMs \(GPU-b\); .*\(GPU-c\)"
    ):
        same_kind([*VISIBLE, other])


class OnGpu:
    name = "cuda"

    def device(self):
        return DEVICE


@pytest.mark.parametrize(
    ("asked", "environment"),
    [(None, {}), ("1", {"CUDA_VISIBLE_DEVICES": "GPU-aa1"}), ("GPU-aa1", {"CUDA_VISIBLE_DEVICES": "GPU-aa1"})],
)
def test_a_worker_sees_what_the_user_shows_unless_gpus_are_asked_for(monkeypatch, asked, environment):
    monkeypatch.setattr(devices, "visible_gpus", lambda: VISIBLE)
    monkeypatch.setattr(devices, "gpu_device", lambda index: DEVICE)
    (slot,) = slots_for(OnGpu(), asked)
    assert (slot.name, slot.device, slot.environment) == ("GPU-aa1", DEVICE, environment)


@pytest.mark.parametrize("backend", ["simulated", "cpu", "faults:simulated:wrong@prefill*"])
def test_a_backend_that_measures_on_no_gpu_has_one_nameless_slot(backend):
    (slot,) = slots_for(get_backend(backend))
    assert (slot.name, slot.device, slot.environment) == ("", get_backend(backend).device(), {})


@pytest.mark.parametrize("backend", ["simulated", "faults:simulated:wrong@prefill*"])
def test_there_can_be_several_simulated_devices(backend):
    assert [slot.name for slot in slots_for(get_backend(backend), "3")] == [f"simulated-{n}" for n in range(3)]


@pytest.mark.parametrize(
    ("backend", "asked", "said"),
    [
        ("simulated", "0", "from 1 to 64 simulated devices, got 0"),
        ("simulated", "all", "from 1 to 64 simulated devices, got all"),
        ("simulated", "65", "from 1 to 64 simulated devices, got 65"),
        ("cpu", "2", "the backend cpu measures on no GPU"),
        ("faults:cpu:wrong@prefill*", "1", "measures on no GPU"),
    ],
)
def test_other_numbers_of_them_are_refused(backend, asked, said):
    with pytest.raises(UsageError, match=f"--gpus: .*{said}"):
        slots_for(get_backend(backend), asked)
