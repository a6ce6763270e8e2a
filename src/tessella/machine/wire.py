"""Arrays between processes: a socket to every other one, and a watch over who is still there.

Every pair has a socket of its own for arrays. The sockets at which they met process 0 (`meeting`)
stay open: over them each process says once a second that it lives, why it stops, and, as process 0,
whom all have lost.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from selectors import EVENT_READ, EVENT_WRITE
from typing import Any

import numpy as np

from tessella.machine.messages import Connection, Message, parts_of
from tessella.machine.rings import Rings

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


DOZE = 0.2
"""Seconds that it sleeps at most until it looks again."""

EXCHANGES = 1 << 32
"""More than any part of the work takes: a step is its part times this, and exchanges since."""


class Wire:
    """Connections to all other processes; `sent` counts the bytes of all arrays that left here, and
    `step` what all processes have done together, which every message must agree with.

    Whoever waits, to send or to receive, reads meanwhile whatever comes from anybody: so all may
    send first and receive afterwards, however much it is. One thread of a process does, not two at
    a time: messages are numbered.
    """

    def __init__(self, index: int, ends: dict[int, socket.socket], watch: Watch) -> None:
        self.index, self.watch, self.sent, self.step = index, watch, 0, 0
        self.others = {other: Connection(end) for other, end in ends.items()}
        self.waits: tuple[int, float] | None = None
        """For which process, and since when nothing came from it."""
        self._selector = selectors.DefaultSelector()
        for one in self.others.values():
            self._selector.register(one.socket, EVENT_READ, one)
        watch.wire = self
        if watch.lost:  # before there was anything to close
            self.close()

    def share(self, rings: Mapping[int, Rings]) -> None:
        """Talk to these through memory."""
        for number, own in rings.items():
            self.others[number].rings = own

    def begin(self) -> None:
        """The next part of the work."""
        self.step += EXCHANGES - self.step % EXCHANGES

    def send(self, to: Sequence[int], what: str, arrays: Sequence[np.ndarray]) -> None:
        """The same to some processes."""
        whole = [np.asarray(x, order="C") for x in arrays]
        parts = parts_of(what, whole)
        for number in to:
            try:
                for piece in self.others[number].given(self.step, parts):
                    self._push(number, piece)
            except OSError:
                raise self.watch.error(number, what) from None
        self.sent += len(to) * sum(x.nbytes for x in whole)

    def _push(self, to: int, piece: memoryview) -> None:
        other = self.others[to]
        start = other.send(piece)
        while start < len(piece):
            if not other.open:
                raise ConnectionError("the connection was closed")
            self._selector.modify(other.socket, EVENT_READ | EVENT_WRITE, other)
            try:
                self._wait(to)
            finally:
                if other.open:
                    self._selector.modify(other.socket, EVENT_READ, other)
            start += other.send(piece[start:])

    def receive(self, source: int, what: str, step: int | None = None) -> list[np.ndarray]:
        """What a process has sent at this step, or at an earlier one."""
        step, message = self.step if step is None else step, self._next(source, what)
        if (message.what, message.step) != (what, step):
            raise ProcessLostError(
                f"process {source} is at {_place(message.what, message.step)} while process "
                f"{self.index} is at {_place(what, step)}: all processes must run the same script "
                f"with the same numbers"
            )
        return message.arrays

    def _next(self, source: int, what: str) -> Message:
        """From a process, which must still be there."""
        other = self.others[source]
        while (message := other.message()) is None:
            there = other.open
            if other.read():
                continue
            if not there:
                raise self.watch.error(source, what)
            since = time.perf_counter()
            if not other.soon() and other.open:
                self._wait(source, other.sleeps)
            other.woke(time.perf_counter() - since)
        return message

    def _wait(self, other: int, sleeps: Callable[[], bool] = lambda: True) -> None:
        """Until a process says something, or takes more; what comes from others is kept."""
        since, own, heard = time.monotonic(), self.others[other], False
        while not heard and sleeps():
            self.waits = other, since
            try:
                ready = self._selector.select(DOZE)
            finally:
                self.waits = None
            for (end, _, _, one), events in ready:
                heard = heard or one is own
                if events & EVENT_READ:
                    one.read()
                    if not one.open:
                        self._selector.unregister(end)

    def leave(self) -> None:
        """Read what woke nobody any more: a socket that is closed with anything unread in it takes
        back what it was given to send and the other end has not got yet."""
        for one in self.others.values():
            if one.rings is not None:
                one.read()

    def close(self) -> None:
        for one in self.others.values():
            try:
                one.socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue


def _place(what: str, step: int) -> str:
    part, exchange = divmod(step, EXCHANGES)
    return f"{what!r} (step {part}.{exchange})"


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
        beat, selector, before = 0.0, selectors.DefaultSelector(), time.monotonic()
        for number, one in self.lines.items():
            selector.register(one.socket, EVENT_READ, number)
        while self.lines and not self.lost and not self.left:
            now = time.monotonic()
            if now - before > self.silence / 2:  # stopped itself, as the others may be still
                last = dict.fromkeys(last, now)
            before = now
            if now - beat >= BEAT:
                self.tell({"waits": self._waits()})
                beat = now
                self._look_around()
            ready = {key.data for key, _ in selector.select(BEAT / 4)}
            for number, one in list(self.lines.items()):
                if number in ready:
                    last[number] = time.monotonic()
                    self._listen(number, one)
                    if number not in self.lines:
                        selector.unregister(one.socket)
                elif now - last[number] > self.silence:
                    self._lose(f"process {number} has not been heard of for {self.silence:g} s")
        selector.close()
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
            self._lose(
                f"all processes wait for each other ({whom}): they are at different places, or "
                f"what one sends does not reach another, as where a link between machines is cut"
            )

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
        ended = (
            f"process {number} has ended, or its connection was cut, before process {self.index}, "
            f"which is at {what!r}"
        )
        first = self.lost or ended
        return ProcessLostError(
            f"{first}; process {self.index} ends too. Look at what that process printed, then start"
            f" all of them again"
        )

    def _end(self) -> None:
        time.sleep(GRACE)
        print(f"error: {self.lost}; process {self.index} ends too", file=sys.stderr, flush=True)
        os._exit(1)
