"""Files written whole or not at all."""

import errno
from concurrent.futures import ThreadPoolExecutor

import pytest

from tessella.machine.files import locked, written_whole


def test_files_of_one_block_change_together_or_not_at_all(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    for text in ("old", "new"):
        with written_whole(one) as first, written_whole(two) as second:
            first.write_text(text)
            second.write_text(text)
            assert not one.exists() or one.read_text() == "old"
    with pytest.raises(KeyboardInterrupt), written_whole(one) as first, written_whole(two):
        first.write_text("half")
        raise KeyboardInterrupt
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "one": "new",
        "two": "new",
    }


def test_a_full_disk_names_the_file(tmp_path):
    target = tmp_path / "u.npz"
    full = pytest.raises(OSError, match=r"No space left on device: .*/u\.npz'")
    with full, written_whole(target) as unfinished:
        unfinished.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")
    assert not list(tmp_path.iterdir())


def test_two_who_write_at_once_do_not_share_a_name(tmp_path):
    """Who gets the lock of a new file may begin before the last one has cleared up."""
    path = tmp_path / "file"
    with written_whole(path) as first:
        first.write_text("first")
        with written_whole(path) as second:
            second.write_text("second")
        assert path.read_text() == "second"
    assert path.read_text() == "first" and [*tmp_path.iterdir()] == [path]


def test_a_file_that_several_replace_loses_no_change(tmp_path):
    path = tmp_path / "number"

    def add(_):
        with locked(path):
            number = int(path.read_text() or 0)
            with written_whole(path) as unfinished:
                unfinished.write_text(str(number + 1))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, range(60)))
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("number", "60")]
