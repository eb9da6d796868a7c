import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from cake_tune.errors import JournalError, UndecidedError, UsageError
from cake_tune.journal.run import RunDirectory
from cake_tune.study.gather import gather
from cake_tune.study.origin import check_same

DATA = Path(__file__).parent.parent / "data" / "study"
A = RunDirectory(DATA / "a")


def altered(path: Path, **changes) -> RunDirectory:
    """Run ``b``, but its provenance says something else."""
    shutil.copytree(DATA / "b", path)
    run = RunDirectory(path)
    run.write_info(replace(run.read_info(), **changes))
    return run


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"device": replace(A.read_info().device, num_sms=99)}, r"num_sms 12\), got .*num_sms 99\)"),
        ({"device": replace(A.read_info().device, name="Other")}, "device Synthetic .*, got Other"),
        ({"kernel": replace(A.read_info().kernel, identity="0ther")}, "kernel identity synthetic-1, got 0ther"),
        ({"backend": "cpu"}, "backend simulated, got cpu"),
        ({"protocol": {"regime": "warm"}}, "cache regime cold, got warm"),
    ],
)
def test_runs_of_different_things_are_refused_by_name(tmp_path, changes, said):
    with pytest.raises(JournalError, match=said) as refused:
        gather(A, altered(tmp_path / "other", **changes))
    assert str(tmp_path / "other") in str(refused.value)
    assert str(A.path) in str(refused.value)
    assert refused.value.exit_code == 2


def test_a_foreign_held_out_or_twin_run_is_refused_too(tmp_path):
    other = altered(tmp_path / "other", backend="cpu")
    with pytest.raises(JournalError, match="backend"):
        gather(A, RunDirectory(DATA / "b"), other)
    with pytest.raises(JournalError, match="backend"):
        gather(A, RunDirectory(DATA / "b"), None, [other])


def test_another_driver_is_another_occasion_and_no_other_kernel(tmp_path):
    check_same(A, altered(tmp_path / "other", kernel=replace(A.read_info().kernel, driver="590.1")))


def test_another_kernel_may_be_allowed(tmp_path):
    other = altered(tmp_path / "other", kernel=replace(A.read_info().kernel, identity="0ther"))
    check_same(A, other, any_kernel=True)
    with pytest.raises(JournalError, match="device"):
        check_same(A, altered(tmp_path / "third", device=replace(A.read_info().device, name="Other")), any_kernel=True)


def test_a_sweep_is_not_compared_with_itself():
    with pytest.raises(UsageError, match="RUN_B: expected a sweep on another occasion"):
        gather(A, RunDirectory(DATA / "b" / ".." / "a"))


def test_a_run_without_a_time_decides_nothing(tmp_path):
    shutil.copytree(DATA / "b", tmp_path / "b")
    empty = RunDirectory(tmp_path / "b")
    empty.journal.write_bytes(b"")
    with pytest.raises(UndecidedError, match="expected a point with a usable time"):
        gather(A, empty)
