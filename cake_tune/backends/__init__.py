"""What a sweep can measure, one module each, loaded only when asked for by name."""

from importlib import import_module

from cake_tune.backends.base import Backend, Session
from cake_tune.errors import UsageError

__all__ = ["BACKENDS", "Backend", "Session", "get_backend"]

BACKENDS = {
    "cpu": "the op's CPU grid on this machine's cores",
    "cuda": "the compiled kernels on the first visible GPU",
    "simulated": "a made-up device with known best plans and seeded noise: no tensors, for trying things out",
    "faults": "another backend with faults put in, as in faults:cpu:crash@decode/t1/s2 (verifies the sweep itself)",
}
"""Every backend, by name, with what it measures."""


def get_backend(name: str) -> Backend:
    """The backend called ``name``; what follows a colon is the backend's own configuration.

    ``UsageError`` lists what exists.
    """
    kind, _, configuration = name.partition(":")
    if kind not in BACKENDS:
        known = "; ".join(f"{known}: {what}" for known, what in BACKENDS.items())
        raise UsageError(f"backend: expected one of the following, got {name!r}: {known}")
    backend: Backend = import_module(f"cake_tune.backends.{kind}").create(configuration)
    return backend
