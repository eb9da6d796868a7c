"""The race beside argmin on simulated devices: how often each changes its mind, and what that costs."""

from collections.abc import Callable, Iterable
from random import Random

from cake_tune.measure.visit import Visit
from cake_tune.planner.shape import Plan
from cake_tune.spec import Point
from cake_tune.study.fit.simulated import PROTOCOL, Subject
from cake_tune.study.fit.size import Size
from cake_tune.study.selectors import Order, Visitor, parse_selector
from cake_tune.study.trial import Score, Trial, score

SELECTORS = ("race", "confirm", "argmin:1", "argmin:3", "argmin:10")
REPETITIONS = 2


def compete(subjects: Iterable[Subject], size: Size) -> list[Score]:
    """Every selector at some points of every device, twice each on independent noise, judged by the true times.

    ``confirm`` is the race without the preference for the plan in force and for simple plans. One visit of argmin is
    one visit of the race: the median, or for argmin the mean, of as many samples.
    """
    trials = [trial for subject in subjects for trial in _trials(subject, size)]
    return score([parse_selector(name) for name in SELECTORS], trials, replays=REPETITIONS)


def _trials(subject: Subject, size: Size) -> list[Trial]:
    rng = Random(f"contested {subject.device.name}")
    points = rng.sample(size.grid(), size.contested)
    trials = []
    for point, true in zip(points, subject.true_us(points), strict=True):
        least = min(true.values())
        plans = tuple(plan for plan in point.plans if true[plan] <= PROTOCOL.too_slow_factor * least)
        held = subject.plan_in_force(point)
        times = {plan: true[plan] for plan in plans}
        trials.append(
            Trial(
                point.shape,
                plans,
                held if held in plans else None,
                subject.band,
                PROTOCOL,
                times,
                _visits(subject, point, times),
            )
        )
    return trials


def _visits(subject: Subject, point: Point, times: dict[Plan, float]) -> Callable[[Order, Random], Visitor]:
    def repetition(order: Order, rng: Random) -> Visitor:
        noise = subject.noise(f"{point.shape} {rng.random()}")

        def visit(plan: Plan) -> Visit:
            return Visit(noise.median(times[plan], PROTOCOL.samples))

        return visit

    return repetition
