"""The host block of ``run.json``: the machine, and every GPU that the run's rows were measured on.

Its values are texts. The facts of the first GPU stand by themselves (``gpu``, ``power limit``, …); each further one,
and each that an earlier start of the run used, is one text under ``gpu 2``, ``gpu 3`` and so on: its UUID, then its
facts.
"""

import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version

from cake_tune.backends import Backend, Described

GPU = "gpu"
MACHINE = ("system", "python", "torch")
"""What the block says of the machine; everything else is of a GPU, or of the backend."""


def host_facts(backend: Backend, places: Sequence[str] = ()) -> dict[str, str]:
    """The machine now, and what ``backend`` says of each of ``places``: GPUs by UUID (none: its own device)."""
    said = [backend.facts(place) for place in places or ("",)] if isinstance(backend, Described) else []
    host = {"system": platform.platform(), "python": platform.python_version(), "torch": version_of("torch")}
    return _numbered({**host, **(said[0] if said else {})}, (_line(facts) for facts in said[1:]))


def with_earlier_gpus(host: Mapping[str, str], earlier: Mapping[str, str]) -> dict[str, str]:
    """``host``, and after its own GPUs those of an ``earlier`` start that are none of them."""
    known = {uuid for uuid, _ in _gpus(host)}
    return _numbered(host, (line for uuid, line in _gpus(earlier) if uuid not in known))


def version_of(package: str) -> str:
    """The version of an installed package; "unknown" without one."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def _numbered(host: Mapping[str, str], lines: Iterator[str]) -> dict[str, str]:
    """``host`` with one more numbered GPU for each of ``lines``."""
    first = len(list(_gpus(host))) + 1
    return {**host, **{f"{GPU} {number}": line for number, line in enumerate(lines, first)}}


def _gpus(host: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The GPUs of a host block: the UUID and the line of each."""
    if GPU in host:
        own = {name: value for name, value in host.items() if name not in MACHINE and not _is_further(name)}
        yield host[GPU], _line(own)
    for name, line in host.items():
        if _is_further(name):
            yield line.partition(";")[0], line


def _is_further(name: str) -> bool:
    return name.startswith(f"{GPU} ") and name.removeprefix(f"{GPU} ").isdecimal()


def _line(facts: Mapping[str, str]) -> str:
    return "; ".join([facts.get(GPU, ""), *(f"{name}: {value}" for name, value in facts.items() if name != GPU)])
