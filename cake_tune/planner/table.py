"""The planner table of one device and one kernel identity: its parts, their checks, and its JSON file."""

import os
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

from cake_tune._files import whole_file
from cake_tune.errors import ContractError, TableError
from cake_tune.planner.backend import Backend, backend_of_source
from cake_tune.planner.codec import from_json, parse_json, render_json, to_json
from cake_tune.planner.coverage import Coverage
from cake_tune.planner.intervals import Intervals
from cake_tune.planner.outside import Outside
from cake_tune.planner.ready import Ready
from cake_tune.planner.regret import Regret as Regret  # noqa: PLC0414  (part of what a table is made of)
from cake_tune.planner.regret import check_regrets
from cake_tune.planner.rules import Rules
from cake_tune.planner.shape import KERNELS, Device, Kernel, Plan, check_plan, check_shape, num_chunks

SCHEMA_VERSION = 3

READABLE = (2, 3)
"""Schema versions that are read; a table of 2 had no ``outside``, and answers as it did."""

FAMILY = "cake_sparse_mla_sm120_dsv4_nvfp4"
"""The kernel family that the planners are for."""


@dataclass(frozen=True, slots=True)
class KernelIdentity:
    """Which kernel was measured: its family, a hash of sources and build options, and what compiled and ran it."""

    family: str
    identity: str
    compiler: str = ""
    driver: str = ""


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where the numbers come from. ``tie_band`` is a fraction of time; ``date`` is ISO 8601."""

    kind: Literal["measured", "published"]
    source: str
    sweep: str = ""
    date: str = ""
    tool_version: str = ""
    timer: str = ""
    tie_band: float = 0.0
    note: str = ""


@dataclass(frozen=True, slots=True)
class Region:
    """What was measured of one (H, topk, extra_topk), kernel by kernel.

    ``decode`` and ``prefill`` list the num_tokens, ascending, at which the plan of that kernel that the table answers
    with has a time: no others may be called measured.
    """

    num_heads: int
    topk: int
    extra_topk: int
    decode: tuple[int, ...] = ()
    prefill: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name, listed in (("decode", self.decode), ("prefill", self.prefill)):
            if any(before >= after for before, after in pairwise(listed)):
                raise TableError(f"{name}: expected ascending num_tokens, got {list(listed)}")
        both = (*self.decode, *self.prefill)
        if not both:
            raise TableError("decode, prefill: expected measured num_tokens in one of them, got none")
        _check_shape(min(both), self)


@dataclass(frozen=True, slots=True)
class Override:
    """The plan to use on an interval of num_tokens (inclusive) where the rules would lose more than the tie band.

    ``regret`` is what the rules would lose there, as a fraction of the plan's time; ``ties`` the plans within the tie
    band of the best, ``plan`` included, or empty when only ``plan`` is.
    """

    num_heads: int
    topk: int
    extra_topk: int
    min_tokens: int
    max_tokens: int
    plan: Plan
    regret: float
    ties: tuple[Plan, ...] = ()

    def __post_init__(self) -> None:
        _check_shape(self.min_tokens, self)
        if self.max_tokens < self.min_tokens:
            raise TableError(f"max_tokens: expected at least min_tokens = {self.min_tokens}, got {self.max_tokens}")
        chunks = num_chunks(self.topk, self.extra_topk)
        for name, plan in (("plan", self.plan), *((f"ties[{i}]", tie) for i, tie in enumerate(self.ties))):
            try:
                check_plan(plan, self.num_heads, chunks)
            except ContractError as error:
                raise TableError(f"{name}: {error}") from None
        check_regrets(self.regret)


@dataclass(frozen=True, slots=True)
class Certificate(Regret):
    """How good a table is: its regret on the points it was fitted on and, where there are some, on held-out ones."""

    held_out: Regret | None = None


@dataclass(frozen=True, kw_only=True)
class PlannerTable:
    """Everything that decides plans on one device.

    ``rules`` answer wherever ``exceptions`` do not, unless ``outside`` has something better for a shape that was not
    measured; ``measured`` says which shapes were, so that an answer can tell whether it is measured, ruled or
    extrapolated. Both are sorted by (num_heads, topk, extra_topk), exceptions
    then by min_tokens, and do not overlap. Raises ``TableError`` when built from parts that break this or that the
    kernel cannot run.
    """

    schema_version: int = SCHEMA_VERSION
    device: Device
    kernel: KernelIdentity
    provenance: Provenance
    calibrated_topks: tuple[int, ...]
    rules: Rules
    exceptions: tuple[Override, ...] = ()
    outside: Outside | None = None
    certificate: Certificate | None = None
    measured: tuple[Region, ...] = ()

    def __post_init__(self) -> None:
        if self.schema_version != SCHEMA_VERSION:
            raise TableError(f"schema_version: this cake-tune writes {SCHEMA_VERSION}, got {self.schema_version}")
        if self.device.num_sms < 1:
            raise TableError(f"device.num_sms: expected an integer >= 1, got {self.device.num_sms}")
        if self.device.l2_bytes < 0:
            raise TableError(f"device.l2_bytes: expected an integer >= 0, got {self.device.l2_bytes}")
        topks = list(self.calibrated_topks)
        if topks != sorted(set(topks)) or not topks or topks[0] < 1:
            raise TableError(f"calibrated_topks: expected ascending integers >= 1, got {topks}")
        _check_order(self.exceptions)
        for i, (before, after) in enumerate(pairwise(self.measured)):
            if _group(before) >= _group(after):
                raise TableError(f"measured[{i + 1}]: expected one entry per num_heads, topk, extra_topk, ascending")

    @property
    def label(self) -> str:
        """How texts name the table: its device with its size, its provenance, and FlashInfer where its kernels ran."""
        unit = "SMs" if self.device.is_gpu else "workers"
        kernels = " on flashinfer" if self.backend == "flashinfer" else ""
        return f"{self.device.name} ({self.device.num_sms} {unit}, {self.provenance.kind}{kernels})"

    @property
    def backend(self) -> Backend | None:
        """Whose kernels were measured; None for published rules, and where the table does not say."""
        return backend_of_source(self.provenance.source) if self.provenance.kind == "measured" else None

    @cached_property
    def untimed(self) -> Kernel | None:
        """The kernel of which nothing was timed, where the other was: the table cannot vouch for it."""
        timed = {kernel for region in self.measured for kernel in KERNELS if getattr(region, kernel)}
        missing = [kernel for kernel in KERNELS if kernel not in timed]
        return missing[0] if len(missing) == 1 else None

    @cached_property
    def override_index(self) -> Intervals[Override]:
        """The exceptions, ready to be searched."""
        return Intervals(self.exceptions)

    @cached_property
    def coverage(self) -> Coverage:
        """What was measured, ready to be searched."""
        return Coverage(self.measured)

    @cached_property
    def ready(self) -> Ready:
        """The answers of the exceptions."""
        return Ready(self)

    @cached_property
    def answers(self) -> dict[Any, Any]:
        """What else has been answered from this table; ``lookup`` bounds the size."""
        return {}


def table_from_json(value: object) -> PlannerTable:
    """The table that parsed JSON holds; ``TableError`` names the JSON path of anything unknown, missing or wrong.

    A table of an earlier schema version is read as one of this.
    """
    if isinstance(value, dict):
        version = value.get("schema_version", SCHEMA_VERSION)
        if type(version) is not int or version not in READABLE:
            # Before anything else: under another version every other complaint would mislead.
            raise TableError(f"$.schema_version: this cake-tune reads {_READABLE}, got {version!r}")
        if version != SCHEMA_VERSION:
            if "outside" in value:
                raise TableError(f"$.outside: unknown key in a table of schema version {version}")
            value = value | {"schema_version": SCHEMA_VERSION}
    return from_json(PlannerTable, value)


def table_to_json(table: PlannerTable) -> dict[str, Any]:
    """The JSON object of ``table``, its keys in the order of the file; empty parts are left out."""
    written: dict[str, Any] = to_json(table)
    return written


def load_table(path: str | os.PathLike[str]) -> PlannerTable:
    """Read the table at ``path``; ``TableError`` names the file and the place of what is wrong."""
    try:
        return table_from_json(parse_json(Path(path).read_text(encoding="utf-8")))
    except OSError as error:
        raise TableError(f"{os.fspath(path)}: cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise TableError(f"{os.fspath(path)}: {error}") from error
    except RecursionError:  # from showing a value that could just be read
        raise TableError(f"{os.fspath(path)}: not a table: nested too deeply") from None


def table_text(table: PlannerTable) -> str:
    """The canonical text of ``table``: stable order, one band, exception or region per line, newline at the end."""
    return render_json(table_to_json(table)) + "\n"


def save_table(table: PlannerTable, path: str | os.PathLike[str]) -> None:
    """Write ``table`` to ``path`` in its canonical text; a reader sees the old file or the new one, never a part."""
    try:
        with whole_file(Path(path)) as file:
            file.write(table_text(table))
    except OSError as error:
        raise TableError(f"{os.fspath(path)}: cannot be written: {error.strerror or error}") from error


_READABLE = " and ".join(map(str, READABLE))


def _check_shape(num_tokens: int, entry: Region | Override) -> None:
    try:
        check_shape(num_tokens, entry.num_heads, entry.topk, entry.extra_topk)
    except ContractError as error:
        raise TableError(str(error)) from None


def _group(entry: Region | Override) -> tuple[int, int, int]:
    return entry.num_heads, entry.topk, entry.extra_topk


def _check_order(exceptions: tuple[Override, ...]) -> None:
    for i, (before, after) in enumerate(pairwise(exceptions)):
        same = _group(before) == _group(after)
        if _group(before) > _group(after) or (same and before.min_tokens > after.min_tokens):
            raise TableError(f"exceptions[{i + 1}]: expected entries sorted by num_heads, topk, extra_topk, min_tokens")
        if same and before.max_tokens >= after.min_tokens:
            raise TableError(
                f"exceptions[{i + 1}]: num_tokens {after.min_tokens} to {after.max_tokens} overlap "
                f"{before.min_tokens} to {before.max_tokens} of the entry before"
            )
