"""Another backend with faults put in: shows that a sweep survives what kernels and drivers do.

``faults:BASE:KIND@PLAN,...`` runs backend ``BASE`` ("cpu", "cuda", "simulated") and makes every plan whose text matches
the pattern ``PLAN`` (as in ``decode/t1/s2x*``; shell wildcards) fail in the way ``KIND``.
"""

import hashlib
import math
import os
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from importlib import import_module
from random import Random
from typing import Any, NoReturn

from cake_tune.backends.base import Audited, Backend, Described, Session
from cake_tune.errors import UsageError
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.shape import Device, Plan, Shape
from cake_tune.planner.table import KernelIdentity

KINDS = {
    "wrong": "a wrong value in the output",
    "nan": "a NaN in the output",
    "crash": "a segmentation fault while it is checked",
    "killed": "kill -9 of the process while it is timed",
    "error": "an exception that leaves the device unusable",
    "illegal": "a write to an illegal address while it is checked (cuda: by a kernel)",
    "hang": "it never ends while it is timed (cuda: a kernel does not)",
    "oom": "the device runs out of memory (cuda: really)",
    "unstable": "every visit is disturbed",
}
"""What can be put in, by the name used in the configuration."""

BASES = ("cpu", "cuda", "simulated")


class PretendedFaults:
    """The faults of a device, where there is no device to have them."""

    def illegal_address(self) -> NoReturn:
        """As a process would end by it."""
        os.kill(os.getpid(), signal.SIGSEGV)
        raise AssertionError("a process that is ended does not go on")

    def never_end(self) -> NoReturn:
        """Sleep for ever."""
        while True:
            time.sleep(3600)

    def out_of_memory(self) -> NoReturn:
        """Only say so."""
        raise MemoryError("out of memory, on purpose")


class FaultySession:
    """A session whose matching plans fail."""

    def __init__(self, base: Session, faults: "Faults", device: Any) -> None:
        """``device`` has the faults of a device: a ``PretendedFaults``, or the module ``cuda_faults``."""
        self._base = base
        self._faults = faults
        self._device = device
        self._last: Plan | None = None

    @property
    def least_us(self) -> float:
        """The base's."""
        return self._base.least_us

    def check(self, plan: Plan) -> float:
        """The base's gate, unless the plan never gets through it."""
        match self._faults.kind_of(plan):
            case "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "illegal":
                self._device.illegal_address()
            case "oom":
                self._device.out_of_memory()
            case "error":
                raise RuntimeError(f"{plan}: the device is lost, on purpose")
        return self._base.check(plan)

    def sample(self, plan: Plan, count: int) -> list[float]:
        """The base's samples, unless the plan is killed or hangs."""
        match self._faults.kind_of(plan):
            case "killed":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                self._device.never_end()
        self._last = plan
        return self._base.sample(plan, count)

    def disturbance(self) -> str | None:
        """A made-up one right after an unstable plan was sampled; else the base's."""
        if self._last is not None and self._faults.kind_of(self._last) == "unstable":
            return "throttled, on purpose"
        return self._base.disturbance()

    def audit(self) -> Mapping[str, float]:
        """The base's."""
        return self._base.audit() if isinstance(self._base, Audited) else {}


class Faults:
    """Which plans fail, and how: the first matching rule counts."""

    def __init__(self, text: str) -> None:
        self._rules = [self._rule(part) for part in text.split(",")]

    @staticmethod
    def _rule(part: str) -> tuple[str, str]:
        kind, at, pattern = part.partition("@")
        if not at or not pattern or kind not in KINDS:
            raise UsageError(f"backend: expected faults as KIND@PLAN with KIND one of {', '.join(KINDS)}, got {part!r}")
        return kind, pattern

    def kind_of(self, plan: Plan) -> str | None:
        """How ``plan`` fails, or None."""
        return next((kind for kind, pattern in self._rules if fnmatchcase(str(plan), pattern)), None)

    def tamper(self, plan: Plan, output: Any) -> None:
        """Spoil one element of the output of a plan that is to be wrong, anywhere, but always the same."""
        spoiled = {"wrong": 1e3, "nan": math.nan}.get(self.kind_of(plan) or "")
        if spoiled is not None:
            elements = output if isinstance(output, list) else output.view(-1)
            elements[Random(str(plan)).randrange(len(elements))] = spoiled


class FaultsBackend:
    """A backend around another one."""

    def __init__(self, base_name: str, faults_text: str) -> None:
        self.name = f"faults:{base_name}:{faults_text}"
        self._faults = Faults(faults_text)
        self._real = base_name == "cuda"
        module = import_module(f"cake_tune.backends.{base_name}")
        self._base: Backend = module.create("", self._faults.tamper)
        self.options = self._base.options

    def device(self) -> Device:
        """The base's, of arch "faults": what comes out of here must never answer for a device, real or simulated."""
        base = self._base.device()
        return replace(base, name=f"{base.name} with faults", arch="faults")

    def identity(self) -> KernelIdentity:
        """The base's, made another one by the faults."""
        base = self._base.identity()
        text = f"{base.identity} {self.name}"
        return replace(base, identity=hashlib.sha256(text.encode()).hexdigest()[:16])

    def facts(self, place: str = "") -> Mapping[str, str]:
        """The base's, and which faults were put in."""
        base = self._base.facts(place) if isinstance(self._base, Described) else {}
        return {**base, "faults": self.name}

    def start(self) -> None:
        """The base's."""
        self._base.start()

    def open(self, shape: Shape, protocol: Protocol, seed: int) -> AbstractContextManager[Session]:
        """The base's session with the faults in it."""
        return self._opened(shape, protocol, seed)

    @contextmanager
    def _opened(self, shape: Shape, protocol: Protocol, seed: int) -> Iterator[Session]:
        device = import_module("cake_tune.backends.cuda_faults") if self._real else PretendedFaults()
        with self._base.open(shape, protocol, seed) as session:
            yield FaultySession(session, self._faults, device)


def create(configuration: str) -> FaultsBackend:
    """The backend ``faults:BASE:KIND@PLAN,...``."""
    base, _, text = configuration.partition(":")
    if base not in BASES or not text:
        known = ", ".join(f"faults:{known}:KIND@PLAN,..." for known in BASES)
        raise UsageError(f"backend: expected one of {known}, got 'faults:{configuration}'")
    return FaultsBackend(base, text)
