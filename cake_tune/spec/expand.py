"""Document → points: every combination of the shape axes that the constraints keep, with the plans that can run it."""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from random import Random

from cake_tune.planner.shape import Plan, Shape
from cake_tune.spec.choices import Choices, places, values_of, variants
from cake_tune.spec.constraint import Constraint, parse_constraint
from cake_tune.spec.models import Document, TokenRange
from cake_tune.spec.problems import KeyPath, Problem, Problems, quoted
from cake_tune.spec.sweep_spec import Point
from cake_tune.spec.tokens import ConstraintError
from cake_tune.spec.unused import unused_plan_values, unused_shape_values

MAX_PLANS = 1_000_000
"""Most combinations of the shape axes, and most plans over all points, that one spec may ask for."""

SHAPE_AXES = tuple(field.name for field in dataclasses.fields(Shape))
EXTRA_PAGE = "extra_page_size"


class Domain:
    """The shapes that a document allows, listed or not: the point of any num_tokens between the least and the most."""

    def __init__(self, document: Document) -> None:
        self.axes = {name: _values(getattr(document.shapes, name)) for name in SHAPE_AXES}
        self.choices = Choices(document.plans)
        self.constraints = _constraints(document)

    def __call__(self, shape: Shape) -> Point | None:
        """The point of ``shape`` with every plan allowed on it; None outside the domain."""
        tokens, *others = self.axes.items()
        if not min(tokens[1]) <= shape.num_tokens <= max(tokens[1]):
            return None
        if any(getattr(shape, name) not in values for name, values in others if shape.extra_topk or name != EXTRA_PAGE):
            return None
        try:
            plans, _ = self.plans(shape)
        except Problems:  # a division by zero at a shape that nobody listed
            return None
        return Point(shape, plans) if plans else None

    def plans(self, shape: Shape) -> tuple[tuple[Plan, ...], str]:
        """The plans to compare on a shape, or none and the reason."""
        return _plans(shape, self.choices, self.constraints)


def expand(document: Document, domain: Domain) -> tuple[Point, ...]:
    """Every point of the document, whose domain is ``domain``, in sweep order.

    Raises ``Problems`` where a value, or all of them, yield none.
    """
    axes = domain.axes
    asked, options = math.prod(map(len, axes.values())), variants(document.plans)
    if asked * options > MAX_PLANS:
        each = f" with {options} combinations of build options each" if options > 1 else ""
        raise _too_much(f"expected at most {MAX_PLANS} shapes, got {asked}{each}")
    points: list[Point] = []
    dropped: dict[Shape, str] = {}
    total = 0
    for shape in dict.fromkeys(_shapes(axes)):
        plans, reason = domain.plans(shape)
        if plans:
            points.append(Point(shape, plans))
        else:
            dropped[shape] = reason
        total += len(plans)
        if total > MAX_PLANS:
            raise _too_much(f"expected at most {MAX_PLANS} plans over all shapes, got more")
    if not points:
        reasons = "; ".join(list(dict.fromkeys(dropped.values()))[:3])
        raise Problems([Problem(f"no point is left to measure: {reasons}", ("shapes",))])
    if unused := [*unused_shape_values(document.shapes, points, dropped), *unused_plan_values(document.plans, points)]:
        raise Problems(unused)
    return _drawn(points, document)


def _drawn(points: list[Point], document: Document) -> tuple[Point, ...]:
    """As many of ``points`` as the document's sample asks for, drawn by its seed, in the same order."""
    if document.sample is None:
        return tuple(points)
    if document.sample > len(points):
        raise Problems([Problem(f"expected at most the {len(points)} points, got {document.sample}", ("sample",))])
    places = Random(f"{document.seed} sample").sample(range(len(points)), document.sample)
    return tuple(points[place] for place in sorted(places))


def spread(values: Sequence[int]) -> list[int]:
    """The values coarse first: the smallest, the largest, then the middle of every gap, by halving."""
    ordered = sorted(values)
    last = len(ordered) - 1
    order, gaps = [0, last], [(0, last)]
    for low, high in gaps:  # grows while it is walked: breadth first
        middle = (low + high) // 2
        if low < middle:
            order.append(middle)
            gaps += [(low, middle), (middle, high)]
    return [ordered[index] for index in dict.fromkeys(order)]


def _values(axis: object) -> list[int]:
    return axis.values() if isinstance(axis, TokenRange) else values_of(axis)


def _too_much(message: str) -> Problems:
    return Problems([Problem(f"too much to measure: {message}", ("shapes",))])


def _shapes(axes: Mapping[str, list[int]]) -> Iterator[Shape]:
    unused_page = Shape(0, 0, 0).extra_page_size
    tokens, *others = axes.values()
    for num_tokens in spread(tokens):
        for heads, topk, extra_topk, page, extra_page, lengths, sink in itertools.product(*others):
            extra_page_size = extra_page if extra_topk else unused_page  # without an extra cache it means nothing
            yield Shape(num_tokens, heads, topk, extra_topk, page, extra_page_size, bool(lengths), bool(sink))


def _constraints(document: Document) -> list[tuple[KeyPath, Constraint]]:
    if document.constraint is None:
        return []
    return [(path, parse_constraint(str(text))) for path, text in places(("constraint",), document.constraint)]


def _plans(
    shape: Shape, choices: Choices, constraints: Sequence[tuple[KeyPath, Constraint]]
) -> tuple[tuple[Plan, ...], str]:
    """The plans to compare on a shape, or none and the reason."""
    names: dict[str, int] = {name: getattr(shape, name) for name in (*SHAPE_AXES, "chunks")}
    for path, constraint in constraints:
        if not constraint.about_plans and not _holds(path, constraint, names):
            return (), f"the constraint {quoted(constraint.text)} excludes it"
    plans = choices.plans(shape)
    if not plans:
        return (), choices.limits()
    for path, constraint in constraints:
        if constraint.about_plans:
            plans = tuple(plan for plan in plans if _holds(path, constraint, names | _numbers(plan)))
            if not plans:
                return (), f"the constraint {quoted(constraint.text)} excludes all its plans"
    return (*plans, *choices.rival_plans(shape)), ""


def _numbers(plan: Plan) -> dict[str, int]:
    return {
        "head_tiles": plan.head_tiles,
        "num_splits": plan.num_splits,
        "chunks_per_block": plan.chunks_per_block,
    }


def _holds(path: KeyPath, constraint: Constraint, names: Mapping[str, int]) -> bool:
    try:
        return constraint.holds(names)
    except ConstraintError as error:
        where = ", ".join(f"{name}={names[name]}" for name in sorted(constraint.names))
        raise Problems([Problem(f"{error} where {where}", path, offset=error.offset)]) from None
