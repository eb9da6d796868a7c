"""A device that is not there: the time of every plan follows from a few constants, seen through seeded noise.

No tensors and no waiting, so that a sweep of thousands of points takes seconds. It is for testing policies and fits,
for estimates before a sweep, and for seeing the tool without a GPU; its rows and tables say "simulated". What is behind
the name: ``simulated_device`` (the constants), ``simulated_time`` (true times), ``simulated_noise``.
"""

from contextlib import AbstractContextManager, nullcontext

from cake_tune.backends.base import AfterLaunch, Session
from cake_tune.backends.simulated_device import SimulatedDevice, simulated_device
from cake_tune.backends.simulated_noise import Noise
from cake_tune.errors import WrongResultError
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.shape import Device, Plan, Shape, check_plan
from cake_tune.planner.table import FAMILY, KernelIdentity

EXPECTED = 1.0


class SimulatedSession:
    """One shape on a simulated device."""

    def __init__(self, device: SimulatedDevice, shape: Shape, seed: int, after_launch: AfterLaunch | None) -> None:
        self.least_us = device.launch_us
        self._device, self._shape = device, shape
        self._noise = Noise(f"{seed} {shape}", device.noise)
        self._after_launch = after_launch
        self._true_us: dict[Plan, float] = {}

    def check(self, plan: Plan) -> float:
        """Every output is ``EXPECTED``, unless the hook of the backend changes it."""
        check_plan(plan, self._shape.num_heads, self._shape.chunks)
        output = [EXPECTED] * max(1, self._shape.num_tokens)
        if self._after_launch is not None:
            self._after_launch(plan, output)
        for token, value in enumerate(output):
            if value != EXPECTED:
                raise WrongResultError(f"output: token {token}: expected {EXPECTED}, got {value}")
        return 0.0

    def sample(self, plan: Plan, count: int) -> list[float]:
        """The true time through the noise of one visit."""
        if plan not in self._true_us:
            # Here, so that the parent of a sweep does not load numpy for it.
            from cake_tune.backends.simulated_time import true_us

            self._true_us[plan] = true_us(self._device, self._shape, plan)
        return self._noise.samples(self._true_us[plan], count)

    def disturbance(self) -> None:
        """Nothing ever disturbs it."""


class SimulatedBackend:
    """A simulated device as a backend."""

    options: frozenset[str] = frozenset()

    def __init__(self, device: SimulatedDevice, configuration: str, after_launch: AfterLaunch | None = None) -> None:
        self.name = f"simulated:{configuration}" if configuration else "simulated"
        self._device = device
        self._after_launch = after_launch

    def device(self) -> Device:
        """Arch "simulated": no GPU, so that its tables never answer for one."""
        return self._device.device

    def identity(self) -> KernelIdentity:
        """The constants are the kernel."""
        return KernelIdentity(FAMILY, self._device.digest, "simulated")

    def start(self) -> None:
        """Load the true times."""
        from cake_tune.backends import simulated_time  # noqa: F401

    def open(self, shape: Shape, protocol: Protocol, seed: int) -> AbstractContextManager[Session]:
        """There are no inputs to make; the regime makes no difference."""
        return nullcontext(SimulatedSession(self._device, shape, seed, self._after_launch))


def create(configuration: str, after_launch: AfterLaunch | None = None) -> SimulatedBackend:
    """The backend of the device that ``configuration`` names, see ``simulated_device``."""
    return SimulatedBackend(simulated_device(configuration), configuration, after_launch)
