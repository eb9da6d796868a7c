"""A run's directory, ``results/<device>/<sweep>/``, and its provenance file ``run.json``."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from cake_tune._files import whole_file
from cake_tune.errors import JournalError
from cake_tune.journal.reader import Part, parts_of, read_part
from cake_tune.journal.record import PointRecord
from cake_tune.journal.run_codec import info_from_json, info_to_json
from cake_tune.journal.run_info import RunInfo
from cake_tune.planner.shape import Device

__all__ = ["RunDirectory", "RunInfo", "slug"]

TOO_DEEP = "expected the provenance of a run, got JSON that is nested too deeply"


class RunDirectory:
    """The files of one run, by name. The directory need not exist yet.

    ``messages`` holds what a person should know about its journal, as far as that was read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.messages: list[str] = []

    @classmethod
    def of(cls, results: Path, device: Device, sweep: str) -> "RunDirectory":
        """The directory of ``sweep`` on ``device`` below ``results``.

        A GPU's is called by its name. Any other device's starts with its arch and ends with its number of workers,
        both of which make it another device: ``cpu-amd-epyc-2``.
        """
        words = [device.name] if device.is_gpu else dict.fromkeys([device.arch, slug(device.name), str(device.num_sms)])
        return cls(results / slug("-".join(words)) / slug(sweep))

    @property
    def run_json(self) -> Path:
        """Provenance: device, kernel, spec, protocol."""
        return self.path / "run.json"

    @property
    def journal(self) -> Path:
        """One line per measured point."""
        return self.path / "journal.jsonl"

    @property
    def twins(self) -> "RunDirectory":
        """The directory of the run's A/A points, a run of its own."""
        return RunDirectory(self.path / "aa")

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
        except (FileNotFoundError, NotADirectoryError):
            raise JournalError(
                f"run: expected a run directory with a run.json, found none at {self.run_json}"
            ) from None
        except (OSError, ValueError) as error:
            raise JournalError(f"{self.run_json}: expected JSON, got {error}") from error
        except RecursionError:
            raise JournalError(f"{self.run_json}: {TOO_DEEP}") from None
        try:
            return info_from_json(fields)
        except JournalError as error:
            raise JournalError(f"{self.run_json}: {error}") from error
        except RecursionError:  # from showing a value that could just be read
            raise JournalError(f"{self.run_json}: {TOO_DEEP}") from None

    def read_records(self) -> Iterator[PointRecord]:
        """Stream the points' records, as ``read_journal`` does, and see to it that they are this run's own.

        Audits and A/A points, which say nothing about which plan is best, are left out: see ``read_all``. Lines that
        had to be passed over are told in ``messages``. ``JournalError`` without a journal or a provenance,
        and for a record of another device, kernel, backend or protocol than the run's.
        """
        return (record for record in self.read_all() if record.counts)

    def read_all(self) -> Iterator[PointRecord]:
        """The same with audits and A/A points."""
        origin = self.read_info().origin
        for part in self.parts(1):
            yield from self._own(part, origin)

    def parts(self, most: int) -> list[Part]:
        """The journal as up to ``most`` parts, of which ``read_records_of`` reads each in any process."""
        return parts_of(self.journal, most, self._tell)

    def read_records_of(self, part: Part) -> Iterator[PointRecord]:
        """What ``read_records`` streams, of one part."""
        return (record for record in self._own(part, self.read_info().origin) if record.counts)

    def _own(self, part: Part, origin: str) -> Iterator[PointRecord]:
        for record in read_part(part):
            if record.key.partition("-")[0] != origin:
                raise JournalError(
                    f"{self.journal}: expected records of the device, kernel, backend and protocol that "
                    f"{self.run_json.name} names (keys {origin}-…), got one with the key {record.key}"
                )
            yield record

    def write_info(self, info: RunInfo) -> None:
        """Write ``run.json``, whole or not at all, creating the directory where needed."""
        self.path.mkdir(parents=True, exist_ok=True)
        with whole_file(self.run_json) as file:
            json.dump(info_to_json(info), file, indent=1, ensure_ascii=False)
            file.write("\n")

    def _tell(self, text: str) -> None:
        if text not in self.messages:
            self.messages.append(text)


def slug(name: str) -> str:
    """``name`` as one path component: lower case, all but letters, digits and dots as dashes."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.") or "unnamed"
