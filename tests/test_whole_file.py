"""A file written whole: readers see the old content or the new, and a failure leaves the old."""

import errno

import pytest

from cake_tune._files import whole_file


@pytest.mark.parametrize(("binary", "old", "new"), [(False, "old\n", "né\r\nw\n"), (True, b"old", b"\x00new")])
def test_the_name_changes_hands_when_the_block_ends(tmp_path, binary, old, new):
    path = tmp_path / "file"
    path.write_bytes(old if binary else old.encode())
    with path.open("rb") as reader:
        with whole_file(path, binary=binary) as file:
            file.write(new)
            file.flush()
            assert path.read_bytes() == (old if binary else old.encode())
        assert path.read_bytes() == (new if binary else new.encode())
        assert reader.read() == (old if binary else old.encode())
    assert list(tmp_path.iterdir()) == [path]


def test_a_failure_inside_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError), whole_file(path) as file:
        file.write("half")
        raise ZeroDivisionError
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written_is_an_oserror_that_names_it(tmp_path):
    path = tmp_path / "missing" / "file"
    with pytest.raises(FileNotFoundError) as caught, whole_file(path):
        pass
    assert caught.value.filename == str(path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError) as caught, whole_file(tmp_path / "folder"):
        pass
    assert caught.value.filename == str(tmp_path / "folder")


def test_a_disk_that_fills_up_is_named_by_the_file_that_did_not_fit(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with pytest.raises(OSError, match="No space") as caught, whole_file(path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.filename == str(path)
    assert path.read_text() == "old"


def test_what_another_file_refused_keeps_its_name(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, whole_file(tmp_path / "file"):
        (tmp_path / "absent").read_text()
    assert caught.value.filename == str(tmp_path / "absent")
