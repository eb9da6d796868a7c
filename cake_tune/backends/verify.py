"""Numerics of a backend over a matrix of shapes: every plan of every shape against the reference."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from cake_tune.backends.base import Backend, Session
from cake_tune.errors import CakeTuneError, ContractError, DeviceUnfitError, WrongResultError
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.shape import HEAD_COUNTS, Plan, Shape, every_plan

SEED = 20_260_101
"""Seed of the inputs: the same matrix on every machine."""
UNTIMED = Protocol(regime="warm")
"""Nothing is timed, so the inputs need not be larger than the caches."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One plan of one shape: the relative error of its output (status "ok"), or why there is none.

    "wrong": it misses the accuracy; "oom": it does not fit the device; "invalid": the op refuses it.
    """

    shape: Shape
    plan: Plan
    status: Literal["ok", "wrong", "oom", "invalid"]
    relative_error: float | None = None
    failure: str | None = None


def verification_shapes() -> list[Shape]:
    """Shapes that meet each feature: every head count, chunk edges, odd pages, both caches, lengths, sink."""
    edges = [Shape(num_tokens=3, num_heads=16, topk=topk) for topk in (1, 63, 64, 65, 128, 512, 1152, 2048)]
    heads = [Shape(num_tokens=2, num_heads=num_heads, topk=192, lengths=True, sink=True) for num_heads in HEAD_COUNTS]
    pages = [replace(edges[4], page_size=page, lengths=True) for page in (1, 2, 32, 48, 128)]
    dual = [
        Shape(num_tokens=2, num_heads=num_heads, topk=512, extra_topk=133, extra_page_size=2, lengths=True, sink=True)
        for num_heads in (8, 32, 64, 128)
    ]
    return [*edges, *heads, *pages, *dual]


def verify(backend: Backend, shapes: list[Shape]) -> Iterator[Verdict]:
    """Run every plan of ``shapes`` on ``backend`` once and judge every token of its output.

    What is wrong with a plan, or with the inputs of a shape, is a verdict. ``DeviceUnfitError`` if the backend cannot
    start.
    """
    try:
        backend.start()
    except CakeTuneError:
        raise
    except Exception as error:
        raise DeviceUnfitError(f"the backend does not start: {type(error).__name__}: {error}") from error
    for shape in shapes:
        plans = list(every_plan(shape))
        try:
            with backend.open(shape, UNTIMED, SEED) as session:
                while plans:
                    yield _verdict(session, shape, plans.pop(0))
        except (MemoryError, ContractError) as error:
            yield from (_failed(shape, plan, error) for plan in plans)


def _verdict(session: Session, shape: Shape, plan: Plan) -> Verdict:
    try:
        return Verdict(shape, plan, "ok", session.check(plan))
    except (WrongResultError, MemoryError, ContractError) as error:
        return _failed(shape, plan, error)


def _failed(shape: Shape, plan: Plan, error: Exception) -> Verdict:
    if isinstance(error, MemoryError):
        return Verdict(shape, plan, "oom", failure=str(error) or "out of memory")
    return Verdict(shape, plan, "wrong" if isinstance(error, WrongResultError) else "invalid", failure=str(error))
