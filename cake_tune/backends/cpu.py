"""The op on this machine's cores: real work, real crossovers, on any machine.

Asking for the device or the kernel's identity loads no torch; opening a session does.
"""

import hashlib
from contextlib import AbstractContextManager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from cake_tune.backends.base import AfterLaunch, Session
from cake_tune.errors import UsageError
from cake_tune.host import cpu_device
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.shape import Device, Shape
from cake_tune.planner.table import FAMILY, KernelIdentity

if TYPE_CHECKING:
    from cake_tune.backends.cpu_inputs import CachePools
    from cake_tune.backends.launcher import Launcher


class CpuBackend:
    """The CPU grid as a backend."""

    name = "cpu"
    options: frozenset[str] = frozenset()

    def __init__(self, after_launch: AfterLaunch | None = None, launcher: "Launcher | None" = None) -> None:
        """``launcher`` runs the plans: by default, the op."""
        self._after_launch = after_launch
        self._launcher = launcher
        self._pools: CachePools | None = None

    def device(self) -> Device:
        """The machine itself: its workers are the multiprocessors, its last-level cache is the L2."""
        return cpu_device()

    def identity(self) -> KernelIdentity:
        """A hash of the op's sources; torch, which does the arithmetic, stands in the compiler's place."""
        return KernelIdentity(FAMILY, _source_hash(), f"torch {version('torch')}")

    def start(self) -> None:
        """Import torch and the op."""
        from cake_tune.backends import cpu_session  # noqa: F401

        cpu_device()

    def open(self, shape: Shape, protocol: Protocol, seed: int) -> AbstractContextManager[Session]:
        """Inputs of ``shape``; the cache pools are kept for the next shapes of the same page sizes."""
        from cake_tune.backends.cpu_inputs import CachePools
        from cake_tune.backends.cpu_session import open_session
        from cake_tune.backends.launcher import OpLauncher

        if self._pools is None:
            self._pools = CachePools()
        launcher = self._launcher or OpLauncher()
        return open_session(shape, protocol, seed, self._pools, launcher, self._after_launch)


@cache
def _source_hash() -> str:
    package = Path(__file__).parent.parent
    digest = hashlib.sha256()
    for source in sorted([*(package / "mla").glob("*.py"), package / "planner" / "shape.py"]):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def create(configuration: str, after_launch: AfterLaunch | None = None) -> CpuBackend:
    """The backend ``cpu``, which takes no configuration."""
    if configuration:
        raise UsageError(f"backend: expected 'cpu' without configuration, got {configuration!r}")
    return CpuBackend(after_launch)
