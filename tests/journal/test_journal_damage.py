"""Whatever happens to a journal's bytes, every line that is still whole is still read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from journal_records import record, records

from cake_tune.journal.codec import record_to_json
from cake_tune.journal.journal import Journal, read_journal
from cake_tune.journal.line import frame, intact_bodies, is_clean
from cake_tune.journal.recovery import recover

LINES = [frame(record_to_json(record(f"{number:x}"))) for number in range(3)]
WHOLE = b"".join(LINES)
ENDS = [sum(map(len, LINES[: number + 1])) for number in range(3)]


def keys(path) -> list[str]:
    return [found.key for found in read_journal(path)]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "journal.jsonl"


def test_cut_at_every_byte_no_whole_line_is_lost_and_the_next_append_is_read_back(path):
    for length in range(len(WHOLE) + 1):
        path.write_bytes(WHOLE[:length])
        whole = [f"{number:x}" for number, end in enumerate(ENDS) if end - 1 <= length]
        assert keys(path) == whole, length
        messages, _ = recover(path)
        assert keys(path) == whole, length
        torn = length not in (0, *ENDS, *(end - 1 for end in ENDS))
        assert bool(messages) == torn, length
        with path.open("ab") as file:
            file.write(frame(record_to_json(record("f"))))
        assert keys(path) == [*whole, "f"], length
        assert recover(path) == ([], False)


@pytest.mark.parametrize("change", [0x01, 0x80, 0x20], ids=["low bit", "high bit", "case bit"])
def test_one_damaged_byte_anywhere_costs_at_most_the_line_it_is_in(path, change):
    starts = [0, *ENDS]
    for offset in range(len(WHOLE)):
        damaged = bytearray(WHOLE)
        damaged[offset] ^= change
        path.write_bytes(damaged)
        spared = {f"{n:x}" for n in range(3) if not starts[n] <= offset < ENDS[n]}
        assert spared <= set(keys(path)), offset
        # The very last line feed is put back without a word: nothing was lost.
        assert bool(recover(path)[0]) == (offset != len(WHOLE) - 1), offset
        assert spared <= set(keys(path)), offset


@pytest.mark.parametrize("junk", [b"\n", b"\n\n", b"junk", b"\x00" * 40, b'{"v":1,"key":"', LINES[0][:30]])
def test_junk_put_between_lines_costs_nothing(path, junk):
    for at in [0, *ENDS]:
        path.write_bytes(WHOLE[:at] + junk + WHOLE[at:])
        recover(path)
        assert keys(path) == ["0", "1", "2"]


@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=6), st.binary(max_size=20))
def test_any_damage_is_survived(tmp_path_factory, changes, tail):
    path = tmp_path_factory.mktemp("any") / "journal.jsonl"
    damaged = bytearray(WHOLE)
    for offset, value in changes:
        damaged[offset] = value
    path.write_bytes(bytes(damaged) + tail)
    before = keys(path)
    messages, left = recover(path)
    assert keys(path) == before
    assert left == any(not is_clean(line + b"\n") for line in path.read_bytes().split(b"\n")[:-1])
    assert messages or not left
    with Journal(path) as journal:
        journal.append(record("f"))
    assert keys(path) == [*before, "f"]


def test_a_damaged_end_that_recovery_made_a_line_is_told_at_once(path):
    path.write_bytes(LINES[0] + LINES[1] + b"junk" + LINES[2][:-1])
    (message,), left = recover(path)
    assert left and "damaged line with 1 intact record" in message
    assert recover(path) == ([message], True)


@given(records)
def test_the_frame_of_any_record_is_clean_and_holds_its_json(original):
    text = record_to_json(original)
    line = frame(text)
    assert is_clean(line)
    assert [body.decode() for body, _ in intact_bodies(line)] == [text]
