"""What the groups of a front make of what they take, and its ways to those that take it.

Where groups can be coloured like a chessboard, those of one colour give only to those of the other:
they make two sides, each with vectors of its own, and half of the unknowns determine the rest.
Otherwise there is one side, which gives to itself. Of several processes each has its own groups of
either, and tells its neighbours what theirs get.

A vector has what the groups of a side take, or what they give: stage by stage, and in each those
with the same map one after the other. Whatever is given at a face is taken once, so that the way
there and its transpose are look-ups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tessella.cells.maps.maps import Distinct, Maps
from tessella.cells.order.front import Front
from tessella.cells.order.stage import evenly
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.machine.threads import in_parallel

PIECE = 1 << 21
"""Bytes of maps and vectors that are multiplied at once: what a core has at hand."""

MANY = 1 << 23
"""Bytes of maps from which on other cores are woken."""


class Groups(NamedTuple):
    """Those of one stage, in the order of a vector: which members they are and which maps they
    have, ascending, and where their numbers are among those of all, taken (members, in) and given
    (members, out)."""

    stage: int
    members: np.ndarray
    which: np.ndarray
    taken: np.ndarray
    given: np.ndarray


class Piece(NamedTuple):
    """Some maps (matrices, out, in), and the parts of both vectors that belong to equally many
    groups with each."""

    T: Array
    taken: slice
    given: slice

    def times(self, x: Array, y: Array) -> None:
        """y = T x."""
        _times(self.T.transpose(0, 2, 1), x[self.taken], y[self.given])

    def times_back(self, y: Array, x: Array) -> None:
        """x = T^T y."""
        _times(self.T, y[self.given], x[self.taken])


def _times(matrices: Array, x: Array, y: Array) -> None:
    count, n, m = matrices.shape
    if not n:
        y[...] = 0.0
    elif m:
        np.matmul(x.reshape(count, -1, n), matrices, out=y.reshape(count, -1, m))


class Way(NamedTuple):
    """From one vector to another: who gets which numbers of the first, and where each number of the
    second comes from: from the first, from what others send (in their order), or from nowhere."""

    sent: dict[int, np.ndarray]
    sources: np.ndarray

    def go(self, x: Array) -> Array:
        """The second vector."""
        parts = [x]
        if not processes.alone():
            coming = processes.swapped("ways", {q: x[at] for q, at in self.sent.items()})
            parts += [coming[q] for q in sorted(coming)]
        return np.concatenate([*parts, np.zeros(1)]).take(self.sources)


@dataclass(frozen=True, eq=False)
class Side:
    """The groups of a side that this process has: their maps, the way from what they give to what
    the next side takes, and its transpose."""

    groups: tuple[Groups, ...]
    pieces: tuple[Piece, ...]
    forth: Way
    home: Way

    def times(self, x: Array) -> Array:
        """What these groups give, T x, by what they take."""
        y = np.empty(sum(own.given.size for own in self.groups))
        self._all(lambda piece: piece.times(x, y))
        return y

    def times_back(self, y: Array) -> Array:
        """T^T y."""
        x = np.empty(sum(own.taken.size for own in self.groups))
        self._all(lambda piece: piece.times_back(y, x))
        return x

    def _all(self, work: Callable[[Piece], None]) -> None:
        large = sum(piece.T.nbytes for piece in self.pieces) > MANY
        in_parallel(work, self.pieces, np.inf if large else 0.0)

    def vector(self, parts: Sequence[Array]) -> Array:
        """Their numbers (members, n) of every stage, one after the other."""
        own = [parts[some.stage][some.members].ravel() for some in self.groups]
        return np.concatenate([np.zeros(0), *own])

    def put(self, x: Array, parts: Sequence[Array]) -> None:
        """The other way."""
        start = 0
        for some in self.groups:
            room = parts[some.stage]
            shape = len(some.members), room.shape[1]
            end = start + shape[0] * shape[1]
            room[some.members] = x[start:end].reshape(shape)
            start = end


def sides(front: Front, maps: Sequence[Maps | None], distinct: Sequence[Distinct]) -> list[Side]:
    """Those of this process: two that give to each other, or one."""
    me, colours = processes.index(), front.colours
    by, to = (np.append(front.owners, -1)[own] for own in (front.giver, front.taker))
    of = np.append(colours, -1)[front.giver]
    groups = [_groups(front, distinct, k) for k in range(int(colours.max(initial=0)) + 1)]
    found = []
    for k, own in enumerate(groups):
        given = _places([some.given for some in own])
        taken = _places([some.taken for some in groups[(k + 1) % len(groups)]])
        givers, takers = (np.where(of == k, ends, -1) for ends in (by, to))
        forth = _way(given, taken, givers, takers, me)
        home = _way(taken, given, takers, givers, me)
        found.append(Side(tuple(own), tuple(_pieces(own, maps)), forth, home))
    return found


def _groups(front: Front, distinct: Sequence[Distinct], colour: int) -> list[Groups]:
    """Those of a colour that this process has."""
    found = []
    for i, members in front.members.items():
        if front.order.stages[i].owner != processes.index():
            continue
        own = np.flatnonzero(front.colours_of[i] == colour)
        own = own[np.argsort(distinct[i].which[members[own]], kind="stable")]
        if len(own):
            which, (taken, given) = distinct[i].which[members[own]], front.ends[i]
            found.append(Groups(i, members[own], which, taken[own], given[own]))
    return found


def _pieces(groups: Sequence[Groups], maps: Sequence[Maps | None]) -> list[Piece]:
    """Maps of equally many groups together, a few at a time; those of very many groups again and
    again."""
    found: list[Piece] = []
    starts = np.zeros(2, dtype=np.int64)
    for own in groups:
        stage = maps[own.stage]
        assert stage is not None
        widths = np.array([own.taken.shape[1], own.given.shape[1]])
        which, first, each = np.unique(own.which, return_index=True, return_counts=True)
        first = np.append(first, len(own.which))
        for some in _alike(which, each, stage.T[0].nbytes):
            begin, end = int(first[some.start]), int(first[some.stop])
            T, most = stage.T[evenly(which[some])], end - begin
            if len(T) == 1:
                most = max(1, PIECE // max(8 * int(widths.sum()), 1))
            for a, b in pairwise([*range(begin, end, most), end]):
                taken, given = (
                    slice(int(start + a * width), int(start + b * width))
                    for start, width in zip(starts, widths, strict=True)
                )
                found.append(Piece(T, taken, given))
        starts += widths * len(own.which)
    return found


def _alike(which: np.ndarray, each: np.ndarray, size: int) -> list[slice]:
    """Neighbours among ascending numbers that are evenly apart and occur equally often, at most so
    many that matrices of that size are at hand."""
    most, found = max(1, PIECE // max(size, 1)), []
    steps, start = np.diff(which).tolist(), 0
    for i, step in enumerate([*steps, 0]):
        even = i == start or step == steps[i - 1]
        if not (even and step and each[i] == each[i + 1] and i + 1 - start < most):
            found.append(slice(start, i + 1))
            start = i + 1
    return found


def _places(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, dtype=np.int64), *(own.ravel() for own in parts)])


def _way(first: np.ndarray, second: np.ndarray, by: np.ndarray, to: np.ndarray, me: int) -> Way:
    """Between vectors whose numbers have these places among those of all, which processes have
    there and there."""
    at = np.full(len(by), -1)
    at[first] = np.arange(len(first))
    leaving, coming = np.flatnonzero(by == me), np.flatnonzero(to == me)
    others = {*to[leaving].tolist(), *by[coming].tolist()} - {-1, me}
    sent, count = {}, len(first)
    for q in sorted(others):
        sent[q] = at[leaving[to[leaving] == q]]
        there = coming[by[coming] == q]
        at[there] = count + np.arange(len(there))
        count += len(there)
    sources = at[second]
    return Way(sent, np.where(sources < 0, count, sources))
