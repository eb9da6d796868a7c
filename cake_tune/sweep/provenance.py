"""What a run notes about where its rows come from, and which plans were in force when it started."""

import platform
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from cake_tune.backends import Backend, Described
from cake_tune.errors import ContractError, JournalError, TableError
from cake_tune.journal.run import RunDirectory, RunInfo
from cake_tune.planner.lookup import decide
from cake_tune.planner.shape import Device, Plan, rival_of
from cake_tune.planner.table import PlannerTable, load_table
from cake_tune.spec import Point, Spec


def run_info(spec: Spec, backend: Backend, device: Device | None = None) -> RunInfo:
    """The provenance of a run that starts now on ``device``; its tie band and the table in force are not known yet."""
    return RunInfo(
        device=device or backend.device(),
        kernel=backend.identity(),
        backend=spec.backend,
        sweep=spec.name,
        spec_text=spec.text,
        spec_path=spec.path,
        protocol=asdict(spec.protocol),
        tie_band=None,
        tool_version=_version("cake-tune"),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        host={
            "system": platform.platform(),
            "python": platform.python_version(),
            "torch": _version("torch"),
            **(backend.facts() if isinstance(backend, Described) else {}),
        },
        weights=dict(spec.weights),
    )


def earlier_info(run: RunDirectory, info: RunInfo) -> RunInfo | None:
    """The provenance of an earlier run in the same directory, if its rows are of the same origin."""
    try:
        earlier = run.read_info()
    except JournalError:
        return None
    return earlier if earlier.origin == info.origin else None


def earlier_table(run: RunDirectory, tell: Callable[[str], None]) -> PlannerTable | None:
    """The table that the rows of ``run`` are judged against; None, and ``tell`` why, if it cannot be read."""
    try:
        return load_table(run.in_force)
    except TableError as error:
        tell(f"{error}; the table in force now takes its place")
        return None


def plan_in_force(table: PlannerTable, device: Device, point: Point) -> Plan | None:
    """What ``table`` would run for the point's shape, if that is one of the point's plans.

    Of a point with plans of one kernel only, the table is asked for that kernel.
    """
    shape, kernels = point.shape, {plan.kernel for plan in point.plans if rival_of(plan) is None}
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
