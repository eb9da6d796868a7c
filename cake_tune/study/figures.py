"""The figures that the GPU study holds against a target: name, definition in one sentence, value, verdict."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from cake_tune.study.agreement import WITHIN
from cake_tune.study.evidence import Evidence
from cake_tune.sweep.words import counted

Verdict = Literal["met", "missed", "not measured"]
AGREEMENT, DIFFERENCES, OVERHEAD = 95.0, 5.0, 25.0
"""Targets in per cent: the least agreement, the most A/A differences, the bound of the overhead."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure in per cent. ``value`` is None where the inputs lack it, and ``missing`` says what they lack.

    ``relation`` is how a value that meets the target stands to it.
    """

    name: str
    definition: str
    value: float | None
    relation: Literal[">=", "<=", "<"]
    target: float
    missing: str = ""

    @property
    def verdict(self) -> Verdict:
        """How the value stands to the target."""
        if self.value is None:
            return "not measured"
        reached = {
            ">=": self.value >= self.target,
            "<=": self.value <= self.target,
            "<": self.value < self.target,
        }[self.relation]
        return "met" if reached else "missed"


def figures_of(evidence: Evidence) -> list[Figure]:
    """Every figure with a target, in the order of the report."""
    return [_agreement(evidence), _differences(evidence), *_regrets(evidence), *_overheads(evidence)]


def _agreement(evidence: Evidence) -> Figure:
    found = evidence.agreement
    points = len(found.points)
    return Figure(
        "agreement of A and B",
        f"Share of the {counted(points, 'point')} that both sweeps measured at which each one's choice is at most "
        f"{100 * WITHIN:g} % slower than the other's fastest plan, by the other's times.",
        100 * found.agreeing / points if points else None,
        ">=",
        AGREEMENT,
        "the two sweeps have no point in common",
    )


def _differences(evidence: Evidence) -> Figure:
    found = evidence.twins
    points = len(found.points)
    return Figure(
        "A/A differences",
        f"Share of the {counted(points, 'A/A point')}, at each of which one plan is raced and confirmed under two "
        "labels, where the two labels were reported as different.",
        100 * found.differing / points if points else None,
        "<=",
        DIFFERENCES,
        "no A/A run, or none of its points came to a result",
    )


def _regrets(evidence: Evidence) -> Iterator[Figure]:
    """The emitted table's; what it is compared with is in the report's table."""
    tables = {scored.label: scored.answers[0].summary for scored in evidence.scores}
    each = (
        "the time of the plan that the table of A answers over that of the fastest plan measured there that a look-up "
        "can answer with, minus 1"
    )
    missing = "no held-out run, or nothing in it that A has not measured"
    for label, where, shape, mean, worst in (
        ("A", "measured points", "measured point", 0.5, 3.0),
        ("C", "held-out shapes", "held-out shape", 1.0, 5.0),
    ):
        found = tables.get(label)
        over = counted(found.points if found is not None else 0, shape)
        for statistic, word, target in (("mean", "Mean", mean), ("worst", "Largest", worst)):
            value = None if found is None else 100 * float(getattr(found, statistic))
            yield Figure(
                f"{statistic} regret on {where}", f"{word} over the {over} of {each}.", value, "<=", target, missing
            )


def _overheads(evidence: Evidence) -> Iterator[Figure]:
    for label, found in evidence.overheads:
        yield Figure(
            f"overhead of sweep {label}",
            "Share of the wall time, summed over the GPUs, in which a GPU did not work for the sweep: of "
            + (
                "GPU slots x wall time, pauses between calls left out."
                if found.between
                else "the time of its points (what lies between is not on record)."
            ),
            None if found.share is None else 100 * found.share,
            "<",
            OVERHEAD,
            "its records have no account of the GPU's time",
        )
