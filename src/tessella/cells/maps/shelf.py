"""What one solve of a refinement leaves for the next: maps of cells and of groups of cells."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

import numpy as np

from tessella.machine.arrays import Array
from tessella.machine.memory import available_bytes

if TYPE_CHECKING:
    from tessella.cells.maps.family import Factor
    from tessella.cells.maps.pivoted import Fit

SHARE = 8
"""A shelf holds at most this part of the memory that is free when it is put up."""


class Shelf:
    """Maps by name: the digest of all that they are made of. Nothing is kept without a name.

    Whatever was looked up or put longest ago goes first when the shelf is full.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = available_bytes() // SHARE if most is None else most
        self._kept: OrderedDict[tuple[str, bytes], tuple[object, ...]] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def cell(self, name: bytes) -> Factor | Fit | None:
        """The map of a cell."""
        return self._find(("cell", name))  # type: ignore[return-value]

    def join(self, name: bytes) -> tuple[Array, ...] | None:
        """The map of a group of cells and what its right-hand sides need."""
        return self._find(("join", name))  # type: ignore[return-value]

    def put_cell(self, name: bytes, found: Factor | Fit) -> None:
        self._put(("cell", name), found)

    def put_join(self, name: bytes, joined: tuple[Array, ...]) -> None:
        self._put(("join", name), joined)

    def _find(self, key: tuple[str, bytes]) -> tuple[object, ...] | None:
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key]

    def _put(self, key: tuple[str, bytes], value: tuple[object, ...]) -> None:
        if not key[1]:
            return
        if key in self._kept:
            self._bytes -= size_in_bytes(self._kept.pop(key))
        self._kept[key] = value
        self._bytes += size_in_bytes(value)
        while self._bytes > self.most and self._kept:
            self._bytes -= size_in_bytes(self._kept.popitem(last=False)[1])


def size_in_bytes(value: object) -> int:
    """Of all arrays in a tuple of arrays and tuples."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    return sum(map(size_in_bytes, value)) if isinstance(value, tuple) else 0
