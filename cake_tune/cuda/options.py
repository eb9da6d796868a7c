"""Which build of the kernels runs: the query mode and the build variant, chosen around calls rather than in them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import NamedTuple

from cake_tune.cuda.manifest import load_manifest
from cake_tune.errors import ContractError

ENVIRONMENT = "CAKE_TUNE_QK"


class BuildOptions(NamedTuple):
    """``qk`` is the query mode; ``variant`` names a build of the manifest, None takes the architecture's default."""

    qk: str
    variant: str | None


_chosen: ContextVar[BuildOptions | None] = ContextVar("cake_tune_build_options", default=None)


@contextmanager
def build_options(*, qk: str | None = None, variant: str | None = None) -> Iterator[BuildOptions]:
    """Calls inside run this build of the kernels; what is None stays as it was outside.

    ``qk="nvfp4"`` quantises the query to NVFP4 and uses the block-scaled matrix instruction of sm_120a and sm_121a
    (emulated elsewhere, for verification): faster there, and less accurate. ``CAKE_TUNE_QK`` sets it for the process.
    ``variant`` is a name of ``kernels/manifest.json``; a call that it cannot run raises ``ContractError``.
    """
    before = chosen_options()
    options = BuildOptions(_known_mode("qk", qk) if qk is not None else before.qk, variant or before.variant)
    token = _chosen.set(options)
    try:
        yield options
    finally:
        _chosen.reset(token)


def chosen_options() -> BuildOptions:
    """The options in force here."""
    return _chosen.get() or _process_options()


@cache
def _process_options() -> BuildOptions:
    qk = os.environ.get(ENVIRONMENT)
    return BuildOptions(load_manifest().default_qk if qk is None else _known_mode(ENVIRONMENT, qk), None)


def _known_mode(name: str, qk: str) -> str:
    modes = load_manifest().qk_modes
    if qk not in modes:
        raise ContractError(f"{name}: expected one of {', '.join(modes)}, got {qk!r}")
    return qk
