import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cake_tune.errors import JournalError, UndecidedError
from cake_tune.journal.journal import Journal
from cake_tune.journal.run import RunDirectory
from cake_tune.planner.shape import Device, rival_plan
from cake_tune.planner.table import load_table, save_table
from cake_tune.study.compare import compare_runs
from cake_tune.study.words import comparison_lines

DATA = Path(__file__).parent.parent / "data" / "study"
RESULTS = Path(__file__).parents[2] / "results"
A = RunDirectory(DATA / "a")
FIRST = min(A.read_records(), key=lambda record: record.shape)


def one(record, row) -> bool:
    """Whether it is the choice at the first shape."""
    return record.key == FIRST.key and row.plan == record.best


def scaled(path: Path, factor, gpu="GPU-1", info=None) -> RunDirectory:
    """Run ``a`` again on ``gpu``, every time of a row ``factor(record, row)`` times as long."""
    run = RunDirectory(path)
    info = info or A.read_info()
    run.write_info(info)
    shutil.copy(A.in_force, run.in_force)
    shutil.copy(A.table, run.table)

    def longer(record, row):
        by = factor(record, row)
        visits, confirm = (
            tuple(None if time is None else time * by for time in each) for each in (row.visits, row.confirm)
        )
        return replace(row, median_us=row.median_us * by, visits=visits, confirm=confirm)

    with Journal(run.journal) as journal:
        for record in A.read_records():
            rows = tuple(longer(record, row) for row in record.rows)
            key = record.key.replace(A.read_info().origin, info.origin)
            journal.append(replace(record, rows=rows, gpu=gpu, key=key))
    return run


def test_a_run_is_no_regression_of_itself():
    found = compare_runs(A, A)
    assert not found.regressions
    assert found.drift == 1.0
    assert found.slower == ()
    assert found.agreement.flips == 0


def test_a_plan_that_became_slower_is_found_with_what_is_sure_of_it(tmp_path):
    slow = scaled(tmp_path / "slow", lambda record, row: 1.2 if one(record, row) else 1.0)
    (found,) = compare_runs(A, slow).slower
    assert (found.shape, found.plan) == (FIRST.shape, FIRST.best)
    assert found.slowdown == pytest.approx(0.2)
    assert 0.01 < found.sure < 0.2


def test_a_slowdown_within_the_margin_or_the_noise_is_none(tmp_path):
    slow = scaled(tmp_path / "slow", lambda record, row: 1.004)
    assert not compare_runs(A, slow).regressions
    assert compare_runs(A, slow).drift == pytest.approx(1.004)
    worse = scaled(tmp_path / "worse", lambda record, row: 1.2)
    assert compare_runs(A, worse).all_slower
    assert not compare_runs(A, worse, margin=0.25).regressions


def test_faster_is_no_regression(tmp_path):
    found = compare_runs(A, scaled(tmp_path / "fast", lambda record, row: 0.8))
    assert not found.regressions
    assert found.drift == pytest.approx(0.8)


def test_a_table_that_chooses_worse_is_a_regression_though_no_plan_is_slower(tmp_path):
    other = scaled(tmp_path / "other", lambda record, row: 1.0)
    table = load_table(A.table)
    save_table(replace(load_table(A.in_force), device=table.device, kernel=table.kernel), other.table)
    found = compare_runs(A, other)
    assert found.slower == ()
    assert found.table_worse
    assert found.regressions == ["the table chooses worse"]
    assert found.regret_after.mean > found.regret_before.mean + 0.01


def test_other_kernels_are_compared_when_asked_for(tmp_path):
    other = scaled(tmp_path / "other", lambda record, row: 1.0)
    info = other.read_info()
    changed = replace(info, kernel=replace(info.kernel, identity="next"))
    other.journal.unlink()
    with Journal(other.journal) as journal:
        for record in A.read_records():
            journal.append(replace(record, key=record.key.replace(info.origin, changed.origin)))
    other.write_info(changed)
    with pytest.raises(JournalError, match="kernel identity"):
        compare_runs(A, other)
    assert not compare_runs(A, other, any_kernel=True).regressions


def with_rival(path, by):
    """Run ``a`` with a rival that took ``by`` times as long as the choice at every point; it is chosen where it won."""
    run = scaled(path, lambda record, row: 1.0)
    records = list(run.read_records())
    run.journal.unlink()
    with Journal(run.journal) as journal:
        for record in records:
            (row,) = (row for row in record.rows if row.plan == record.best)
            visits, confirm = (
                tuple(None if us is None else us * by for us in each) for each in (row.visits, row.confirm)
            )
            plan = rival_plan(record.shape, "sparse")
            rival = replace(row, plan=plan, median_us=row.median_us * by, visits=visits, confirm=confirm)
            best = plan if by < 0.9 else record.best
            journal.append(replace(record, rows=(*record.rows, rival), best=best))
    return run


def test_rivals_are_not_compared_whoever_won(tmp_path):
    """A rival that became twice as slow, as with another release of its library, is no regression of this family."""
    fast, slow = with_rival(tmp_path / "fast", 0.8), with_rival(tmp_path / "slow", 1.6)
    plain = compare_runs(A, scaled(tmp_path / "plain", lambda record, row: 1.0))
    for before, after in ((fast, slow), (slow, fast)):
        found = compare_runs(before, after)
        assert (found.plans, found.drift, found.scatter) == (plain.plans, 1.0, 0.0)
        assert found.regressions == []
    assert compare_runs(slow, slow).agreement.flips == 0


def test_runs_without_a_shape_in_common_are_not_compared(tmp_path):
    other = RunDirectory(tmp_path / "other")
    other.write_info(A.read_info())
    shutil.copy(A.in_force, other.in_force)
    with Journal(other.journal) as journal:
        for record in RunDirectory(DATA / "c").read_records():
            if record.shape.topk == 384:
                journal.append(record)
    with pytest.raises(UndecidedError, match="at one shape"):
        compare_runs(A, other)


def test_what_drifts_between_occasions_is_no_regression_of_single_plans(tmp_path):
    """Every point is somewhat slower or faster, as on another day; one plan of them all is 30 % slower."""
    drifting = [0.96, 1.03, 0.99, 1.04, 1.0, 0.97, 1.02, 0.98]
    numbers = {record.key: number for number, record in enumerate(A.read_records())}

    def day(record, row):
        return drifting[numbers[record.key] % len(drifting)]

    assert not compare_runs(A, scaled(tmp_path / "day", day)).regressions
    changed = scaled(tmp_path / "changed", lambda record, row: (1.3 if one(record, row) else 1.0) * day(record, row))
    (found,) = compare_runs(A, changed).slower
    assert (found.shape, found.plan) == (FIRST.shape, FIRST.best)


@pytest.mark.parametrize("other", ["GPU-2", ""])
def test_between_two_gpus_a_single_plan_must_lose_four_per_cent(tmp_path, other):
    info = replace(A.read_info(), device=Device("Some GPU", "sm_90a", 12))

    def run(name, slower, gpu):
        def factor(record, row):
            return slower if one(record, row) else 1.0

        return scaled(tmp_path / name, factor, gpu, info)

    def steady(name, slower, gpu):
        made = run(name, slower, gpu)
        records = list(made.read_records())
        made.journal.unlink()
        with Journal(made.journal) as journal:
            for record in records:
                rows = tuple(
                    replace(row, visits=(row.median_us,) * len(row.visits), confirm=(row.median_us,) * len(row.confirm))
                    for row in record.rows
                )
                journal.append(replace(record, rows=rows))
        return made

    before = steady("before", 1.0, "GPU-1")
    assert len(compare_runs(before, steady("same", 1.015, "GPU-1")).slower) == 1
    little = steady("little", 1.035, other)
    found = compare_runs(before, little)
    assert (found.slower, found.floor, found.floored) == ((), 0.04, found.plans)
    assert len(compare_runs(before, little, margin=0.01).slower) == 1
    assert len(compare_runs(before, steady("much", 1.045, other)).slower) == 1


def test_the_same_kernels_on_other_h200s_are_no_regression_either_way():
    first, second = (RunDirectory(RESULTS / place / "dsv4-nvfp4") for place in ("second/nvidia-h200", "nvidia-h200"))
    for before, after in ((first, second), (second, first)):
        found = compare_runs(before, after)
        assert found.plans == found.floored > 1000
        assert found.regressions == []


@pytest.mark.parametrize(
    ("factor", "margin", "said"),
    [
        (lambda record, row: 1.2, None, "all plans became slower alike, as under load"),
        (lambda record, row: 1.2 if one(record, row) else 1.0, None, "load that came and went"),
    ],
)
def test_a_regression_is_told_with_what_else_looks_like_it_and_what_to_do(tmp_path, factor, margin, said):
    lines = list(comparison_lines(compare_runs(A, scaled(tmp_path / "slow", factor), margin=margin)))
    assert lines[-1].startswith(said)
    assert lines[-1].endswith("measure B again on a quiet machine, or allow so much with --margin")
    assert not any("quiet machine" in line for line in comparison_lines(compare_runs(A, A)))
