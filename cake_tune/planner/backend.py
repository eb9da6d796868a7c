"""Whose kernels a plan is for: this project's, or FlashInfer's. A table speaks for those that it was measured on."""

from typing import Literal, get_args

Backend = Literal["cake_tune", "flashinfer"]
"""cake_tune: this project's kernels, on a GPU or on the CPU grid. flashinfer: FlashInfer's compiled ones."""

BACKENDS: tuple[Backend, ...] = get_args(Backend)

_SWEPT = "cake-tune sweep on backend "
"""How the source of a measured table starts; the backend follows, as its spec names it."""


def swept_on(backend: str) -> str:
    """The source that a table measured by a sweep on ``backend`` (as a spec names it) gives."""
    return _SWEPT + backend


def backend_of_source(source: str) -> Backend | None:
    """Whose kernels a table with that source was measured on; None where it does not say."""
    return backend_of_sweep(source.removeprefix(_SWEPT)) if source.startswith(_SWEPT) else None


def backend_of_sweep(name: str) -> Backend | None:
    """Whose kernels a sweep on the backend ``name`` measures; None for made-up devices, which run nobody's."""
    kind, _, configuration = name.partition(":")
    if kind == "faults":
        kind = configuration.partition(":")[0]
    if kind == "flashinfer":
        return "flashinfer"
    return "cake_tune" if kind in ("cuda", "cpu") else None
