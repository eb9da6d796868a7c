"""Backends by name: what exists, what is refused, and that asking costs no torch."""

import subprocess
import sys
from dataclasses import replace

import pytest

from cake_tune.backends import BACKENDS, check_options, get_backend
from cake_tune.backends.faults import Faults
from cake_tune.errors import UsageError
from cake_tune.planner.shape import Plan, Shape, every_plan


@pytest.mark.parametrize("name", ["cpu", "simulated", "faults:simulated:oom@prefill*", "faults:cuda:hang@prefill*"])
def test_a_backend_is_called_what_it_was_asked_for(name):
    assert get_backend(name).name == name


@pytest.mark.parametrize("name", ["gpu", "", "CPU", "base", "cpu_inputs", "../cpu"])
def test_an_unknown_backend_is_refused_with_a_list_of_those_that_exist(name):
    with pytest.raises(UsageError) as refused:
        get_backend(name)
    assert all(known in str(refused.value) for known in BACKENDS)


@pytest.mark.parametrize(
    "name",
    [
        "cpu:fast",
        "simulated:h100",
        "faults",
        "faults:cpu",
        "faults:simulated:",
        "faults:gpu:crash@*",
        "faults:simulated:crash",
        "faults:simulated:crash@",
        "faults:simulated:melt@*",
        "faults:faults:simulated:oom@*",
        "faults:simulated:oom@*,",
    ],
)
def test_a_configuration_that_makes_no_sense_is_refused(name):
    with pytest.raises(UsageError, match="backend: expected"):
        get_backend(name)


@pytest.mark.parametrize("name", ["cpu", "simulated", "faults:cpu:nan@*"])
def test_build_options_are_refused_by_a_backend_that_builds_nothing(name):
    backend, plain = get_backend(name), Plan("prefill", 1, 1, 4)
    check_options(backend, [plain])
    with pytest.raises(UsageError) as refused:
        check_options(backend, [plain, replace(plain, options=(("qk", "nvfp4"), ("stages", "2")))])
    assert f"backend {name} (none), got qk, stages" in str(refused.value)


def test_the_fault_that_the_list_of_backends_shows_strikes_a_plan():
    (example,) = [word for word in BACKENDS["faults"].split() if word.startswith("faults:cpu:")]
    faults = Faults(example.removeprefix("faults:cpu:"))
    assert any(faults.kind_of(plan) == "crash" for plan in every_plan(Shape(1, 16, 256)))


@pytest.mark.parametrize("name", ["cpu", "simulated", "faults:cpu:nan@*"])
def test_device_and_identity_load_no_torch(name):
    code = (
        "import sys; from cake_tune.backends import get_backend\n"
        f"backend = get_backend({name!r}); backend.device(); backend.identity()\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_faults_make_another_kernel_of_a_device_that_is_no_real_one():
    plain, faulty, other = map(get_backend, ("cpu", "faults:cpu:nan@*", "faults:cpu:nan@prefill*"))
    assert len({plain.identity().identity, faulty.identity().identity, other.identity().identity}) == 3
    assert plain.device().arch == "cpu"
    assert faulty.device().arch == "faults"
    assert not faulty.device().is_gpu
    assert faulty.device().num_sms == plain.device().num_sms
