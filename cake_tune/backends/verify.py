"""Numerics of a backend over a matrix of shapes: every plan of every shape against the reference."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from cake_tune.backends.base import Backend
from cake_tune.errors import WrongResultError
from cake_tune.measure.protocol import Protocol
from cake_tune.planner.shape import HEAD_COUNTS, Plan, Shape, every_plan

SEED = 20_260_101
"""Seed of the inputs: the same matrix on every machine."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One plan of one shape: the relative error of its output, or what was wrong with it."""

    shape: Shape
    plan: Plan
    error: float | None
    wrong: str | None = None


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
    """Run every plan of ``shapes`` on ``backend`` once and judge it; a wrong result is a verdict, not an exception."""
    for shape in shapes:
        with backend.open(shape, Protocol(), SEED) as session:
            for plan in every_plan(shape):
                try:
                    yield Verdict(shape, plan, session.check(plan))
                except WrongResultError as error:
                    yield Verdict(shape, plan, None, str(error))
