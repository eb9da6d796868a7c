"""A run's directory, ``results/<device>/<sweep>/``, and its provenance file ``run.json``."""

import json
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cake_tune.errors import JournalError
from cake_tune.planner.shape import Device
from cake_tune.planner.table import KernelIdentity

VERSION = 1
"""Version of ``run.json``; a reader refuses every other one."""


@dataclass(frozen=True, slots=True)
class RunInfo:
    """Where the rows of a journal come from: everything that belongs to the run rather than to one point."""

    device: Device
    kernel: KernelIdentity
    backend: str
    sweep: str
    spec_text: str
    spec_path: str
    protocol: dict[str, float | int | str]
    """Every field of the measuring protocol, by name."""
    tie_band: float | None
    """Fraction within which two plans count as equal, from the A/A run; None until that has run."""
    tool_version: str
    started: str
    """UTC time of the latest start, ISO 8601."""
    host: dict[str, str] = field(default_factory=dict)
    in_force: str = ""
    """Name or path of the table whose plans were in force."""


class RunDirectory:
    """The files of one run, by name. The directory need not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, results: Path, device: Device, sweep: str) -> "RunDirectory":
        """The directory of ``sweep`` on ``device`` below ``results``."""
        return cls(results / slug(device.name) / slug(sweep))

    @property
    def run_json(self) -> Path:
        """Provenance: device, kernel, spec, protocol."""
        return self.path / "run.json"

    @property
    def journal(self) -> Path:
        """One line per measured point."""
        return self.path / "journal.jsonl"

    @property
    def in_force(self) -> Path:
        """The planner table that was in force when the run last started, whole, so that a fit needs nothing else."""
        return self.path / "in-force.json"

    @property
    def measurements(self) -> Path:
        """One CSV row per measured plan."""
        return self.path / "measurements.csv"

    @property
    def table(self) -> Path:
        """The emitted planner table."""
        return self.path / "table.json"

    @property
    def report(self) -> Path:
        """The report for people."""
        return self.path / "report.md"

    @property
    def plots(self) -> Path:
        """Directory of the report's plots."""
        return self.path / "plots"

    def read_info(self) -> RunInfo:
        """The run's provenance; ``JournalError`` names the file and what is wrong with it."""
        try:
            fields = json.loads(self.run_json.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise JournalError(
                f"run: expected a run directory with a run.json, found none at {self.run_json}"
            ) from None
        except (OSError, ValueError) as error:
            raise JournalError(f"{self.run_json}: expected JSON, got {error}") from error
        return _info_from_json(fields, self.run_json)

    def write_info(self, info: RunInfo) -> None:
        """Write ``run.json``, whole or not at all, creating the directory where needed."""
        self.path.mkdir(parents=True, exist_ok=True)
        temporary = self.run_json.with_name(f".{self.run_json.name}.{os.getpid()}")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump({"version": VERSION, **asdict(info)}, file, indent=1, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.run_json)


def slug(name: str) -> str:
    """``name`` as one path component: lower case, all but letters, digits and dots as dashes."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.") or "unnamed"


def _info_from_json(fields: Any, path: Path) -> RunInfo:
    try:
        given = dict(fields)
        version = given.pop("version")
        if version != VERSION:
            raise JournalError(f"{path}: expected version {VERSION}, got {version!r}")
        device, kernel = Device(**given.pop("device")), KernelIdentity(**given.pop("kernel"))
        return RunInfo(device=device, kernel=kernel, **given)
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, JournalError):
            raise
        raise JournalError(f"{path}: expected the fields of a run, got {error!r}") from error
