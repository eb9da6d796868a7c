"""Which table answers.

In order: the one given (``use_table``, then ``CAKE_TUNE_TABLE``); the device's own (its name, then its arch and
num_sms; installed ones before shipped, measured before published); the nearest published rules by num_sms. A table
measured on a CPU or simulated never answers for a GPU.
"""

import os
import re
from functools import cache, lru_cache
from pathlib import Path
from types import TracebackType

from cake_tune.errors import TableError
from cake_tune.planner.shape import Device
from cake_tune.planner.table import PlannerTable, load_table, save_table

ENVIRONMENT = "CAKE_TUNE_TABLE"
SHIPPED = Path(__file__).parent / "tables"
DEFAULT = "rtx-pro-6000-blackwell.json"
"""The shipped table that answers when nothing is known about the device."""

OWN = 1
"""Kinship up to which a table is the device's own: the same name, or the same arch, with the same num_sms."""
NO_KIN = 3

_used: PlannerTable | None = None


class TableInForce:
    """What ``use_table`` returns: as a context manager it puts the table that was in force before back in force."""

    def __init__(self, table: PlannerTable | None, before: PlannerTable | None) -> None:
        self.table = table
        self._before = before

    def __enter__(self) -> PlannerTable | None:
        return self.table

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        global _used  # noqa: PLW0603
        _used = self._before


def use_table(table: PlannerTable | str | os.PathLike[str] | None) -> TableInForce:
    """Put ``table`` (or the one at that path) in force for the process; None gives the choice back.

    Stands above ``CAKE_TUNE_TABLE``. In a ``with`` statement it holds for the block. Raises ``TableError`` for a file
    that is no table.
    """
    global _used  # noqa: PLW0603
    before = _used
    _used = load_table(table) if isinstance(table, str | os.PathLike) else table
    return TableInForce(_used, before)


def table_for(device: Device | None = None, num_sms: int | None = None) -> tuple[PlannerTable, bool]:
    """The table that answers for ``device``, and whether it is the device's own (else its answers are extrapolated).

    ``num_sms`` defaults to the device's. With neither, the table given answers, else the shipped RTX PRO 6000's. With
    ``num_sms`` alone, a GPU's table of exactly so many counts as its own. Raises ``TableError`` when the table given
    is broken, or is not of a GPU and is asked to answer for one (or, without a device, for another num_sms than its
    own). Tables installed while the process runs are seen at once by that process, and by others when they start.
    """
    given = _given_table()
    if given is None:
        return _chosen_table(device, num_sms)
    same_sms = num_sms is None or num_sms == given.device.num_sms
    if not given.device.is_gpu and (device.is_gpu if device is not None else not same_sms):
        asked = device.name if device is not None else f"{num_sms} SMs"
        raise TableError(
            f"table: the one in force was measured on {given.device.name} ({given.device.arch}, "
            f"num_sms {given.device.num_sms}), which is no GPU, so it cannot answer for {asked}"
        )
    return given, same_sms if device is None else _kinship(given.device, device, num_sms) <= OWN


def shipped_tables() -> tuple[PlannerTable, ...]:
    """The tables that come with cake-tune, measured ones first."""
    return _measured_first(_tables_in(SHIPPED))


def installed_tables() -> tuple[PlannerTable, ...]:
    """The tables in ``user_tables_dir()``, measured ones first; ``TableError`` names one that cannot be read."""
    return _measured_first(_tables_in(user_tables_dir()))


def user_tables_dir() -> Path:
    """Where this user's own tables are installed; it need not exist."""
    from platformdirs import user_data_path

    return user_data_path("cake-tune", appauthor=False) / "tables"


def install_table(table: PlannerTable) -> Path:
    """Make ``table`` its device's own for this user; returns the file written. It replaces an earlier one."""
    directory = user_tables_dir()
    device = table.device
    name = re.sub(r"[^a-z0-9]+", "-", device.name.lower()).strip("-")
    path = directory / f"{name}-{device.arch}-{device.num_sms}.json"
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise TableError(f"{directory}: cannot be made: {error.strerror or error}") from error
    save_table(table, path)
    forget_tables()
    return path


def forget_tables() -> None:
    """Look at the disk again: forget which tables are installed."""
    _tables_in.cache_clear()
    _chosen_table.cache_clear()


def _given_table() -> PlannerTable | None:
    if _used is not None:
        return _used
    path = os.environ.get(ENVIRONMENT)
    if not path:
        return None
    try:
        stat = os.stat(path)  # noqa: PTH116  (on every look-up: a Path costs more than the call)
        return _table_at(path, stat.st_mtime_ns, stat.st_size)
    except OSError as error:
        raise TableError(f"{ENVIRONMENT}: {path}: cannot be read: {error.strerror or error}") from error
    except TableError as error:
        raise TableError(f"{ENVIRONMENT}: {error}") from error


@lru_cache(maxsize=8)
def _table_at(path: str, mtime_ns: int, size: int) -> PlannerTable:
    return load_table(path)


@lru_cache(maxsize=64)
def _chosen_table(device: Device | None, num_sms: int | None) -> tuple[PlannerTable, bool]:
    if device is None and num_sms is None:
        return load_table(SHIPPED / DEFAULT), True
    shipped = shipped_tables()
    ranked = [(_kinship(table.device, device, num_sms), table) for table in (*installed_tables(), *shipped)]
    nearest_kin = min(rank for rank, _ in ranked)
    if nearest_kin < NO_KIN:
        return next(table for rank, table in ranked if rank == nearest_kin), nearest_kin <= OWN
    sms = device.num_sms if num_sms is None and device is not None else num_sms or 0
    published = (table for table in shipped if table.provenance.kind == "published")
    return min(published, key=lambda table: (abs(table.device.num_sms - sms), table.device.num_sms)), False


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


@cache
def _tables_in(directory: Path) -> tuple[PlannerTable, ...]:
    return tuple(load_table(path) for path in sorted(directory.glob("*.json")))


def _measured_first(tables: tuple[PlannerTable, ...]) -> tuple[PlannerTable, ...]:
    return tuple(sorted(tables, key=lambda table: table.provenance.kind != "measured"))
