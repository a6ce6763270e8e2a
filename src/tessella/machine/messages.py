"""Arrays as messages over a socket that never blocks: a head, which says what they are, and their
numbers."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

HEADS = 1024
"""Heads that are remembered: an iteration sends the same ones again and again."""

ONCE = 1 << 16
"""Bytes that are sent or read at once; a longer message is not copied to be sent whole."""

Kind = tuple[str, tuple[int, ...]]
"""Type and shape of an array."""


@lru_cache(HEADS)
def written(what: str, kinds: tuple[Kind, ...]) -> bytes:
    head = json.dumps([what, kinds]).encode()
    return len(head).to_bytes(4, "little") + head


@lru_cache(HEADS)
def understood(head: bytes) -> tuple[str, list[Kind]]:
    what, kinds = json.loads(head)
    return what, [(dtype, tuple(shape)) for dtype, shape in kinds]


def pieces(what: str, arrays: Sequence[np.ndarray]) -> list[memoryview]:
    """What to send one after the other: a single piece if it is short."""
    head = written(what, tuple((x.dtype.str, x.shape) for x in arrays))
    numbers = [x.data.cast("B") for x in arrays if x.nbytes]
    if len(head) + sum(map(len, numbers)) <= ONCE:
        return [memoryview(b"".join([head, *numbers]))]
    return [memoryview(head), *numbers]


class Connection:
    """A socket to another process; what was read before anybody asked for it is kept."""

    def __init__(self, end: socket.socket) -> None:
        self.socket, self.open = end, True
        self._room, self._early = memoryview(bytearray(ONCE)), bytearray()
        end.setblocking(False)

    def send(self, piece: memoryview) -> int:
        """How many of its bytes the socket takes now."""
        try:
            return self.socket.send(piece)
        except BlockingIOError:
            return 0

    def read(self) -> bool:
        """Keep what there is now; whether there was something."""
        number = self._received(self._room)
        self._early += self._room[:number]
        return number > 0

    def head(self) -> tuple[str, list[Kind]] | None:
        """Of the next message, once it is there."""
        early = self._early
        if len(early) < 4 or len(early) < (end := 4 + int.from_bytes(early[:4], "little")):
            return None
        found = understood(bytes(early[4:end]))
        del early[:end]
        return found

    def fill(self, room: memoryview) -> int:
        """How many of so many bytes there are now: what was kept, else from the socket."""
        early = self._early
        if not early:
            return self._received(room)
        number = min(len(early), len(room))
        with memoryview(early) as kept:
            room[:number] = kept[:number]
        del early[:number]
        return number

    def _received(self, room: memoryview) -> int:
        try:
            number = self.socket.recv_into(room)
        except BlockingIOError:
            return 0
        except OSError:
            number = 0
        self.open = number > 0
        return number
