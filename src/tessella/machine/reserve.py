"""Who is busy with what: a file for each piece of work, in a folder that several machines see.

Whoever creates the file of a piece of work has reserved it, and touches it every few seconds for as
long as it works. A file that nobody has touched for `SILENCE` seconds belonged to a process that is
gone: it is removed, and whoever creates the next one goes on. Ages are differences to the date of a
file just created there, so clocks of machines need not agree.

Relied on are exclusive creation (atomic on local file systems and on NFS from version 3 on) and
that who opens a file sees its latest date (NFS asks the server then). Files are removed under a
lock (`flock`), so of several who find one silent nobody removes what has taken its place. Where
locks do not reach other machines that may happen, in a moment of microseconds, and a process that
slept for a minute may go on beside its successor: work must bear to be done twice.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from tempfile import TemporaryFile
from threading import Event, Thread
from typing import IO

from tessella.machine.files import is_at

BEAT = 5.0
"""Seconds between two signs of life."""

SILENCE = 60.0
"""Seconds without one after which a process counts as gone."""

PREFIX = ".reserved-"


class Reservations:
    """Work by name, reserved in a folder by this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._held: dict[str, FileIO] = {}

    def take(self, name: str) -> bool:
        """Reserve something, unless somebody who is alive has done so."""
        path = self._path(name)
        for _ in range(2):
            with suppress(FileExistsError):
                file = self._held[name] = FileIO(path, "x")
                with suppress(OSError):  # it counts by being there
                    file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
                return True
            _remove_if_silent(path)
        return False

    def release(self, name: str) -> None:
        """Give up what this process has reserved."""
        file = self._held.pop(name, None)
        if file is not None:
            with file:
                _remove(self._path(name), file)

    def holder(self, name: str) -> str | None:
        """Who has reserved something, in words."""
        with suppress(OSError):
            return self._path(name).read_text() or None
        return None

    @contextmanager
    def kept(self) -> Iterator[None]:
        """Inside, signs of life are given; at the end nothing is left of this process, nor of those
        that are gone."""
        ended = Event()
        beat = Thread(target=self._beat, args=(ended,), daemon=True)
        beat.start()
        try:
            yield
        finally:
            ended.set()
            beat.join()
            for name in list(self._held):
                self.release(name)
            with suppress(OSError):
                for path in self.folder.glob(f"{PREFIX}*"):
                    _remove_if_silent(path)

    def _beat(self, ended: Event) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # for the main thread
        while not ended.wait(BEAT):
            for file in list(self._held.values()):
                with suppress(OSError, ValueError):  # just closed, or the next one comes through
                    os.utime(file.fileno())

    def _path(self, name: str) -> Path:
        return self.folder / f"{PREFIX}{hashlib.sha256(name.encode()).hexdigest()[:24]}"


def _remove_if_silent(path: Path) -> None:
    with suppress(FileNotFoundError), open(path, "r+b") as file:
        with TemporaryFile(dir=path.parent) as new:
            now = os.fstat(new.fileno()).st_mtime
        if now - os.fstat(file.fileno()).st_mtime > SILENCE:
            _remove(path, file)


def _remove(path: Path, file: IO[bytes]) -> None:
    """Remove an open file from its place, if it is still there."""
    fcntl.flock(file, fcntl.LOCK_EX)
    if is_at(file, path):
        path.unlink(missing_ok=True)
