"""A schedule decides what is measured, is asked again with what is there, and its points survive resume and change."""

from dataclasses import replace

import pytest
from sweep_specs import SHAPES, Listener, make_spec, many_shapes, records_of, run_at

from cake_tune.backends import get_backend
from cake_tune.errors import UsageError
from cake_tune.journal.journal import read_journal
from cake_tune.planner.shape import Shape, every_plan
from cake_tune.spec import Point, Search, parse_spec
from cake_tune.sweep import run_sweep
from cake_tune.sweep.keys import Keys
from cake_tune.sweep.provenance import run_info
from cake_tune.sweep.schedule import Drawn, Exhaustive, Records
from cake_tune.sweep.slots import slots_for

RANGE = """\
version: 1
backend: simulated
search: {{refine: true}}
shapes: {{num_tokens: {tokens}, num_heads: 16, topk: 128}}
measure: {{discard: 0, samples: 2, short_samples: 2, max_rounds: 3, early_rounds: 2, kn_rounds: 3, confirm_rounds: 2,
  aa_rounds: 4, warmup_seconds: 0}}
"""


def point_of(shape: Shape) -> Point:
    return Point(shape, tuple(every_plan(shape)))


class Doubling:
    """One point after the other: num_tokens doubles until ``last``, as long as the last point has a best plan."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.seen: list[list[int]] = []

    def next_points(self, records):
        tokens = sorted(record.shape.num_tokens for record in records)
        self.seen.append(tokens)
        assert all(record.best is not None for record in records)
        following = 2 * tokens[-1] if tokens else 1
        return [] if following > self.last else [point_of(Shape(following, 16, 128))]


@pytest.fixture
def run(tmp_path):
    return run_at(tmp_path)


def growing(first: int = 1, last: int = 16):
    return parse_spec(RANGE.format(tokens=f"[{first}, {last}]"), "growing.yaml")


def tokens_of(run) -> list[int]:
    return sorted(shape.num_tokens for shape in records_of(run))


def test_a_schedule_is_asked_again_until_it_has_nothing_more(run):
    schedule, listener = Doubling(16), Listener()
    summary = run_sweep(growing(), run, schedule=schedule, progress=listener)
    assert schedule.seen == [[], [1], [1, 2], [1, 2, 4], [1, 2, 4, 8], [1, 2, 4, 8, 16]]
    assert (summary.total, summary.done, summary.exit_code) == (5, 5, 0)
    assert listener.places == [(n, n + 1) if start else (n + 1, n + 1) for n in range(5) for start in (True, False)]


def test_a_stopped_schedule_goes_on_with_what_it_would_have_asked_for(run):
    spec = replace(growing(), time_budget_seconds=1e-9)
    for done in (1, 2, 3):
        summary = run_sweep(spec, run, schedule=Doubling(16))
        assert (summary.done, summary.out_of_time) == (done, True)
        assert summary.total == done + 1
    listener = Listener()
    run_sweep(growing(), run, schedule=Doubling(16), progress=listener)
    assert [shape.num_tokens for shape in listener.started_shapes] == [8, 16]
    assert listener.messages == []
    assert tokens_of(run) == [1, 2, 4, 8, 16]


def test_rows_outside_the_domain_of_the_spec_are_set_aside(run):
    run_sweep(growing(), run, schedule=Doubling(16))
    listener = Listener()
    run_sweep(growing(last=8), run, schedule=Doubling(8), progress=listener)
    assert tokens_of(run) == [1, 2, 4, 8]
    assert listener.messages[0].startswith("1 earlier row set aside")
    # Without a search beyond the list, only what it lists belongs.
    listed = replace(growing(last=8), search=Search())
    run_sweep(listed, run, progress=listener)
    assert tokens_of(run) == [1, 8]


def test_points_that_are_measured_are_passed_over_and_a_schedule_that_repeats_itself_ends(run):
    class Stubborn:
        asked = 0

        def next_points(self, records):
            self.asked += 1
            return [point_of(shape) for shape in SHAPES[:2]]

    schedule = Stubborn()
    summary = run_sweep(make_spec(SHAPES[:2]), run, schedule=schedule)
    assert (summary.done, summary.total) == (2, 2)
    assert schedule.asked == 3
    assert run_sweep(make_spec(SHAPES[:2]), run, schedule=Stubborn()).reused == 2


def test_failed_points_are_no_records_while_they_wait_to_be_measured_again(run):
    spec = replace(make_spec([Shape(2, 8, 64), Shape(2, 16, 64)]), backend="faults:simulated:wrong@decode/t1/s1x1")
    run_sweep(spec, run)
    given = []

    class Watching(Exhaustive):
        def next_points(self, records):
            given.append({record.shape.num_heads: record.status for record in records})
            return super().next_points(records)

    run_sweep(spec, run, schedule=Watching(spec), retry_failed=True)
    assert given == [{16: "ok"}, {16: "ok", 8: "wrong"}]


def test_a_schedule_is_made_of_the_provenance_and_the_table_that_count(run):
    made = []

    def schedule_for(spec, info, in_force):
        made.append((info.origin, info.in_force, in_force.label))
        return Exhaustive(spec)

    run_sweep(make_spec(), run, schedule_for=schedule_for)
    info = run.read_info()
    assert made == [(info.origin, info.in_force, info.in_force)]


def test_drawn_points_are_the_same_ones_again_and_a_smaller_draw_is_part_of_a_larger():
    spec = make_spec(many_shapes(50))
    draws = [Drawn(spec, count).next_points([]) for count in (10, 10, 30)]
    assert draws[0] == draws[1] == draws[2][:10]
    assert len({point.shape for point in draws[2]}) == 30
    assert draws[0] != spec.points()[:10]
    assert Drawn(replace(spec, seed=1), 10).next_points([]) != draws[0]
    drawn = Drawn(spec, 50)
    assert (len(drawn.next_points([])), drawn.next_points([])) == (50, [])


@pytest.mark.parametrize("count", [0, 51])
def test_more_points_than_there_are_cannot_be_drawn(count):
    with pytest.raises(UsageError, match=f"expected from 1 to 50 points of test, got {count}"):
        Drawn(make_spec(many_shapes(50)), count)


def test_records_are_read_when_they_are_looked_at_and_a_new_one_takes_the_place_of_its_key(run):
    run_sweep(make_spec(), run)
    held, reads = list(records_of(run).values()), []

    def read():
        reads.append(1)
        return iter(held[:2])

    records = Records(read)
    records.add(held[2])
    assert reads == []
    assert (len(records), list(records), records[0], records[-1:]) == (2, held[:2], held[0], [held[1]])
    again = replace(held[0], rounds=99)
    records.add(again)
    records.add(held[2])
    assert list(records) == [held[1], again, held[2]]
    assert reads == [1]


@pytest.mark.parametrize(
    ("search", "shape", "plans", "admitted"),
    [
        (Search(), Shape(1, 16, 128), 3, True),
        (Search(), Shape(1, 16, 128), 2, False),
        (Search(), Shape(3, 16, 128), 3, False),
        (Search(refine=True), Shape(3, 16, 128), 3, True),
        (Search(refine=True), Shape(3, 16, 128), 2, False),
        (Search(refine=True), Shape(17, 16, 128), 3, False),
        (Search(refine=True), Shape(3, 32, 128), 3, False),
        (Search("adaptive"), Shape(3, 16, 128), 2, True),
        (Search("adaptive"), Shape(1, 16, 128), 1, True),
        (Search("adaptive"), Shape(1, 16, 128), 0, False),
        (Search("adaptive"), Shape(17, 16, 128), 1, False),
    ],
    ids=str,
)
def test_which_points_a_spec_admits(search, shape, plans, admitted):
    spec = replace(growing(), search=search)
    keys = Keys(spec, run_info(spec, get_backend("simulated")))
    assert keys.admits(Point(shape, tuple(every_plan(shape))[:plans])) == admitted


class Chains:
    """Two chains of points, one for each number of heads, whose points follow each other alone."""

    def __init__(self, last: int) -> None:
        self.last = last
        self.seen: list[dict[int, int]] = []

    def next_points(self, records):
        ends = {8: 0, 16: 0}
        for record in records:
            ends[record.shape.num_heads] = max(ends[record.shape.num_heads], record.shape.num_tokens)
        self.seen.append(ends)
        return [point_of(Shape(end + 1, heads, 128)) for heads, end in ends.items() if end < self.last]


def test_a_device_with_nothing_to_do_asks_while_the_other_is_still_at_work(run):
    schedule, listener = Chains(12), Listener()
    devices = slots_for(get_backend("simulated"), "2")
    spec = parse_spec(RANGE.format(tokens="[1, 12]").replace("num_heads: 16", "num_heads: [8, 16]"), "chains.yaml")
    summary = run_sweep(spec, run, schedule=schedule, slots=devices, progress=listener)
    assert (summary.done, summary.total) == (24, 24)
    assert sorted((shape.num_heads, shape.num_tokens) for shape in listener.started_shapes) == [
        (heads, tokens) for heads in (8, 16) for tokens in range(1, 13)
    ]
    # Asked in step, it would always have seen both chains at the same length.
    assert any(ends[8] != ends[16] for ends in schedule.seen)
    measured = [record for record in read_journal(run.journal) if not record.audits]
    assert {record.gpu for record in measured} == {"simulated-0", "simulated-1"}
