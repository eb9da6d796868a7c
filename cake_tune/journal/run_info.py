"""The provenance of a run, and the origin that its rows carry in their keys."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field

from cake_tune.planner.shape import Device
from cake_tune.planner.table import KernelIdentity

ORIGIN_DIGITS = 12


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
    """Fraction within which two plans count as equal, from the A/A run; None until one has succeeded."""
    tool_version: str
    started: str
    """UTC time of the latest start, ISO 8601."""
    host: dict[str, str] = field(default_factory=dict)
    in_force: str = ""
    """Name or path of the table whose plans were in force."""
    weights: dict[int, float] = field(default_factory=dict)
    """The workload that the spec names: weight by num_tokens. Empty without one: then every octave counts the same."""
    search: dict[str, float] = field(default_factory=dict)
    """Where an adaptive search ended: ``points`` and ``pairs`` of a point and a plan that it measured, of
    ``listed_points`` and ``listed_pairs``; the ``expected_regret`` of a table of the whole grid and its ``bound``, as
    fractions. Empty for an exhaustive sweep."""

    @property
    def search_ended(self) -> bool:
        """True if an adaptive search came to its end, and not to that of its time budget or of the user's patience."""
        regret, listed = self.search.get("expected_regret", math.inf), self.search.get("listed_points")
        below = regret <= self.search.get("bound", -math.inf)
        return below or (listed is not None and self.search.get("points") == listed)

    @property
    def origin(self) -> str:
        """What every row of the run has in common, as hex digits: device, kernel, backend and protocol.

        A row's key is ``<origin>-<point>``, so that rows measured elsewhere are told from the run's own.
        """
        common = {
            "device": asdict(self.device),
            "kernel": asdict(self.kernel),
            "backend": self.backend,
            "protocol": self.protocol,
        }
        text = json.dumps(common, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:ORIGIN_DIGITS]
