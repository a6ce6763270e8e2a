"""Arrays as messages over a socket that never blocks: a head, which says what they are, and their
numbers."""

from __future__ import annotations

import json
import socket
import struct
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

HEADS = 1024
"""Heads that are remembered: an iteration sends the same ones again and again."""

ONCE = 1 << 16
"""Bytes that are sent or read at once; a longer message is not copied to be sent whole."""

START = struct.Struct("<IQ")
"""Before the head: its length, and the step that its process is at."""

Kind = tuple[str, tuple[int, ...]]
"""Type and shape of an array."""


class Message(NamedTuple):
    what: str
    step: int
    arrays: list[np.ndarray]


@lru_cache(HEADS)
def written(what: str, kinds: tuple[Kind, ...]) -> bytes:
    return json.dumps([what, kinds]).encode()


@lru_cache(HEADS)
def understood(head: bytes) -> tuple[str, list[Kind]]:
    what, kinds = json.loads(head)
    return what, [(dtype, tuple(shape)) for dtype, shape in kinds]


def pieces(what: str, step: int, arrays: Sequence[np.ndarray]) -> list[memoryview]:
    """What to send one after the other: a single piece if it is short."""
    head = written(what, tuple((x.dtype.str, x.shape) for x in arrays))
    head = START.pack(len(head), step) + head
    numbers = [x.data.cast("B") for x in arrays if x.nbytes]
    if len(head) + sum(map(len, numbers)) <= ONCE:
        return [memoryview(b"".join([head, *numbers]))]
    return [memoryview(head), *numbers]


class Connection:
    """A socket to another process; what was read before anybody asked for it is kept, as the arrays
    that it will be."""

    def __init__(self, end: socket.socket) -> None:
        self.socket, self.open = end, True
        self._room, self._rest = memoryview(bytearray(ONCE)), b""
        self._arrived: deque[Message] = deque()
        self._gaps: list[memoryview] = []
        """Where numbers of the last one that has arrived are still missing."""
        end.setblocking(False)

    def send(self, piece: memoryview) -> int:
        """How many of its bytes the socket takes now."""
        try:
            return self.socket.send(piece)
        except BlockingIOError:
            return 0

    def message(self) -> Message | None:
        """The next one, once it is there."""
        if len(self._arrived) > 1 or (self._arrived and not self._gaps):
            return self._arrived.popleft()
        return None

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
        start = 0
        while len(read) >= (head := start + START.size):
            length, step = START.unpack_from(read, start)
            if len(read) < head + length:
                break
            start = head + length
            what, kinds = understood(read[head:start])
            arrays = [np.empty(shape, dtype) for dtype, shape in kinds]
            for room in (x.data.cast("B") for x in arrays if x.nbytes):
                some = read[start : start + len(room)]
                room[: len(some)] = some
                start += len(some)
                if len(some) < len(room):
                    self._gaps.append(room[len(some) :])
            self._arrived.append(Message(what, step, arrays))
        self._rest = read[start:]

    def _received(self, room: memoryview) -> int:
        try:
            number = self.socket.recv_into(room)
        except BlockingIOError:
            return 0
        except OSError:
            number = 0
        self.open = number > 0
        return number
