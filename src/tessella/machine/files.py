"""Files written whole or not at all."""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import IO

OURS = secrets.token_hex(4)
"""Tells this process from one of the same number on another machine."""

_NUMBERS = count()


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
    tried = _beside(path)
    try:
        tried.touch()
        tried.unlink()
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Alone, among all who ask for it, with a file that each of them replaces as a whole.

    It is created empty if need be. The lock is one of the file itself (`flock`): whoever gets that
    of a file replaced meanwhile asks again.
    """
    while True:
        with open(path, "ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if is_at(file, path):
                yield
                return


def is_at(file: IO[bytes], path: Path) -> bool:
    """Whether an open file is still in its place; the place is opened, not looked up, since network
    file systems remember what they looked up."""
    try:
        with open(path, "rb") as there:
            return os.path.samestat(os.fstat(there.fileno()), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _special(path: Path) -> bool:
    """Whether this is a device or a pipe."""
    return path.exists() and not path.is_file() and not path.is_dir()


def _beside(path: Path) -> Path:
    """A name that nobody else has, another thread of this process neither."""
    return path.with_name(f".{os.getpid()}-{OURS}-{next(_NUMBERS)}.{path.name}")
