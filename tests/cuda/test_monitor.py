"""The monitor: what disturbs a time, and what is said where there is no NVML."""

import pytest

from cake_tune.cuda import monitor
from cake_tune.cuda.devices import visible_gpus
from cake_tune.cuda.facts import gpu_facts
from cake_tune.cuda.monitor import DISTURBING, GpuMonitor, Reading
from cake_tune.errors import DeviceUnfitError


def without_driver() -> bool:
    return not visible_gpus()


@pytest.mark.skipif(not without_driver(), reason="needs a machine without a GPU")
def test_a_machine_without_nvml_says_so():
    with pytest.raises(DeviceUnfitError, match="NVML: "):
        GpuMonitor("GPU-00000000-0000-0000-0000-000000000000")
    assert gpu_facts() == {}


def test_bindings_that_are_too_old_are_named(monkeypatch):
    from cuda.core import system

    monkeypatch.setattr(system, "CUDA_BINDINGS_NVML_IS_COMPATIBLE", False)
    with pytest.raises(DeviceUnfitError, match=r"NVML: expected cuda-bindings 13\.2 or newer"):
        GpuMonitor("GPU-0")


def test_the_reasons_that_disturb_are_reasons_of_the_driver():
    from cuda.core.system.typing import ClocksEventReasons

    assert set(DISTURBING) < {str(reason) for reason in ClocksEventReasons}


@pytest.mark.parametrize("reason", DISTURBING)
def test_heat_power_brake_and_idle_disturb(reason):
    assert reason in (Reading(1980, (reason, "sw_power_cap")).disturbance(1980) or "")


@pytest.mark.parametrize(
    ("clock", "disturbed"), [(1980, False), (1882, False), (1880, True), (2078, False), (2080, True), (0, False)]
)
def test_a_clock_more_than_five_percent_off_disturbs(clock, disturbed):
    said = Reading(clock, ()).disturbance(1980)
    assert (said is not None) == disturbed
    assert said is None or f"{clock} MHz" in said


def test_a_power_cap_is_the_plans_own_doing():
    assert Reading(1600, ("sw_power_cap",)).disturbance(1980) is None
    assert Reading(1600, ("sw_power_cap", "hw_slowdown")).disturbance(1980) is not None


def test_nothing_known_is_no_disturbance():
    assert Reading(0, ()).disturbance(1980) is None
    assert Reading(1000, ()).disturbance(0) is None


def test_a_question_that_the_gpu_does_not_answer_is_left_out(monkeypatch):
    def refuse():
        raise monitor._nvml().NotSupportedError(3)

    assert monitor._asked(refuse) is None
    assert monitor._asked(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        monitor._asked(lambda: 1 / 0)
