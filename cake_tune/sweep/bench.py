"""Measuring in the worker process: the gate, the probe, the race of one point, and the A/A run."""

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random

from cake_tune.backends import Backend
from cake_tune.errors import ContractError, WrongResultError
from cake_tune.journal.record import PlanRow, PointRecord, Status
from cake_tune.measure.calibrate import measure_band, warm_up
from cake_tune.measure.protocol import Protocol
from cake_tune.measure.race import RaceResult, race
from cake_tune.measure.visit import DIGITS, Visit, take_visit
from cake_tune.planner.shape import Plan
from cake_tune.sweep.rows import decided_record, failed_record
from cake_tune.sweep.tasks import Announce, BandTask, PointTask
from cake_tune.sweep.timed import TimedSession
from cake_tune.sweep.twins import bare, labelled, twin_record

PROBES = 2
"""Samples that tell which plans are too slow to be raced."""

Failed = dict[Plan, PlanRow]
"""The plans of a point that are out of the question, with the rows that say why."""


class Bench:
    """A backend with the protocol and the seed of one sweep; warm after its first task."""

    def __init__(self, backend: Backend, protocol: Protocol, seed: int) -> None:
        self._backend = backend
        self._protocol = protocol
        self._seed = seed
        self._warm = False

    def measure_band(self, task: BandTask, announce: Announce) -> float | None:
        """The tie band, by an A/A run; None if its visits gave too little."""
        with self._backend.open(task.shape, self._protocol, self._seed) as opened:
            session = TimedSession(opened, announce)
            self._warm_up(session, task.plan)
            visit = self._visitor(session)
            return measure_band(lambda: visit(task.plan), self._protocol, Random(f"{self._seed} tie band"))

    def measure_point(self, task: PointTask, announce: Announce) -> PointRecord:
        """Measure a point; what goes wrong with a plan becomes its row.

        An exception that leaves this function means that the device or the process cannot be trusted any more.
        """
        failed = {row.plan: row for row in task.failed}
        regime = self._protocol.regime
        try:
            if len(failed) < len(task.plans):
                with self._backend.open(task.shape, self._protocol, self._seed) as opened:
                    session = TimedSession(opened, announce)
                    record = (self._twins if task.twins else self._decided)(session, task, failed)
                    if record is not None:
                        record.audit.update(session.seconds())
                        return record
        except MemoryError as error:
            return failed_record(task, "oom", str(error), failed=failed.values(), regime=regime)
        except ContractError as error:
            return failed_record(task, "invalid", str(error), failed=failed.values(), regime=regime)
        return failed_record(task, "invalid", "every plan failed", failed=failed.values(), regime=regime)

    def _decided(self, session: TimedSession, task: PointTask, failed: Failed) -> PointRecord | None:
        result = self._raced(session, task, failed)
        if result is None:
            return None
        return decided_record(task, result, failed, session.relative_errors, self._protocol.regime)

    def _twins(self, session: TimedSession, task: PointTask, failed: Failed) -> PointRecord | None:
        """Race the only plan against itself, between two gates; None if it does not pass one."""
        end = time.monotonic() + self._protocol.point_seconds
        plans = self._gated(session, list(task.plans), failed)
        if not plans:
            return None
        self._warm_up(session, plans[0])
        visit = self._visitor(session)
        result = race(
            labelled(plans[0]),
            lambda label: visit(bare(label)),
            in_force=None,
            protocol=self._protocol,
            band=task.band,
            rng=Random(f"{self._seed} {task.key}"),
            out_of_time=lambda: time.monotonic() > end,
        )
        if self._gated(session, plans, failed) != plans:
            return None
        return twin_record(task, result, session.relative_errors.get(plans[0]), self._protocol.regime)

    def _raced(self, session: TimedSession, task: PointTask, failed: Failed) -> RaceResult | None:
        """Gate, probe, race, gate again; plans that fail go to ``failed``, the others race anew. None: none left.

        All that were raced pass the second gate, those that left early too: fits use their times as well.
        """
        end = time.monotonic() + self._protocol.point_seconds
        plans = self._gated(session, [plan for plan in task.plans if plan not in failed], failed)
        while plans:
            self._warm_up(session, *plans)
            plans = self._probed(session, plans, failed)
            if not plans:
                break
            result = race(
                plans,
                self._visitor(session),
                in_force=task.in_force if task.in_force in plans else None,
                protocol=self._protocol,
                band=task.band,
                rng=Random(f"{self._seed} {task.key}"),
                out_of_time=lambda: time.monotonic() > end,
            )
            right = self._gated(session, plans, failed)
            if right == plans:
                return result
            plans = right
        return None

    def _gated(self, session: TimedSession, plans: list[Plan], failed: Failed) -> list[Plan]:
        """The plans whose output is right; the others go to ``failed``."""
        for plan in plans:
            row = _failure(session, plan)
            if row is not None:
                failed[plan] = row
        return [plan for plan in plans if plan not in failed]

    def _probed(self, session: TimedSession, plans: list[Plan], failed: Failed) -> list[Plan]:
        """The plans worth racing: those that can be sampled, within ``too_slow_factor`` of the fastest probe."""
        probes: dict[Plan, float] = {}
        for plan in plans:
            try:
                probes[plan] = min(session.sample(plan, PROBES))
            except ContractError as refused:
                failed[plan] = PlanRow(plan, "invalid", error=str(refused))
        limit = self._protocol.too_slow_factor * min(probes.values(), default=0.0)
        for plan, probe in probes.items():
            if probe > limit:
                error = f"about {probe:.4g} us, over the limit of {limit:.4g} us"
                failed[plan] = PlanRow(plan, "too_slow", round(probe, DIGITS), error=error)
        return [plan for plan in plans if plan not in failed]

    def _visitor(self, session: TimedSession) -> Callable[[Plan], Visit]:
        known: dict[Plan, float] = {}

        def visit(plan: Plan) -> Visit:
            visited = take_visit(
                lambda count: session.sample(plan, count),
                self._protocol,
                least_us=session.least_us,
                disturbance=session.disturbance,
                known_us=known.get(plan),
            )
            if visited.status == "ok":
                known.setdefault(plan, visited.median_us)
            return visited

        return visit

    def _warm_up(self, session: TimedSession, *plans: Plan) -> None:
        """Warm the device up with the first of ``plans`` that can be sampled; the others' errors are for their rows."""
        for plan in () if self._warm else plans:
            with suppress(ContractError):
                warm_up(partial(session.sample, plan), self._protocol.warmup_seconds, time.monotonic)
                self._warm = True
                return


def _failure(session: TimedSession, plan: Plan) -> PlanRow | None:
    """The row of a plan that does not pass the correctness gate, or None."""
    status: Status
    try:
        session.check(plan)
        return None
    except WrongResultError as error:
        status, text = "wrong", str(error)
    except MemoryError as error:
        status, text = "oom", str(error)
    except ContractError as error:
        status, text = "invalid", str(error)
    return PlanRow(plan, status, error=text)
