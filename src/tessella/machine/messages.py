"""Arrays as messages to another process: a head, which says what they are, and their numbers.

They go over a socket that never blocks, and short ones through memory if both have some in common
(`rings`). Each end counts them, so that they are found in their order whichever way they came.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from tessella.machine.rings import Ring, Rings, barrier

HEADS = 1024
"""Heads that are remembered: an iteration sends the same ones again and again."""

ONCE = 1 << 16
"""Bytes that are sent or read at once; a longer message is not copied to be sent whole."""

START = struct.Struct("<IQQ")
"""Before the head: its length, the step that its process is at, and which message it is of all that
it sent to this one. With length 0 it is none, and wakes who sleeps."""

WAKES = START.pack(0, 0, 0)

AWAKE, NAP = 5e-4, 4e-6
"""Seconds that a process stays awake for what comes through memory, at most and at least: longer
after what came in time, shorter after what did not, as where others need its core. To be woken
takes a tenth of the first."""

POLLS = 50
"""How often a ring is looked at before the socket is."""

Kind = tuple[str, tuple[int, ...]]
"""Type and shape of an array."""


class Message(NamedTuple):
    what: str
    step: int
    arrays: list[np.ndarray]
    number: int


@lru_cache(HEADS)
def written(what: str, kinds: tuple[Kind, ...]) -> bytes:
    return json.dumps([what, kinds]).encode()


@lru_cache(HEADS)
def understood(head: bytes) -> tuple[str, list[Kind]]:
    what, kinds = json.loads(head)
    return what, [(dtype, tuple(shape)) for dtype, shape in kinds]


Parts = list[bytes | memoryview]
"""A message behind its start: the head, and the numbers of every array."""


def parts_of(what: str, arrays: Sequence[np.ndarray]) -> Parts:
    numbers = [x.data.cast("B") for x in arrays if x.nbytes]
    return [written(what, tuple((x.dtype.str, x.shape) for x in arrays)), *numbers]


def pieces(start: bytes, parts: Parts) -> list[memoryview]:
    """What to send one after the other: a single piece if it is short."""
    if len(start) + sum(map(len, parts)) <= ONCE:
        return [memoryview(b"".join([start, *parts]))]
    return [memoryview(start + parts[0]), *(memoryview(x) for x in parts[1:])]


def begun(read: memoryview) -> tuple[Message | None, list[memoryview], int] | None:
    """The message whose head is there (none, if it only wakes) with the numbers that are, where
    others are missing, and how many of these bytes it takes."""
    if len(read) < START.size:
        return None
    length, step, number = START.unpack_from(read)
    if not length:
        return None, [], START.size
    start = START.size + length
    if len(read) < start:
        return None
    what, kinds = understood(bytes(read[START.size : start]))
    arrays, gaps = [np.empty(shape, dtype) for dtype, shape in kinds], []
    for room in (x.data.cast("B") for x in arrays if x.nbytes):
        some = read[start : start + len(room)]
        room[: len(some)] = some
        start += len(some)
        if len(some) < len(room):
            gaps.append(room[len(some) :])
    return Message(what, step, arrays, number), gaps, start


class Connection:
    """A socket to another process, and memory in common if there is any; what was read before
    anybody asked for it is kept, as the arrays that it will be."""

    def __init__(self, end: socket.socket) -> None:
        self.socket, self.open = end, True
        self.rings: Rings | None = None
        self._awake = AWAKE
        self._sent = self._heard = 0
        self._room, self._rest = memoryview(bytearray(ONCE)), b""
        self._arrived: deque[Message] = deque()
        self._gaps: list[memoryview] = []
        """Where numbers of the last one that has arrived are still missing."""
        end.setblocking(False)

    def given(self, step: int, parts: Parts) -> list[memoryview]:
        """Write a message where the other process sees it; or else the pieces to send of it, or of
        what wakes the other process."""
        start = START.pack(len(parts[0]), step, self._sent)
        put = self.rings is not None and self.rings.out.put([start, *parts])
        self._sent += 1  # not before: who is interrupted while it puts has sent nothing
        if self.rings is None or not put:
            return pieces(start, parts)
        barrier()
        if not self.rings.out.asleep:
            return []
        self.rings.out.asleep = False
        return [memoryview(WAKES)]

    def send(self, piece: memoryview) -> int:
        """How many of its bytes the socket takes now."""
        try:
            return self.socket.send(piece)
        except BlockingIOError:
            return 0

    def message(self) -> Message | None:
        """The next one, once it is there."""
        found = self._from_memory() or self._from_socket()
        if found is not None:
            self._heard += 1
        return found

    def _from_memory(self) -> Message | None:
        back = None if self.rings is None else self.rings.back
        if back is None or not self._follows(back):
            return None
        read = back.first()
        entry = None if read is None else begun(read)
        back.take()
        return None if entry is None else entry[0]

    def _follows(self, back: Ring) -> bool:
        """Whether the next one is there: a later one has to wait for what comes over the socket."""
        read = back.first() if back.filled else None
        return read is not None and START.unpack_from(read)[2] == self._heard

    def _from_socket(self) -> Message | None:
        whole = len(self._arrived) > 1 or (self._arrived and not self._gaps)
        if whole and self._arrived[0].number == self._heard:
            return self._arrived.popleft()
        return None

    def soon(self) -> bool:
        """Stay awake for a moment, until there is something new."""
        if self.rings is None:
            return False
        back, end = self.rings.back, time.perf_counter() + self._awake
        while time.perf_counter() < end:
            for _ in range(POLLS):
                if self._follows(back):
                    return True
            if self.read():
                return True
            os.sched_yield()
        return False

    def sleeps(self) -> bool:
        """Ask to be woken, unless the next one is there already."""
        if self.rings is None:
            return True
        self.rings.back.asleep = True
        barrier()
        return not self._follows(self.rings.back)

    def woke(self, seconds: float) -> None:
        """It goes on, after so long."""
        if self.rings is not None:
            self.rings.back.asleep = False
        soon = seconds < AWAKE
        self._awake = min(AWAKE, 2 * self._awake) if soon else max(NAP, self._awake / 2)

    def read(self) -> bool:
        """Keep what there is now; whether there was something."""
        gaps = self._gaps
        number = self._received(gaps[0] if gaps else self._room)
        if not gaps:
            self._sort(self._rest + self._room[:number])
        elif number == len(gaps[0]):
            del gaps[0]
        else:
            gaps[0] = gaps[0][number:]
        return number > 0

    def _sort(self, read: bytes) -> None:
        """Begin the messages whose heads are there, with the numbers that are."""
        left = memoryview(read)
        while (entry := begun(left)) is not None:
            message, self._gaps, end = entry
            if message is not None:
                self._arrived.append(message)
            left = left[end:]
        self._rest = bytes(left)

    def _received(self, room: memoryview) -> int:
        try:
            number = self.socket.recv_into(room)
        except BlockingIOError:
            return 0
        except OSError:
            number = 0
        self.open = number > 0
        return number
