"""What a sweep can measure: the protocol that each backend module fulfils.

A backend module has a function ``create(configuration, after_launch=None)`` that makes its backend from the text behind
the colon of its name.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from cake_tune.measure.protocol import Protocol as MeasuringProtocol
from cake_tune.planner.shape import Device, Plan, Shape
from cake_tune.planner.table import KernelIdentity

AfterLaunch = Callable[[Plan, Any], None]
"""Called after each launch under the correctness gate, with the output (first axis: tokens), which it may change."""


class Session(Protocol):
    """One shape with its inputs in place, ready to run any of its plans.

    Methods raise ``WrongResultError`` for a wrong output, ``ContractError`` for a plan that the shape cannot run, and
    ``MemoryError`` when the device is out of memory. Anything else that they raise counts as a crash: the process that
    holds the session is given up.
    """

    @property
    def least_us(self) -> float:
        """Least microseconds that one call can honestly take (launch floor, or bytes over what the device moves)."""

    def check(self, plan: Plan) -> float:
        """Run ``plan`` on poisoned outputs, compare every token with the reference, and return the relative error."""

    def sample(self, plan: Plan, count: int) -> list[float]:
        """``count`` samples of ``plan`` in microseconds per call, each the mean over calls on rotated inputs."""

    def disturbance(self) -> str | None:
        """What disturbed the device since the last call of this method (throttling, clocks), or None."""


@runtime_checkable
class Audited(Protocol):
    """A session that knows how its device did: not every one does."""

    def audit(self) -> Mapping[str, float]:
        """Figures for the record's audit, each with its unit in its name.

        ``gpu_seconds`` is the time that the device spent in the calls themselves: discarded samples and the gate's
        calls included, and nothing that the tool adds.
        """


@runtime_checkable
class Described(Protocol):
    """A backend that can say more about its device than its name."""

    def facts(self, place: str = "") -> Mapping[str, str]:
        """What holds for a whole run and belongs in its provenance, in words; cheap, like ``Backend.device``.

        ``place`` names one of several devices, a GPU by its UUID; empty for the one that ``Backend.device`` gives.
        """


@runtime_checkable
class SlowToStart(Protocol):
    """A backend whose ``start`` may have more to do than to load a tensor library."""

    start_seconds: float
    """How long a sweep waits for it at most."""


class Backend(Protocol):
    """One way to measure. ``device`` and ``identity`` are cheap and load no tensor library: the parent calls them."""

    name: str
    """As a spec names it, configuration included."""
    options: frozenset[str]
    """Names of the build options that its plans may have."""

    def device(self) -> Device:
        """The device that is measured; ``DeviceUnfitError`` if there is none."""

    def identity(self) -> KernelIdentity:
        """Which kernel is measured: changes whenever a row measured before must not be used again."""

    def start(self) -> None:
        """Load what measuring needs into this process; whatever is raised means that nothing can be measured."""

    def open(self, shape: Shape, protocol: MeasuringProtocol, seed: int) -> AbstractContextManager[Session]:
        """Inputs of ``shape``, made from ``seed``; ``MemoryError`` if they do not fit."""
