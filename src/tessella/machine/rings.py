"""Messages between processes of one machine, through memory that they share.

A socket costs both ends a call of the kernel, and who waits at one has to be woken: some 40
microseconds of a processor for a message, and as many again until it is read. A ring costs neither.
For every two processes there is one in each direction: a single one writes, a single one reads, and
who reads sees a message once the count of written bytes says so, which is written last.

This is so where a processor lets others see its writes in their order, as x86 does, and pays where
every process has a core, on which it can stay awake; elsewhere, and between machines or containers,
everything goes through sockets.
"""

from __future__ import annotations

import mmap
import os
import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np

SIZE, ALL = 1 << 20, 1 << 29
"""Bytes of a ring, and of all rings of a machine, at most. Memory is taken as far as messages
reach: a ring without any begins anew."""

WORD = 8
"""Bytes of a number. Messages begin at multiples, so that their length is never cut."""

WRITTEN, READ, ASLEEP, NUMBERS = 0, 8, 16, 24
"""Where a ring's numbers are: how many bytes were written and read so far, and whether who reads
sleeps. Each is on a line of the cache by itself."""

SKIPPED = (1 << 64) - 1
"""Instead of a length: the rest up to the end is empty."""

_BARRIER = Lock()


def barrier() -> None:
    """What was written before is seen by others before anything is read after. (x86 lets reads pass
    writes, but not an exchange with memory, which taking a lock is.)"""
    if _BARRIER.acquire(blocking=False):
        _BARRIER.release()


class Ring:
    """In one direction, from one process to another."""

    def __init__(self, room: memoryview) -> None:
        self._numbers = room.cast("Q")
        self._room = room[NUMBERS * WORD :]
        self.size = len(self._room)

    def put(self, parts: Sequence[bytes | memoryview]) -> bool:
        """Write a message, if there is room for it."""
        numbers, length = self._numbers, sum(map(len, parts))
        need, written = _whole(length), numbers[WRITTEN]
        start, free = written % self.size, self.size - (written - numbers[READ])
        rest = self.size - start
        anew = need > rest or (free == self.size and need <= start)
        if need > (free - rest if anew else free):
            return False
        if anew:
            numbers[NUMBERS + start // WORD] = SKIPPED
            start, written = 0, written + rest
        numbers[NUMBERS + start // WORD] = length
        at = start + WORD
        for part in parts:
            self._room[at : at + len(part)] = part
            at += len(part)
        numbers[WRITTEN] = written + need
        return True

    def first(self) -> memoryview | None:
        """The first message that was not taken yet, valid until it is."""
        numbers, read = self._numbers, self._numbers[READ]
        if read == numbers[WRITTEN]:
            return None
        start = read % self.size
        if numbers[NUMBERS + start // WORD] == SKIPPED:
            numbers[READ] = read + self.size - start
            return self.first()
        length = numbers[NUMBERS + start // WORD]
        return self._room[start + WORD : start + WORD + length]

    def take(self) -> None:
        """Give its room back."""
        numbers, read = self._numbers, self._numbers[READ]
        numbers[READ] = read + _whole(numbers[NUMBERS + read % self.size // WORD])

    @property
    def filled(self) -> bool:
        """Whether there is a message."""
        return self._numbers[WRITTEN] != self._numbers[READ]

    @property
    def asleep(self) -> bool:
        """Whether who reads has to be woken."""
        return bool(self._numbers[ASLEEP])

    @asleep.setter
    def asleep(self, value: bool) -> None:
        self._numbers[ASLEEP] = value


def _whole(length: int) -> int:
    """Bytes that a message takes."""
    return WORD + -(-length // WORD) * WORD


class Rings(NamedTuple):
    """To another process, and from it."""

    out: Ring
    back: Ring


def between(room: memoryview, number: int, index: int) -> dict[int, Rings]:
    """Those of one of so many processes, in memory that all of them see."""
    size = len(room) // number**2 // WORD * WORD

    def ring(one: int, other: int) -> Ring:
        start = (one * number + other) * size
        return Ring(room[start : start + size])

    return {q: Rings(ring(index, q), ring(q, index)) for q in range(number) if q != index}


Tell = Callable[[str, np.ndarray], list[np.ndarray]]
"""What all processes say, to each of them (`processes.gathered`)."""


def shared(index: int, here: Sequence[int], tell: Tell) -> dict[int, Rings]:
    """Rings to the other processes of this machine, `here`; none if not all of them can."""
    first, number = index == here[0] and len(here) > 1, len(here)
    with _Memory(number if first else 0) as memory:
        offered = tell("memory", np.array(memory.offer))[here[0]]
        room = _opened(*offered.tolist())
        fine = tell("rings", np.array(room is not None))
    if room is None or not all(fine[i] for i in here):
        return {}
    found = between(room, number, here.index(index))
    return {here[i]: rings for i, rings in found.items()}


class _Memory:
    """Memory without a name for so many processes, which others reach by way of its first one, as
    long as that has it open; or none. It is gone with the last one that has it."""

    def __init__(self, number: int) -> None:
        self.offer, self._file = (0, 0, 0, 0), -1
        if not number or platform.machine() != "x86_64" or not hasattr(os, "memfd_create"):
            return
        pages = max(1, min(SIZE, ALL // number**2) // mmap.PAGESIZE)
        size = number**2 * pages * mmap.PAGESIZE
        token = int.from_bytes(os.urandom(7), "little")
        try:
            self._file = os.memfd_create("tessella")
            os.truncate(self._file, size + WORD)
            os.pwrite(self._file, token.to_bytes(WORD, "little"), size)
        except OSError:
            return
        self.offer = os.getpid(), self._file, size, token

    def __enter__(self) -> _Memory:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file >= 0:
            os.close(self._file)


def _opened(process: int, file: int, size: int, token: int) -> memoryview | None:
    """What another process of this machine offers, if it is really that."""
    if not size:
        return None
    try:
        with Path(f"/proc/{process}/fd/{file}").open("r+b", buffering=0) as opened:
            room = memoryview(mmap.mmap(opened.fileno(), size + WORD))
    except (OSError, ValueError):
        return None
    return room[:size] if int.from_bytes(room[size:], "little") == token else None
