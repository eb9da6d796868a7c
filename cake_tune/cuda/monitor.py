"""What a GPU is doing while it is measured, read from NVML: clocks, what holds them down, heat, power, other users.

Only reads; no setting of the GPU is ever changed. ``cuda.core.system`` answers, and for power and ECC, which it does
not have, the NVML bindings below it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cake_tune.cuda.requirements import cuda_packages
from cake_tune.errors import DeviceUnfitError

DISTURBING = (
    "hw_slowdown",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "gpu_idle",
)
"""Reasons for a clock during which no time counts: heat, power brake, idle. A clock that the power cap holds down is
none of them: what draws so much power always runs at that clock, and its time is the honest one."""
CLOCK_MARGIN = 0.05
"""A clock may differ by this fraction from the warm one."""


@dataclass(frozen=True, slots=True)
class Reading:
    """The SM clock in MHz (0: not known) and the reasons that the driver gives for it."""

    sm_clock_mhz: int
    reasons: tuple[str, ...]

    def disturbance(self, warm_clock_mhz: int) -> str | None:
        """What speaks against a time taken now, or None; ``warm_clock_mhz`` is the clock to compare with (0: none)."""
        held = [reason for reason in self.reasons if reason in DISTURBING]
        if held:
            return f"the GPU's clock is held by {', '.join(held)}"
        if self.sm_clock_mhz and warm_clock_mhz and "sw_power_cap" not in self.reasons:
            apart = self.sm_clock_mhz / warm_clock_mhz - 1
            if abs(apart) > CLOCK_MARGIN:
                return f"the SM clock is {self.sm_clock_mhz} MHz, {apart:+.0%} off the warm {warm_clock_mhz} MHz"
        return None


class GpuMonitor:
    """NVML's view of one GPU, by UUID. ``DeviceUnfitError`` where NVML or the GPU in it cannot be found."""

    def __init__(self, uuid: str) -> None:
        with _nvml_errors():
            self._device = _system().Device(uuid=uuid)
            self._clock = self._device.get_clock("sm")
            self._clock.get_current_mhz()

    def reading(self) -> Reading:
        """The clock and its reasons now: some ten microseconds."""
        clock = _asked(self._clock.get_current_mhz) or 0
        reasons = _asked(lambda: self._device.current_clock_event_reasons) or []
        return Reading(clock, tuple(sorted(str(reason) for reason in reasons if str(reason) != "none")))

    def figures(self) -> dict[str, float]:
        """Temperature and power now, by name with the unit in it; what the GPU does not tell is left out."""
        asked = {
            "temperature_c": _asked(lambda: float(self._device.temperature.get_sensor())),
            "power_w": _asked(lambda: _nvml().device_get_power_usage(self._handle()) / 1e3),
        }
        return {name: float(value) for name, value in asked.items() if value is not None}

    def facts(self) -> dict[str, str]:
        """What holds for a whole run, in words; what the GPU does not tell is left out."""
        asked = {
            "power limit": _asked(lambda: f"{_nvml().device_get_enforced_power_limit(self._handle()) / 1e3:g} W"),
            "ecc": _asked(lambda: "on" if _nvml().device_get_ecc_mode(self._handle())[0] else "off"),
            "mig": _asked(lambda: "on" if self._device.mig.mode else "off"),
            "sm clock limit": _asked(lambda: f"{self._clock.get_max_mhz()} MHz"),
            "memory clock": _asked(lambda: f"{self._device.get_clock('memory').get_current_mhz()} MHz"),
        }
        return {name: value for name, value in asked.items() if value is not None}

    def compute_processes(self) -> tuple[int, ...]:
        """Ids of the processes with a compute context, as the driver counts them; a container may be shown none."""
        running = _asked(lambda: self._device.compute_running_processes) or []
        return tuple(int(process.pid) for process in running)

    def _handle(self) -> int:
        return int(_nvml().device_get_handle_by_uuid(self._device.uuid))


def _system() -> Any:
    with cuda_packages():
        from cuda.core import system
    if not system.CUDA_BINDINGS_NVML_IS_COMPATIBLE:
        raise DeviceUnfitError("NVML: expected cuda-bindings 13.2 or newer: pip install 'cake-tune[cuda]'")
    return system


def _nvml() -> Any:
    with cuda_packages():
        from cuda.bindings import nvml
    return nvml


def _asked(question: Callable[[], Any]) -> Any:
    """The answer; None where this GPU, driver or container does not give one."""
    try:
        return question()
    except (RuntimeError, ValueError):
        return None
    except Exception as error:
        if isinstance(error, _nvml().NvmlError):
            return None
        raise


@contextmanager
def _nvml_errors() -> Iterator[None]:
    try:
        yield
    except DeviceUnfitError:
        raise
    except Exception as error:  # the library is missing, or answers with one of its own many errors
        raise DeviceUnfitError(f"NVML: {error}") from error
