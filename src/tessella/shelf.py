"""What one solve of a refinement leaves for the next: subdomains that stay as they are."""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from tessella.domain import Array
from tessella.linalg.condensation import Condensed
from tessella.linalg.rrqr import RRQR
from tessella.memory import available_bytes

SHARE = 8
"""A shelf holds at most this part of the memory that is free when it is put up."""


class Finished(NamedTuple):
    """The block of a subdomain and its elimination under a filter."""

    block: Array
    rule: RRQR
    condensed: Condensed


class Shelf:
    """Finished subdomains by name: the digest of all that their rows are made of.

    Whatever was looked up or put longest ago goes first when the shelf is full.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = available_bytes() // SHARE if most is None else most
        self._finished: OrderedDict[bytes, Finished] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._finished)

    def find(self, name: bytes | None) -> Finished | None:
        if name is None or name not in self._finished:
            return None
        self._finished.move_to_end(name)
        return self._finished[name]

    def put(self, name: bytes, finished: Finished) -> None:
        if name in self._finished:
            self._bytes -= _size(self._finished.pop(name))
        self._finished[name] = finished
        self._bytes += _size(finished)
        while self._bytes > self.most and self._finished:
            self._bytes -= _size(self._finished.popitem(last=False)[1])


def _size(finished: Finished) -> int:
    condensed = finished.condensed
    arrays = [finished.block, condensed.R, condensed.C, condensed.z, condensed.triangle]
    if condensed.turns is not None:
        free, own, filtered, rest = condensed.turns
        arrays += [free[0], own[0], rest[0]]
        arrays += [] if filtered is None else [filtered]
    return sum(array.nbytes for array in arrays)
