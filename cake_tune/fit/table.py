"""The planner table of a journal: rules, exceptions, certificate, and where it all comes from."""

from collections.abc import Iterable
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np

from cake_tune.fit.certificate import certify
from cake_tune.fit.collect import collect
from cake_tune.fit.listed import timed_points
from cake_tune.fit.outside import choose_outside
from cake_tune.fit.overrides import find_overrides
from cake_tune.fit.regions import regions_of
from cake_tune.fit.rules import fit_rules
from cake_tune.fit.samples import Samples
from cake_tune.journal.record import PointRecord
from cake_tune.journal.run import RunInfo
from cake_tune.measure.protocol import PROTOCOL
from cake_tune.planner.backend import swept_on
from cake_tune.planner.registry import nearest_published
from cake_tune.planner.rules import Rules
from cake_tune.planner.shape import KERNELS, other_kernel
from cake_tune.planner.table import PlannerTable, Provenance


def build_table(records: Iterable[PointRecord], info: RunInfo, in_force: PlannerTable) -> PlannerTable:
    """The table that ``records`` of the run ``info`` give, where ``in_force`` decided so far.

    Deterministic: the same records in any order give the same table. Parts that the records say nothing about (the
    crossover, when no shape has times of both kernels) stay those of ``in_force``, and the provenance's note says so.
    ``UndecidedError`` when no record holds a usable time.
    """
    return table_of_samples(replace(collect(records), workload=tuple(sorted(info.weights.items()))), info, in_force)


def table_of_samples(
    samples: Samples, info: RunInfo, in_force: PlannerTable, second: Executor | None = None
) -> PlannerTable:
    """``build_table`` of records already collected; the process ``second``, if there is one, shares the work."""
    both = np.unique(samples.topk[samples.timed("decode") & samples.timed("prefill")])
    rules = fit_rules(samples, in_force.rules, info.device.num_sms)
    table = PlannerTable(
        device=info.device,
        kernel=info.kernel,
        provenance=_provenance(samples, info, in_force, crossover_measured=bool(len(both))),
        calibrated_topks=tuple(both.tolist()) or in_force.calibrated_topks,
        rules=rules,
    )
    table = replace(table, exceptions=find_overrides(samples, table, in_force))
    table = replace(table, measured=tuple(regions_of(samples, table)))
    blind = _blind_start(in_force, info.device.num_sms)
    table = replace(table, outside=choose_outside(samples, table, blind, in_force, second))
    return replace(table, certificate=certify(samples, table))


def _provenance(samples: Samples, info: RunInfo, in_force: PlannerTable, crossover_measured: bool) -> Provenance:
    notes = []
    if not info.device.is_gpu:
        notes.append(f"measured on {info.device.arch}, not on a GPU: it never answers for one")
    alone = [kernel for kernel in KERNELS if samples.timed(kernel).any()]
    if len(alone) == 1:
        notes.append(f"no {other_kernel(alone[0])} was timed: the certificate is for {alone[0]} alone")
    if not crossover_measured:
        notes.append(
            f"no shape has times of both kernels: the crossover and calibrated_topks are those of {in_force.label}"
        )
    points = timed_points(samples, info)
    if points is not None and points[0] < points[1]:
        notes.append(f"times of {points[0]} of the {points[1]} points that the spec lists")
    return Provenance(
        kind="measured",
        source=swept_on(info.backend),
        sweep=info.sweep,
        date=samples.dates[1][:10],
        tool_version=info.tool_version,
        timer=f"{PROTOCOL}, {info.protocol.get('regime', 'cold')}",
        tie_band=round(info.tie_band if info.tie_band is not None else float(np.expm1(samples.tie_band.max())), 6),
        note="; ".join(notes),
    )


def _blind_start(in_force: PlannerTable, num_sms: int) -> Rules:
    """Rules that have not seen this device: measured ones in force would carry held-out shapes into their own test."""
    return (in_force if in_force.provenance.kind == "published" else nearest_published(num_sms)).rules
