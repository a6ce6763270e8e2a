"""Arrays between processes: a socket to every other one, and a watch over who is still there.

Every pair has a socket of its own for arrays. The sockets at which they met process 0 (`meeting`)
stay open: over them each process says once a second that it lives, why it stops, and, as process 0,
whom all have lost.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tessella.machine.messages import Connection, pieces

BEAT = 1.0
"""Seconds between signs of life."""

GRACE = 20.0
"""Seconds that a process has to end by itself once another one is lost."""

LAUNCHER = "TESSELLA_LAUNCHER"
"""The number of the process that has started all of them, if one has."""


class ProcessLostError(RuntimeError):
    """Another process died, hangs, or does something else."""


class Lines:
    """One JSON value a line over a socket."""

    def __init__(self, end: socket.socket) -> None:
        self.socket, self._rest = end, b""

    def say(self, value: object) -> None:
        self.socket.sendall(json.dumps(value).encode() + b"\n")

    def hear(self) -> Any:
        """The next one, waited for."""
        while b"\n" not in self._rest:
            if not self._more():
                raise ConnectionError("the connection was closed")
        return self._next()

    def heard(self) -> tuple[list[Any], bool]:
        """What there is after one reading, and whether the other end is still open."""
        opened, found = self._more(), []
        while b"\n" in self._rest:
            found.append(self._next())
        return found, opened

    def _more(self) -> bool:
        got = self.socket.recv(1 << 16)
        self._rest += got
        return bool(got)

    def _next(self) -> Any:
        line, self._rest = self._rest.split(b"\n", 1)
        return json.loads(line)


class Wire:
    """Connections to all other processes; `sent` counts the bytes of all arrays that left here.

    Whoever waits, to send or to receive, reads meanwhile whatever comes from anybody: so all may
    send first and receive afterwards, however much it is.
    """

    def __init__(self, index: int, ends: dict[int, socket.socket], watch: Watch) -> None:
        self.index, self.watch, self.sent = index, watch, 0
        self.others = {other: Connection(end) for other, end in ends.items()}
        self.waits: tuple[int, float] | None = None
        """For which process, and since when nothing came from it."""
        watch.wire = self

    def send(self, to: Sequence[int], what: str, arrays: Sequence[np.ndarray]) -> None:
        """The same to some processes."""
        whole = [np.asarray(x, order="C") for x in arrays]
        message = pieces(what, whole)
        for number in to:
            try:
                for piece in message:
                    self._push(number, piece)
            except OSError:
                raise self.watch.error(number, what) from None
        self.sent += len(to) * sum(x.nbytes for x in whole)

    def _push(self, to: int, piece: memoryview) -> None:
        other = self.others[to]
        start = other.send(piece)
        while start < len(piece):
            self._wait(to, [other.socket])
            start += other.send(piece[start:])

    def receive(self, source: int, what: str) -> list[np.ndarray]:
        other = self.others[source]
        while (head := other.head()) is None:
            if not other.read():
                self._hear(source, what)
        theirs, kinds = head
        if theirs != what:
            raise ProcessLostError(
                f"process {source} is at {theirs!r} while process {self.index} is at {what!r}: all "
                f"processes must run the same script with the same numbers"
            )
        found = [np.empty(shape, dtype) for dtype, shape in kinds]
        for room in (x.data.cast("B") for x in found if x.nbytes):
            start = 0
            while start < len(room):
                if not (got := other.fill(room[start:])):
                    self._hear(source, what)
                start += got
        return found

    def _hear(self, source: int, what: str) -> None:
        """Wait for more from a process, which must still be there."""
        if not self.others[source].open:
            raise self.watch.error(source, what)
        self._wait(source)

    def _wait(self, other: int, to_send: Sequence[socket.socket] = ()) -> None:
        """Until a process takes more or says something; what comes from others is kept."""
        since = time.monotonic()
        own, known = self.others[other], {x.socket: x for x in self.others.values() if x.open}
        while True:
            self.waits = other, since
            try:
                ready, free, _ = select.select([*known], to_send, [])
            finally:
                self.waits = None
            for end in ready:
                known[end].read()
            if free or own.socket in ready:
                break
            known = {end: one for end, one in known.items() if one.open}

    def close(self) -> None:
        for one in self.others.values():
            try:
                one.socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


class Watch(threading.Thread):
    """Over the processes at the other end of some lines: all of them for process 0, and process 0
    for the others. One that ends without taking its leave, or is silent for `silence` seconds, is
    lost; then exchanges fail, and the process is ended if it does not end by itself."""

    def __init__(self, index: int, lines: dict[int, Lines], silence: float) -> None:
        super().__init__(name="watch", daemon=True)
        self.index, self.lines, self.silence = index, lines, silence
        self.wire: Wire | None = None
        self.lost, self.left = "", False
        self.others: dict[int, list[float]] = {}
        """For whom the others wait, and how long already."""
        self._known, self._speaking = threading.Event(), threading.Lock()

    def run(self) -> None:
        last = dict.fromkeys(self.lines, time.monotonic())
        beat = 0.0
        while self.lines and not self.lost and not self.left:
            now = time.monotonic()
            if now - beat >= BEAT:
                self.tell({"waits": self._waits()})
                beat = now
                self._look_around()
            ready, _, _ = select.select(
                [one.socket for one in self.lines.values()], [], [], BEAT / 4
            )
            for number, one in list(self.lines.items()):
                if one.socket in ready:
                    last[number] = time.monotonic()
                    self._listen(number, one)
                elif time.monotonic() - last[number] > self.silence:
                    self._lose(f"process {number} has not been heard of for {self.silence:g} s")
        if self.lost:
            self._end()

    def _waits(self) -> list[float]:
        """For whom this process waits, and how long already; [] if for nobody."""
        waits = None if self.wire is None else self.wire.waits
        return [] if waits is None else [waits[0], time.monotonic() - waits[1]]

    def _look_around(self) -> None:
        """Whether the launcher is still there, and as process 0 whether anybody is at work."""
        if os.environ.get(LAUNCHER, str(os.getppid())) != str(os.getppid()):
            self._lose("the process that started all of them has ended")
        every = {self.index: self._waits(), **{n: self.others.get(n, []) for n in self.lines}}
        if self.index == 0 and all(own and own[1] > self.silence for own in every.values()):
            whom = ", ".join(f"{n} for {own[0]:g}" for n, own in sorted(every.items()))
            self._lose(f"all processes wait for each other ({whom}): they are at different places")

    def _listen(self, number: int, one: Lines) -> None:
        try:
            said, opened = one.heard()
        except OSError:
            said, opened = [], False
        if self.left:
            return
        for value in said:
            if "waits" in value:
                self.others[number] = value["waits"]
            if "lost" in value:
                self._lose(value["lost"])
            if "stopped" in value:
                self._lose(f"process {number} stopped: {value['stopped']}")
            if "leaves" in value:
                self.lines.pop(number, None)
        if not opened and number in self.lines:
            self._lose(f"process {number} ended without a word: it was killed, or crashed")

    def _lose(self, message: str) -> None:
        if not self.lost:
            self.lost = message
            self.tell({"lost": message})
            self._known.set()
            if self.wire is not None:
                self.wire.close()

    def leave(self) -> None:
        """Take leave: from now on nobody is lost, here or for the others."""
        self.left = True
        self.tell({"leaves": True})

    def tell(self, value: object) -> None:
        with self._speaking:
            for one in list(self.lines.values()):
                try:
                    one.say(value)
                except OSError:
                    continue

    def error(self, number: int, what: str) -> ProcessLostError:
        """Why nothing comes from a process any more; who was lost first may take a moment."""
        self._known.wait(5 * BEAT)
        ended = f"process {number} has ended before process {self.index}, which is at {what!r}"
        first = self.lost or ended
        return ProcessLostError(
            f"{first}; process {self.index} ends too. Look at what that process printed, then start"
            f" all of them again"
        )

    def _end(self) -> None:
        time.sleep(GRACE)
        print(f"error: {self.lost}; process {self.index} ends too", file=sys.stderr, flush=True)
        os._exit(1)
