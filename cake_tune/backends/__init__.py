"""What a sweep can measure, one module each, loaded only when asked for by name."""

from collections.abc import Iterable
from importlib import import_module

from cake_tune.backends.base import Audited, Backend, Described, Session, SlowToStart
from cake_tune.errors import UsageError
from cake_tune.measure.backend_names import BACKENDS
from cake_tune.planner.shape import RIVAL, Plan

__all__ = ["BACKENDS", "Audited", "Backend", "Described", "Session", "SlowToStart", "check_options", "get_backend"]


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


def check_options(backend: Backend, plans: Iterable[Plan]) -> None:
    """Raise ``UsageError`` for what ``backend`` would not build or has not: its times would not be theirs.

    A backend lists a build option by its name, and a rival as ``rival=NAME``.
    """
    asked = {f"{name}={value}" if name == RIVAL else name for plan in plans for name, value in plan.options}
    unknown = asked - backend.options
    if unknown:
        known = ", ".join(sorted(backend.options)) or "none"
        raise UsageError(
            f"plans.options: expected build options of the backend {backend.name} ({known}), "
            f"got {', '.join(sorted(unknown))}"
        )
