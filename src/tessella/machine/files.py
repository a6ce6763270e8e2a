"""Files written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A name beside `path` to write to; at the end it is forced to disk and takes that place.

    A reader sees the old file or the whole new one, and what fails or is interrupted leaves the
    old one. Several files change together with several of these in one `with`. An error of the
    file system, such as a full disk, names `path`. What is no file, such as /dev/null, is written
    to as it is.
    """
    if _special(path):
        yield path
        return
    unfinished = _beside(path)
    try:
        yield unfinished
        with open(unfinished, "rb") as file:
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except OSError as error:
        if error.filename in (None, str(unfinished)) and error.errno is not None:
            raise type(error)(error.errno, error.strerror, str(path)) from None
        raise
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)


def check_writable(path: Path) -> None:
    """Refuse a place where no file can be written, before there is anything to write."""
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: name a file in it")
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"the folder of {path} does not exist: create it first")
    if _special(path):
        return
    try:
        _beside(path).touch()
        _beside(path).unlink()
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None


def _special(path: Path) -> bool:
    """Whether this is a device or a pipe."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _beside(path: Path) -> Path:
    return path.with_name(f".{os.getpid()}.{path.name}")
