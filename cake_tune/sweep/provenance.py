"""What a run notes about where its rows come from, and which plans were in force when it started."""

import platform
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from cake_tune.backends import Backend
from cake_tune.errors import ContractError, JournalError
from cake_tune.journal.run import RunDirectory, RunInfo
from cake_tune.planner.lookup import decide
from cake_tune.planner.shape import Device, Plan
from cake_tune.planner.table import PlannerTable
from cake_tune.spec import Point, Spec


def run_info(spec: Spec, backend: Backend, table: PlannerTable) -> RunInfo:
    """The provenance of a run that starts now; its tie band is not known yet."""
    return RunInfo(
        device=backend.device(),
        kernel=backend.identity(),
        backend=spec.backend,
        sweep=spec.name,
        spec_text=spec.text,
        spec_path=spec.path,
        protocol=asdict(spec.protocol),
        tie_band=None,
        tool_version=_version("cake-tune"),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        host={"system": platform.platform(), "python": platform.python_version(), "torch": _version("torch")},
        in_force=table.label,
    )


def known_band(run: RunDirectory, info: RunInfo) -> float | None:
    """The tie band of an earlier run in the same directory, if that measured the same thing in the same way."""
    try:
        earlier = run.read_info()
    except JournalError:
        return None
    same = replace(
        info, device=earlier.device, kernel=earlier.kernel, backend=earlier.backend, protocol=earlier.protocol
    )
    return earlier.tie_band if same == info else None


def plan_in_force(table: PlannerTable, device: Device, point: Point) -> Plan | None:
    """What ``table`` would run for the point's shape, if that is one of the point's plans.

    Of a point with plans of one kernel only, the table is asked for that kernel.
    """
    shape, kernels = point.shape, {plan.kernel for plan in point.plans}
    try:
        decision = decide(
            table,
            num_tokens=shape.num_tokens,
            num_heads=shape.num_heads,
            topk=shape.topk,
            extra_topk=shape.extra_topk,
            num_sms=device.num_sms,
            kernel=next(iter(kernels)) if len(kernels) == 1 else None,
        )
    except ContractError:
        return None
    return decision.plan if decision.plan in point.plans else None


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
