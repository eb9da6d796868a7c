"""The journal as a file: one writer, durable lines, nothing deleted, streaming reads."""

import errno
import os
import subprocess
import sys
import tracemalloc

import pytest
from journal_records import record

from cake_tune.errors import JournalError
from cake_tune.journal.codec import record_to_json
from cake_tune.journal.journal import Journal, read_journal
from cake_tune.journal.line import frame


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run" / "journal.jsonl"


def write(path, *records):
    with Journal(path) as journal:
        for item in records:
            journal.append(item)


def test_what_was_appended_is_read_back_in_order(path):
    written = [record("a"), record("b"), record("c")]
    write(path, *written[:2])
    write(path, written[2])
    assert list(read_journal(path)) == written


def test_the_last_record_of_a_key_wins(path):
    write(path, record("a", 1), record("b", 2), record("a", 3), record("c", 4), record("a", 5))
    assert [(found.key, found.seconds) for found in read_journal(path)] == [("b", 2), ("c", 4), ("a", 5)]


def test_a_line_is_in_the_file_before_append_returns(path):
    with Journal(path) as journal:
        journal.append(record("a"))
        assert [found.key for found in read_journal(path)] == ["a"]


def test_reading_where_nothing_was_measured_says_so(path):
    with pytest.raises(JournalError, match="nothing has been measured"):
        read_journal(path)


def test_a_second_writer_is_refused_with_the_first_ones_pid(path):
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, pathlib; from cake_tune.journal.journal import Journal\n"
            "with Journal(pathlib.Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()",
            str(path),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(JournalError, match=f"process {holder.pid}"):
            Journal(path)
    finally:
        holder.kill()
        holder.communicate()
    with Journal(path) as journal:
        assert journal.messages == []


def test_a_second_writer_in_the_same_process_is_refused(path):
    with Journal(path), pytest.raises(JournalError, match="is being written by process"):
        Journal(path)


def test_recovery_messages_reach_the_writer(path):
    write(path, record("a"), record("b"))
    path.write_bytes(path.read_bytes()[:-20])
    with Journal(path) as journal:
        assert len(journal.messages) == 1
        assert "torn last line" in journal.messages[0]


def test_archiving_keeps_the_old_file_whole_and_the_named_records_in_force(path):
    write(path, record("a"), record("b"), record("c"))
    before = path.read_bytes()
    with Journal(path) as journal:
        aside = journal.archive(keep={"b"})
        journal.append(record("d"))
    assert aside.read_bytes() == before
    assert [found.key for found in read_journal(path)] == ["b", "d"]
    assert sorted(file.name for file in path.parent.glob("journal*")) == sorted([aside.name, path.name])


def test_archiving_copies_where_there_are_no_links(path, monkeypatch):
    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("os.link", refused)
    write(path, record("a"), record("b"))
    before = path.read_bytes()
    with Journal(path) as journal:
        assert journal.archive(keep={"a"}).read_bytes() == before
    assert [found.key for found in read_journal(path)] == ["a"]


def test_archiving_that_fails_leaves_the_journal_as_it_was(path, monkeypatch):
    def refused(*_):
        raise PermissionError(1, "Operation not permitted")

    def full(*_):
        raise OSError(28, "No space left on device")

    write(path, record("a"), record("b"))
    monkeypatch.setattr("os.link", refused)
    monkeypatch.setattr("shutil.copyfileobj", full)
    with Journal(path) as journal:
        with pytest.raises(OSError, match="No space left"):
            journal.archive(keep={"a"})
        journal.append(record("c"))
    assert [found.key for found in read_journal(path)] == ["a", "b", "c"]
    assert [file.name for file in path.parent.glob("journal*")] == [path.name]


def test_archiving_an_empty_journal_leaves_no_file_behind(path):
    with Journal(path) as journal:
        assert journal.archive() is None
    assert [file.name for file in path.parent.glob("journal*")] == [path.name]


def test_a_record_with_other_fields_is_refused_with_its_place(path):
    write(path, record("a"))
    text = record_to_json(record("b")).replace('"tie_band"', '"tie_bond"')
    with path.open("ab") as file:
        file.write(frame(text))
    with pytest.raises(JournalError, match=r"journal\.jsonl:2: .*tie_band"):
        list(read_journal(path))


OTHERS = {
    "the same fields": record_to_json(record("a")).replace('{"v":1,', '{"v":2,'),
    "other fields": '{"v":12,"point":"a"}',
    "the key elsewhere": '{"v":2,"shape":[1],"key":"a"}',
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("end", ["", "\n"], ids=["line feed lost", "whole"])
def test_a_journal_of_another_version_is_refused_and_never_written_over(path, other, end):
    path.parent.mkdir()
    line = frame(other).decode()
    path.write_text(line + line.removesuffix("\n") + end)
    with Journal(path) as journal:
        assert journal.messages == []
    assert path.read_text() == line + line
    with pytest.raises(JournalError, match=r"journal\.jsonl:2: .*expected version 1, got (2|12): another version"):
        list(read_journal(path))


def test_a_newer_record_of_the_same_key_does_not_hide_one_of_another_version(path):
    path.parent.mkdir()
    path.write_bytes(frame(OTHERS["the same fields"]) + frame(record_to_json(record("a"))))
    with pytest.raises(JournalError, match=r"journal\.jsonl:1: "):
        list(read_journal(path))


def test_a_full_disk_is_a_journal_error_that_names_the_file(path, monkeypatch):
    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with Journal(path) as journal, monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(JournalError, match=r"journal\.jsonl: cannot append a record: No space left"):
            journal.append(record("a"))


def test_reading_needs_little_memory_however_long_the_journal(path):
    path.parent.mkdir()
    rows = 10_000
    text = record_to_json(record("KEY"))
    with path.open("wb") as file:
        for number in range(rows):
            file.write(frame(text.replace("KEY", f"{number:032x}")))
    tracemalloc.start()
    try:
        assert sum(1 for _ in read_journal(path)) == rows
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < path.stat().st_size / 5
