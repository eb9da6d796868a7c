"""A visit throws its first samples away, is taken again when disturbed, and refuses times that cannot be."""

import math

import pytest

from cake_tune.measure.protocol import Protocol
from cake_tune.measure.visit import Visit, take_visit

PROTOCOL = Protocol(discard=3, samples=20, short_samples=50, short_us=10.0, retries=2)


class Samples:
    """Gives the listed times, then the last one for ever; remembers how many were asked for."""

    def __init__(self, *times: float) -> None:
        self.times = list(times)
        self.asked: list[int] = []

    def __call__(self, count: int) -> list[float]:
        self.asked.append(count)
        return [self.times.pop(0) if len(self.times) > 1 else self.times[0] for _ in range(count)]


def visit(samples: Samples, least_us: float = 0.0, disturbed: tuple[str | None, ...] = ()) -> Visit:
    reasons = [reason for state in disturbed for reason in (None, state)]
    return take_visit(samples, PROTOCOL, least_us=least_us, disturbance=lambda: reasons.pop(0) if reasons else None)


def test_the_discarded_samples_do_not_reach_the_median():
    assert visit(Samples(900, 800, 700, 50)) == Visit(50)


def test_mean_and_deviation_of_the_kept_samples_are_kept_beside_the_median():
    given = visit(Samples(900, 800, 700, 20.0, 30.0, *[50.0] * 18))
    assert given == Visit(50.0)
    assert (given.mean_us, given.mad_us) == ((20 + 30 + 50 * 18) / 20, 0.0)


def test_short_calls_get_more_samples():
    short, long = Samples(9.0), Samples(11.0)
    visit(short)
    visit(long)
    assert (short.asked, long.asked) == ([3, 50], [3, 20])


def test_a_disturbed_visit_is_taken_again():
    samples = Samples(*[500.0] * 23, 20.0)
    assert visit(samples, disturbed=("thermal",)) == Visit(20.0)


def test_a_visit_that_stays_disturbed_is_unstable_and_says_why():
    given = visit(Samples(20.0), disturbed=("thermal",) * 3)
    assert (given.status, math.isnan(given.median_us)) == ("unstable", True)
    assert given.reason == "disturbed 3 times: thermal"


@pytest.mark.parametrize("time", [math.nan, math.inf, 0.0, -1.0])
def test_one_impossible_time_makes_the_visit_invalid(time):
    assert visit(Samples(*[20.0] * 10, time, 20.0)).status == "invalid"


def test_a_median_below_what_a_call_must_take_is_invalid():
    assert visit(Samples(20.0), least_us=21.0).status == "invalid"
    assert visit(Samples(20.0), least_us=19.0).status == "ok"


@pytest.mark.parametrize(("known", "kept"), [(9.0, 50), (11.0, 20)])
def test_a_known_plan_is_sampled_in_one_go(known, kept):
    samples = Samples(900, 800, 700, 50)
    given = take_visit(samples, PROTOCOL, least_us=0.0, disturbance=lambda: None, known_us=known)
    assert (given, samples.asked) == (Visit(50), [3 + kept])
