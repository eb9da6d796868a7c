"""Values of a spec that no point uses: each is most likely a slip, so it is an error that says why."""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from cake_tune.planner.shape import Shape, resolve_splits
from cake_tune.spec.choices import PREFILL_LIMIT, SPLITS_LIMIT, TILES_LIMIT, places, value_text
from cake_tune.spec.models import Plans, Shapes, TokenRange
from cake_tune.spec.problems import KeyPath, Problem
from cake_tune.spec.sweep_spec import Point


def unused_shape_values(shapes: Shapes, points: Sequence[Point], dropped: Mapping[Shape, str]) -> Iterator[Problem]:
    """A problem for every value given that no point's shape has (one for all of a range), with the reasons."""
    for name in sorted(shapes.model_fields_set):
        used = {getattr(point.shape, name) for point in points}
        reasons: dict[object, dict[str, None]] = {}
        for shape, reason in dropped.items():
            reasons.setdefault(getattr(shape, name), {})[reason] = None
        for path, values in _given(("shapes", name), getattr(shapes, name)):
            if unused := [value for value in values if value not in used]:
                shown = ", ".join(map(value_text, unused[:3])) + (f" and {len(unused) - 3} more" if unused[3:] else "")
                why = "; ".join(list(reasons.get(unused[0], ()))[:3]) or "no shape has an extra cache (extra_topk is 0)"
                yield Problem(f"no point uses {shown}: {why}", path)


def unused_plan_values(plans: Plans, points: Sequence[Point]) -> Iterator[Problem]:
    """A problem for every value given for the plans that no plan of any point has."""
    kernels = {plan.kernel for point in points for plan in point.plans}
    tiles = {plan.head_tiles for point in points for plan in point.plans}
    for name, used, limit in (("kernels", kernels, PREFILL_LIMIT), ("head_tiles", tiles, TILES_LIMIT)):
        given = getattr(plans, name)
        if name in plans.model_fields_set and given != "all":
            yield from _unused(("plans", name), given, used, limit)
    if plans.splits != "all":
        yield from _unused(("plans", "splits"), plans.splits, _used_splits(plans, points), SPLITS_LIMIT)


def _used_splits(plans: Plans, points: Sequence[Point]) -> set[int]:
    """The requests that resolve to a plan of some point; several can resolve to one plan."""
    resolved = {
        (point.shape.chunks, plan.num_splits) for point in points for plan in point.plans if plan.kernel == "decode"
    }
    requests = {value for _, values in _given((), plans.splits) for value in values}
    return {n for n in requests if any(resolve_splits(chunks, n)[0] == splits for chunks, splits in resolved)}


def _unused(path: KeyPath, given: object, used: Container[object], limit: str) -> Iterator[Problem]:
    for where, value in places(path, given):
        if value not in used:
            message = f"no point uses {value}: no shape can run it, or a constraint excludes it ({limit})"
            yield Problem(message, where)


def _given(path: KeyPath, axis: object) -> list[tuple[KeyPath, list[Any]]]:
    """The values of an axis by the place that gives them."""
    if isinstance(axis, TokenRange):
        return [(path, axis.values())]
    return [(where, [value]) for where, value in places(path, axis)]
