"""What a run notes about where its rows come from, and which plans were in force when it started."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from cake_tune.backends import Backend
from cake_tune.errors import ContractError, JournalError, TableError
from cake_tune.journal.run import RunDirectory, RunInfo
from cake_tune.planner.lookup import decide
from cake_tune.planner.shape import Device, Plan, rival_of
from cake_tune.planner.table import PlannerTable, load_table
from cake_tune.spec import Point, Spec
from cake_tune.sweep.host_facts import host_facts, version_of
from cake_tune.sweep.slots import Slot


def run_info(spec: Spec, backend: Backend, slots: Sequence[Slot] = ()) -> RunInfo:
    """The provenance of a run that starts now on ``slots`` (none: the backend's own device).

    Its tie band and the table in force are not known yet.
    """
    return RunInfo(
        device=slots[0].device if slots else backend.device(),
        kernel=backend.identity(),
        backend=spec.backend,
        sweep=spec.name,
        spec_text=spec.text,
        spec_path=spec.path,
        protocol=asdict(spec.protocol),
        tie_band=None,
        tool_version=version_of("cake-tune"),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        host=host_facts(backend, [slot.name for slot in slots]),
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
