"""Which GPUs the tables know: several may have as many SMs, and a person names one by a part of its name."""

from cake_tune.errors import UsageError
from cake_tune.planner.backend import BACKENDS, Backend
from cake_tune.planner.registry import installed_tables, shipped_tables
from cake_tune.planner.shape import Device


def known_gpus(backend: Backend | None = None) -> list[Device]:
    """The GPUs with an installed or shipped table for the kernels of ``backend`` (None: this project's).

    Each once, in the order in which their tables answer to a number of SMs alone.
    """
    tables = (*installed_tables(), *shipped_tables())
    own = (table.device for table in tables if table.backend in (None, backend or BACKENDS[0]))
    return list({(gpu.name, gpu.arch, gpu.num_sms): gpu for gpu in own if gpu.is_gpu}.values())


def gpus_with(num_sms: int, backend: Backend | None = None) -> list[Device]:
    """Those with exactly ``num_sms``; the first one's table is the one that answers to that number alone."""
    return [gpu for gpu in known_gpus(backend) if gpu.num_sms == num_sms]


def gpu_named(name: str, num_sms: int | None = None, backend: Backend | None = None) -> Device:
    """The one GPU that a table knows by ``name``, whole or a part of it, in any case.

    Of several with that name the one with ``num_sms``. ``UsageError`` lists the known ones where that is none or more.
    """
    known = known_gpus(backend)
    whole = [gpu for gpu in known if gpu.name.casefold() == name.strip().casefold()]
    found = whole or [gpu for gpu in known if name.strip() and name.strip().casefold() in gpu.name.casefold()]
    of_size = [gpu for gpu in found if gpu.num_sms == num_sms]
    if len(of_size or found) == 1:
        return (of_size or found)[0]
    listed = ", ".join(f"{gpu.name} ({gpu.num_sms} SMs)" for gpu in found or known)
    raise UsageError(f"--device: expected one of the GPUs with a table, {listed}; got {name!r}")
