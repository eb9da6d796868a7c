"""What run.json says of the machine and of every GPU that a run used, in one start or in several."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sweep_specs import make_spec, run_at

from cake_tune.backends import get_backend, simulated
from cake_tune.backends.simulated import SimulatedBackend
from cake_tune.backends.simulated_device import SMALL
from cake_tune.sweep import run_sweep
from cake_tune.sweep.host_facts import MACHINE, host_facts, with_earlier_gpus
from cake_tune.sweep.slots import Slot, slots_for

OLD = {
    "system": "Linux",
    "python": "3.12.3",
    "torch": "2.11.0",
    "gpu": "GPU-0",
    "power limit": "700 W",
    "ecc": "on",
}
"""As run.json was when it described one GPU only."""


class OnGpus(SimulatedBackend):
    """Simulated, with the facts of GPUs."""

    def facts(self, place=""):
        return {"gpu": place or "GPU-first", "power limit": "600 W" if place == "GPU-b" else "700 W", "ecc": "on"}


@pytest.fixture
def backend(monkeypatch):
    monkeypatch.setattr(simulated, "create", lambda name: OnGpus(SMALL, name))
    return get_backend("simulated")


def gpus(host):
    return {name: value for name, value in host.items() if name not in MACHINE}


def test_one_gpu_is_described_as_ever(backend):
    own = {"power limit": "700 W", "ecc": "on"}
    assert gpus(host_facts(backend)) == {"gpu": "GPU-first", **own}
    assert gpus(host_facts(backend, ["GPU-a"])) == {"gpu": "GPU-a", **own}


def test_each_further_gpu_is_one_text(backend):
    assert gpus(host_facts(backend, ["GPU-a", "GPU-b", "GPU-c"])) == {
        "gpu": "GPU-a",
        "power limit": "700 W",
        "ecc": "on",
        "gpu 2": "GPU-b; power limit: 600 W; ecc: on",
        "gpu 3": "GPU-c; power limit: 700 W; ecc: on",
    }


def test_a_device_that_is_no_gpu_has_none():
    backend = get_backend("simulated")
    assert set(host_facts(backend, [slot.name for slot in slots_for(backend, "3")])) == set(MACHINE)
    assert gpus(with_earlier_gpus(host_facts(backend), host_facts(backend))) == {}


def test_gpus_of_an_earlier_start_stay(backend):
    now = host_facts(backend, ["GPU-a", "GPU-b"])
    both = with_earlier_gpus(now, OLD)
    assert both == {**now, "gpu 3": "GPU-0; power limit: 700 W; ecc: on"}
    later = with_earlier_gpus(host_facts(backend, ["GPU-b"]), both)
    assert gpus(later) == {
        "gpu": "GPU-b",
        "power limit": "600 W",
        "ecc": "on",
        "gpu 2": "GPU-a; power limit: 700 W; ecc: on",
        "gpu 3": "GPU-0; power limit: 700 W; ecc: on",
    }


places = st.lists(st.sampled_from([f"GPU-{n}" for n in range(5)]), min_size=1, max_size=4, unique=True)


@given(starts=st.lists(places, min_size=1, max_size=4))
def test_every_gpu_of_every_start_is_there_once(starts):
    class Told:
        def facts(self, place=""):
            return {"gpu": place, "ecc": "on"}

    host = {}
    for start in starts:
        host = with_earlier_gpus(host_facts(Told(), start), host)
    said = [value.partition(";")[0] for name, value in host.items() if name.startswith("gpu")]
    assert len(said) == len(set(said))
    assert set(said) == {place for start in starts for place in start}
    assert said[: len(starts[-1])] == starts[-1]


def test_a_run_records_the_gpus_of_all_its_starts(backend, tmp_path):
    run, spec = run_at(tmp_path), make_spec()
    slots = tuple(Slot(name, backend.device()) for name in ("GPU-a", "GPU-b"))
    run_sweep(replace(spec, expanded=spec.points()[:1]), run, slots=slots)
    assert gpus(run.read_info().host)["gpu 2"].startswith("GPU-b; ")
    run_sweep(spec, run, slots=(Slot("GPU-c", backend.device()),))
    assert gpus(run.read_info().host) == {
        "gpu": "GPU-c",
        "power limit": "700 W",
        "ecc": "on",
        "gpu 2": "GPU-a; power limit: 700 W; ecc: on",
        "gpu 3": "GPU-b; power limit: 600 W; ecc: on",
    }
    run_sweep(spec, run, slots=slots[:1], fresh=True)
    assert gpus(run.read_info().host)["gpu"] == "GPU-a"
    assert "gpu 2" not in run.read_info().host
