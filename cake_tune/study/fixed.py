"""The best that one plan for everything could do, on measured points."""

from collections.abc import Sequence

from cake_tune.report.fixed import Request, requests_of, resolved
from cake_tune.study.points import MeasuredPoint
from cake_tune.study.scored import score_answer


def best_request(points: Sequence[MeasuredPoint]) -> Request:
    """The request with the least mean regret on ``points`` (at least one), of those that any measured plan makes."""
    requests = requests_of(plan for point in points for plan in point.times)
    return min(requests, key=lambda request: _mean(request, points))


def _mean(request: Request, points: Sequence[MeasuredPoint]) -> float:
    scored = score_answer("", lambda point: resolved(request, point.shape, point.kernel_alone), points)
    return sum(each.loss for each in scored.losses)
