"""What one solve of a refinement leaves for the next: maps of cells and of groups of cells."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import numpy as np

from tessella.machine.memory import available_bytes

SHARE = 8
"""A shelf holds at most this part of the memory that is free when it is put up."""


class Shelf:
    """Maps by name: the digest of all that they are made of.

    Whatever was looked up or put longest ago goes first when the shelf is full.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = available_bytes() // SHARE if most is None else most
        self._kept: OrderedDict[tuple[str, bytes], Any] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def cell(self, name: bytes) -> Any:
        """The map of a cell, or None."""
        return self._find(("cell", name))

    def join(self, name: bytes) -> Any:
        """The map of a group of cells and what its right-hand sides need, or None."""
        return self._find(("join", name))

    def put_cell(self, name: bytes, found: Any) -> None:
        self._put(("cell", name), found)

    def put_join(self, name: bytes, joined: Any) -> None:
        self._put(("join", name), joined)

    def _find(self, key: tuple[str, bytes]) -> Any:
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key]

    def _put(self, key: tuple[str, bytes], value: Any) -> None:
        if key in self._kept:
            self._bytes -= _size(self._kept.pop(key))
        self._kept[key] = value
        self._bytes += _size(value)
        while self._bytes > self.most and self._kept:
            self._bytes -= _size(self._kept.popitem(last=False)[1])


def _size(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.nbytes
    return sum(_size(part) for part in value) if isinstance(value, tuple) else 0
