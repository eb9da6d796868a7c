"""The order of visits: seeded, random, mirrored, complete."""

from random import Random

from synthetic_device import PLANS, SyntheticDevice

from cake_tune.measure.order import VisitOrder
from cake_tune.measure.protocol import Protocol
from cake_tune.measure.race import race

EQUAL = dict.fromkeys(PLANS, 50.0)
PROTOCOL = Protocol(max_rounds=6, confirm_rounds=4, early_margin=10.0, kn_rounds=99)


def run(seed: int) -> SyntheticDevice:
    device = SyntheticDevice(EQUAL)
    race(PLANS, device, in_force=None, protocol=PROTOCOL, band=0.01, rng=Random(seed))
    return device


def test_every_round_visits_every_plan_once():
    for visited in run(1).rounds(len(PLANS), 6):
        assert sorted(visited) == sorted(PLANS)


def test_odd_rounds_are_the_mirror_image_of_the_round_before():
    rounds = run(2).rounds(len(PLANS), 6)
    for even, odd in zip(rounds[::2], rounds[1::2], strict=True):
        assert odd == even[::-1]


def test_even_rounds_are_shuffled_anew():
    assert len({tuple(order) for order in run(3).rounds(len(PLANS), 6)[::2]}) == 3


def test_the_seed_alone_sets_the_order():
    assert run(4).log == run(4).log
    assert run(4).log != run(5).log


def test_a_plan_that_left_is_passed_over_in_the_mirrored_round():
    order = VisitOrder(Random(0))
    first = order.next_round(PLANS)
    assert order.next_round(first[1:]) == first[:0:-1]


def test_the_plans_handed_in_are_not_reordered():
    plans = list(PLANS)
    VisitOrder(Random(0)).next_round(plans)
    assert plans == PLANS
