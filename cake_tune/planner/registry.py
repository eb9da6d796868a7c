"""Which table answers.

In order: the one given (``use_table``, then ``CAKE_TUNE_TABLE``); the device's own (its name, then its arch and
num_sms; installed ones before shipped, measured before published); the nearest published rules by num_sms. A table
measured on a CPU or simulated never answers for what is known to be a GPU, and one that was not given answers for the
kernels that it was measured on only: this project's, or FlashInfer's. Published rules answer for both.
"""

import logging
import os
import re
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar

from cake_tune.errors import ContractError, TableError
from cake_tune.planner.backend import BACKENDS, Backend
from cake_tune.planner.environment import environment_table, forget_environment
from cake_tune.planner.shape import Device
from cake_tune.planner.table import PlannerTable, load_table, save_table

SHIPPED = Path(__file__).parent / "tables"
DEFAULT = "rtx-pro-6000-blackwell.json"
"""The shipped table that answers when nothing is known about the device."""

OWN = 1
"""Kinship up to which a table is the device's own: the same name, or the same arch, with the same num_sms."""
NO_KIN = 3

T = TypeVar("T")


class Told(Generic[T]):
    """Something that the process was told, None while it was not."""

    value: T | None = None


class InForce(Generic[T]):
    """What the ``use_`` functions return: as a context manager it puts back what held before."""

    def __init__(self, told: Told[T], value: T | None) -> None:
        self.value = value
        self._told, self._before = told, told.value
        told.value = value

    def __enter__(self) -> T | None:
        return self.value

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._told.value = self._before


_table: Told[PlannerTable] = Told()
_device: Told[Device] = Told()
_backend: Told[Backend] = Told()


def use_table(table: PlannerTable | str | os.PathLike[str] | None) -> InForce[PlannerTable]:
    """Put ``table`` (or the one at that path) in force for the process; None gives the choice back.

    Stands above ``CAKE_TUNE_TABLE``. In a ``with`` statement it holds for the block. Raises ``TableError`` for a file
    that is no table.
    """
    return InForce(_table, load_table(table) if isinstance(table, str | os.PathLike) else table)


def use_device(device: Device | None) -> InForce[Device]:
    """Say which device this process plans for; None takes it back. In a ``with`` statement it holds for the block.

    The planners know a device by ``num_sms`` alone, and the config by nothing: once told, both answer from that
    device's own table (installed or shipped), and no table of a CPU answers for a GPU that has as many SMs.
    ``ContractError`` for anything but a ``Device``.
    """
    if device is not None and not isinstance(device, Device):
        raise ContractError(
            f"device: expected a Device, such as cake_tune.device_of(tensor.device), or None, got {device!r}"
        )
    return InForce(_device, device)


def use_backend(backend: Backend | None) -> InForce[Backend]:
    """Say whose kernels this process plans for: "cake_tune" (as when nothing is said, or None) or "flashinfer".

    The planners and the config then answer from the table that was measured on them. In a ``with`` statement it holds
    for the block. ``ContractError`` for another name. The op needs no word: its ``backend`` argument decides.
    """
    return InForce(_backend, None if backend is None else _known(backend))


def table_for(
    device: Device | None = None, num_sms: int | None = None, backend: Backend | None = None
) -> tuple[PlannerTable, bool]:
    """The table that answers for ``device``, and whether it is the device's own (else its answers are extrapolated).

    ``backend``, by default that of ``use_backend``, says for whose kernels (``ContractError`` for another name). A
    table that was given answers for either, as published rules do.

    ``num_sms`` defaults to the device's, and ``device`` to that of ``use_device``, unless ``num_sms`` is another's.
    With neither, the table given answers, else the shipped RTX PRO 6000's. With ``num_sms`` alone, a GPU's table of
    exactly so many counts as its own.

    Raises ``TableError`` when the table given is broken, or is not of a GPU and is asked to answer for one. Without a
    device that can be told from ``num_sms`` alone: a given CPU table answers for its own count of workers, also if a
    GPU with as many SMs was meant, and for no other count. Tables installed while the process runs are seen at once by
    that process, and by others when they start; how soon ``CAKE_TUNE_TABLE`` is, ``environment`` says.
    """
    at_hand = _device.value
    if device is None and at_hand is not None and (num_sms is None or num_sms == at_hand.num_sms):
        device = at_hand
    given = _table.value
    if given is None:
        given = environment_table()
        if given is None:
            return _chosen_table(device, num_sms, _known(backend or _backend.value or BACKENDS[0]))
    same_sms = num_sms is None or num_sms == given.device.num_sms
    if not given.device.is_gpu:
        on_gpu = at_hand is not None and at_hand.is_gpu
        if device.is_gpu if device is not None else on_gpu or not same_sms:
            asked = device.name if device is not None else f"{num_sms} SMs"
            raise TableError(
                f"table: the one in force was measured on {given.device.name} ({given.device.arch}, "
                f"num_sms {given.device.num_sms}), which is no GPU, so it cannot answer for {asked}"
            )
    return given, same_sms if device is None else _kinship(given.device, device, num_sms) <= OWN


def shipped_tables() -> tuple[PlannerTable, ...]:
    """The tables that come with cake-tune, measured ones first."""
    return _shipped_tables()


def installed_tables() -> tuple[PlannerTable, ...]:
    """The tables in ``user_tables_dir()``, measured ones first.

    One that cannot be read (torn, or of an earlier schema) is left out with a logged warning: it concerns one device,
    and must not stop the planners of every other.
    """
    return _installed_tables(user_tables_dir())


def nearest_published(num_sms: int) -> PlannerTable:
    """The shipped published table of the nearest SM count, the smaller of two as near."""
    published = (table for table in shipped_tables() if table.provenance.kind == "published")
    return min(published, key=lambda table: (abs(table.device.num_sms - num_sms), table.device.num_sms))


def user_tables_dir() -> Path:
    """Where this user's own tables are installed; it need not exist."""
    from platformdirs import user_data_path

    return user_data_path("cake-tune", appauthor=False) / "tables"


def install_table(table: PlannerTable) -> Path:
    """Make ``table`` its device's own for this user and its backend; returns the file written.

    It replaces an earlier one of the same device and backend, and leaves the other backend's in force.
    """
    directory = user_tables_dir()
    device, backend = table.device, table.backend
    name = re.sub(r"[^a-z0-9]+", "-", device.name.lower()).strip("-")
    unnamed = directory / f"{name}-{device.arch}-{device.num_sms}.json"
    path = unnamed if backend is None else unnamed.with_stem(f"{unnamed.stem}-{backend.replace('_', '-')}")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TableError(f"{directory}: cannot be made: {error.strerror or error}") from error
    save_table(table, path)
    if path != unnamed:
        _remove_earlier(unnamed, backend)
    forget_tables()
    return path


def forget_tables() -> None:
    """Look at the disk and the environment again: forget which tables are installed and named there."""
    _installed_tables.cache_clear()
    _chosen_table.cache_clear()
    forget_environment()


@lru_cache(maxsize=64)
def _chosen_table(device: Device | None, num_sms: int | None, backend: Backend) -> tuple[PlannerTable, bool]:
    if device is None and num_sms is None:
        return load_table(SHIPPED / DEFAULT), True
    ranked = [
        (_kinship(table.device, device, num_sms), table)
        for table in (*installed_tables(), *shipped_tables())
        if table.backend in (None, backend)
    ]
    nearest_kin = min(rank for rank, _ in ranked)
    if nearest_kin < NO_KIN:
        return next(table for rank, table in ranked if rank == nearest_kin), nearest_kin <= OWN
    sms = device.num_sms if num_sms is None and device is not None else num_sms or 0
    return nearest_published(sms), False


def _kinship(of: Device, device: Device | None, num_sms: int | None) -> int:
    """How near a table's device is to the one asked for: 0 is the nearest, up to ``OWN`` its table is its own."""
    if device is None:
        return OWN if of.is_gpu and of.num_sms == num_sms else NO_KIN
    same_name = of.name == device.name and of.arch == device.arch
    same_sms = of.num_sms == (device.num_sms if num_sms is None else num_sms)
    if same_name and same_sms:
        return 0
    if not of.is_gpu or of.arch != device.arch:
        return NO_KIN
    if same_sms:
        return OWN
    # The same GPU with fewer SMs (a partition of it) is nearer than another GPU.
    return OWN + 1 if same_name else NO_KIN


def _known(backend: Backend) -> Backend:
    if backend not in BACKENDS:
        raise ContractError(f"backend: expected {' or '.join(BACKENDS)}, got {backend!r}")
    return backend


def _remove_earlier(path: Path, backend: Backend | None) -> None:
    """Remove the installed table at ``path``, whose name says no backend, if it is of ``backend`` all the same.

    So were tables installed before their names said it. What cannot be read or removed stays: the one just installed
    is found before it.
    """
    with suppress(TableError, OSError):
        if load_table(path).backend == backend:
            path.unlink()


@cache
def _shipped_tables() -> tuple[PlannerTable, ...]:
    return _measured_first([load_table(path) for path in sorted(SHIPPED.glob("*.json"))])


@cache
def _installed_tables(directory: Path) -> tuple[PlannerTable, ...]:
    found = []
    for path in sorted(directory.glob("*.json")):
        try:
            found.append(load_table(path))
        except TableError as error:
            _warn_once(f"installed table left out: {error}")
    return _measured_first(found)


@cache
def _warn_once(message: str) -> None:
    logging.getLogger(__name__).warning(message)


def _measured_first(tables: list[PlannerTable]) -> tuple[PlannerTable, ...]:
    return tuple(sorted(tables, key=lambda table: table.provenance.kind != "measured"))
