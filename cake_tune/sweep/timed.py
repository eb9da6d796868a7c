"""A session that announces what it does before it does it, and keeps what the gate found and where the time went."""

from time import perf_counter

from cake_tune.backends import Audited, Session
from cake_tune.planner.shape import Plan
from cake_tune.sweep.tasks import Announce


class TimedSession:
    """A backend's session with these added.

    ``relative_errors`` holds the largest that the gate found of each plan.
    """

    def __init__(self, session: Session, announce: Announce) -> None:
        self._session = session
        self._announce = announce
        self.relative_errors: dict[Plan, float] = {}
        self._checking = 0.0
        self._sampling = 0.0

    @property
    def least_us(self) -> float:
        """The session's."""
        return self._session.least_us

    def check(self, plan: Plan) -> float:
        """The session's gate."""
        self._announce(plan)
        start = perf_counter()
        error = self._session.check(plan)
        self._checking += perf_counter() - start
        self.relative_errors[plan] = max(error, self.relative_errors.get(plan, 0.0))
        return error

    def sample(self, plan: Plan, count: int) -> list[float]:
        """The session's samples."""
        self._announce(plan)
        start = perf_counter()
        samples = self._session.sample(plan, count)
        self._sampling += perf_counter() - start
        return samples

    def disturbance(self) -> str | None:
        """The session's."""
        return self._session.disturbance()

    def seconds(self) -> dict[str, float]:
        """Wall time in the gate and in samples, and what the session knows of its device, by the names of an audit."""
        audit = self._session.audit() if isinstance(self._session, Audited) else {}
        return {"check_seconds": round(self._checking, 6), "sample_seconds": round(self._sampling, 6), **audit}
