"""A journal read in parts, or by two processes, is the journal read in one go: records, order, messages, errors."""

import multiprocessing
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_records import record
from test_run_directory import own, run_with

from cake_tune.errors import JournalError
from cake_tune.journal.codec import record_to_json
from cake_tune.journal.fill import fill
from cake_tune.journal.line import frame
from cake_tune.journal.reader import parts_of, read_journal, read_part
from cake_tune.journal.second import begun, halved, second_process

LINES = [frame(record_to_json(record(key, number))) for number, key in enumerate("abcadbae")]
WHOLE = b"".join(LINES)


@dataclass
class Seen:
    """A taker that keeps the keys it was shown."""

    keys: list[str] = field(default_factory=list)

    def add(self, record):
        self.keys.append(record.key)

    def join(self, later):
        self.keys += later.keys


@pytest.fixture
def long(monkeypatch):
    monkeypatch.setattr("cake_tune.journal.second.LARGE", 1)


def both_ways(path, most):
    whole, parts = [], []
    records = list(read_journal(path, whole.append))
    found = [list(read_part(part)) for part in parts_of(path, most, parts.append)]
    return (records, whole), ([each for part in found for each in part], parts)


@pytest.mark.parametrize("most", [1, 2, 3, 5, 8, 50])
def test_parts_in_turn_are_the_journal(tmp_path, most):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(WHOLE)
    serial, parted = both_ways(path, most)
    assert serial == parted
    assert [found.key for found in serial[0]] == ["c", "d", "b", "a", "e"]
    parts = parts_of(path, most)
    assert len(parts) == min(most, len(LINES))
    assert [part.start for part in parts[1:]] == [part.stop for part in parts[:-1]]
    assert all(WHOLE[: part.start].count(b"\n") + 1 == part.line for part in parts)


@given(
    st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=6),
    st.integers(0, len(WHOLE)),
    st.integers(1, 6),
)
def test_parts_of_a_damaged_journal_give_the_same_records_and_messages(tmp_path_factory, changes, length, most):
    path = tmp_path_factory.mktemp("parts") / "journal.jsonl"
    damaged = bytearray(WHOLE)
    for offset, value in changes:
        damaged[offset] = value
    path.write_bytes(bytes(damaged[:length]))
    serial, parted = both_ways(path, most)
    assert serial == parted


@pytest.mark.parametrize("there", [len(WHOLE), len(WHOLE) - 5], ids=["whole", "the last line half written"])
def test_what_is_appended_after_the_journal_was_parted_is_not_read(tmp_path, there):
    """A record of a key that was read already would be there twice."""
    path = tmp_path / "journal.jsonl"
    path.write_bytes(WHOLE[:there])
    parts, before = parts_of(path, 2), list(read_journal(path))
    path.write_bytes(WHOLE + LINES[0])
    assert [found for part in parts for found in read_part(part)] == before


def test_an_empty_journal_has_one_empty_part(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.touch()
    (part,) = parts_of(path, 2)
    assert list(read_part(part)) == []


def test_no_journal_has_no_parts(tmp_path):
    with pytest.raises(JournalError, match="nothing has been measured there"):
        parts_of(tmp_path / "journal.jsonl", 2)


def test_a_line_of_another_version_is_named_with_its_place_in_any_part(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(WHOLE + frame('{"v":2,"key":"a"}'))
    first, last = parts_of(path, 2)
    list(read_part(first))
    with pytest.raises(JournalError, match=rf"journal\.jsonl:{len(LINES) + 1}: .*expected version 1, got 2"):
        list(read_part(last))


def test_a_second_process_reads_the_other_half_in_order(tmp_path, long):
    run = run_with(tmp_path, [own(number) for number in (1, 2, 3, 1, 4, 5)])
    run.journal.write_bytes(run.journal.read_bytes() + b"junk\n")
    alone, shared = Seen(), Seen()
    fill(run, [alone])
    with second_process(run) as second:
        assert second is not None
        fill(run, [shared], second)
    assert shared == alone == Seen([own(number).key for number in (2, 3, 1, 4, 5)])
    assert [text.partition(": ")[0] for text in run.messages] == [f"{run.journal}:7"]


@pytest.mark.parametrize("place", [0, 3], ids=["here", "in the second process"])
def test_what_one_half_refuses_is_raised_as_by_one_reader(tmp_path, long, place):
    run = run_with(tmp_path, [own(number) for number in range(4)])
    lines = run.journal.read_bytes().splitlines(keepends=True)
    lines[place] = frame(record_to_json(own(place, backend="simulated")))
    run.journal.write_bytes(b"".join(lines))
    with pytest.raises(JournalError) as serial:
        list(run.read_records())
    with second_process(run) as second, pytest.raises(JournalError) as shared:
        fill(run, [Seen()], second)
    assert str(shared.value) == str(serial.value)


def test_a_short_journal_needs_no_second_process(tmp_path):
    with second_process(run_with(tmp_path, [own(1)])) as second:
        assert second is None
        assert halved(second, str, [1, 2, 3]) == ["1", "2", "3"]


def test_halves_come_back_in_order(tmp_path, long):
    with second_process(run_with(tmp_path, [own(1)])) as second:
        for count in range(4):
            assert halved(second, str, range(count)) == [str(number) for number in range(count)]


def lost_elsewhere(here, answer):
    """``answer``, unless this is another process than ``here``: then that one is killed, as by a lack of memory."""
    if os.getpid() != here:
        os.kill(os.getpid(), signal.SIGKILL)
    return answer


def test_what_a_lost_process_would_have_answered_is_found_here(tmp_path, long):
    with second_process(run_with(tmp_path, [own(1)])) as second:
        assert halved(second, partial(lost_elsewhere, os.getpid()), "abcd") == list("abcd")
        assert begun(second, partial(str, 1))() == "1", "and so is what comes after"


def test_a_daemonic_process_reads_alone(tmp_path, long, monkeypatch):
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)
    with second_process(run_with(tmp_path, [own(1)])) as second:
        assert second is None


SCRIPT = """
import os, sys, time
from pathlib import Path
from cake_tune.journal import second
from cake_tune.journal.run import RunDirectory

second.LARGE = 1
if __name__ == "__main__":
    with second.second_process(RunDirectory(Path(sys.argv[1]))) as process:
        print(process and process.submit(os.getpid).result(), flush=True)
        second.halved(process, time.sleep, [60, 60] if process else [0])
"""


def test_a_program_from_standard_input_reads_alone(tmp_path):
    command = [sys.executable, "-", run_with(tmp_path, [own(1)]).path]
    done = subprocess.run(command, input=SCRIPT, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("None\n", "")


@pytest.mark.parametrize("as_module", [False, True])
@pytest.mark.parametrize("guarded", [True, False])
def test_a_program_that_does_not_guard_itself_reads_alone(tmp_path, guarded, as_module):
    """Its second process would run it from the start."""
    script = SCRIPT if guarded else SCRIPT.replace('if __name__ == "__main__":', "if True:")
    (tmp_path / "script.py").write_text(script.replace("60", "0"))
    run = run_with(tmp_path, [own(1)])
    command = [sys.executable, *(["-m", "script"] if as_module else ["script.py"]), run.path]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout == "None\n", done.stderr) == (not guarded, "")


@pytest.mark.parametrize("how", ["killed", "Ctrl-C"])
def test_the_second_process_ends_with_the_first_without_a_word(tmp_path, how):
    run, script = run_with(tmp_path, [own(1)]), tmp_path / "script.py"
    script.write_text(SCRIPT)
    command, pipe = [sys.executable, script, run.path], subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as first:
        assert int(first.stdout.readline()) != first.pid
        if how == "killed":
            first.kill()
        else:
            os.killpg(first.pid, signal.SIGINT)
        try:
            _, said = first.communicate(timeout=20)  # to the end of the pipes, which the second process holds too
        except subprocess.TimeoutExpired:
            os.killpg(first.pid, signal.SIGKILL)
            raise
    assert "SpawnProcess" not in said
