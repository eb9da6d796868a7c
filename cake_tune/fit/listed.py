"""How many of the points that a run's spec lists have times: what a table says of a sweep that is not complete."""

from collections import Counter
from functools import lru_cache

from cake_tune.errors import SpecError
from cake_tune.fit.samples import Samples, ShapeKey
from cake_tune.journal.run import RunInfo


def timed_points(samples: Samples, info: RunInfo) -> tuple[int, int] | None:
    """How many points of the spec in ``run.json`` have times, and how many it lists.

    None where that says nothing: there is no spec to read, or an adaptive search has ended, which leaves points out
    because the table does not need them.
    """
    listed = None if info.search_ended or not info.spec_text else _listed(info.spec_text, info.spec_path)
    if listed is None:
        return None
    timed = {samples.key(point): int(variants) for point, variants in enumerate(samples.variants)}
    return sum(min(count, timed.get(key, 0)) for key, count in listed.items()), listed.total()


@lru_cache(maxsize=2)
def _listed(text: str, path: str) -> Counter[ShapeKey] | None:
    """How many points the spec lists for each shape as planners see it; None for a text that is no spec."""
    # Imported here: pydantic takes a while, which a fit of a run without a spec need not pay.
    from cake_tune.spec.load import parse_spec

    try:
        points = parse_spec(text, path, workload=False).points()
    except SpecError:
        return None
    shapes = (point.shape for point in points)
    return Counter(ShapeKey(each.num_heads, each.topk, each.extra_topk, each.num_tokens) for each in shapes)
