"""Maps of many cells, or groups of cells, and which of them are equal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tessella.cells.order.order import Order
from tessella.machine import processes
from tessella.machine.arrays import Array


def times_all(x: Array, matrix: Array) -> Array:
    """x @ matrix for x (..., n), as one product."""
    if x.ndim == 2:
        return np.asarray(x @ matrix)
    return np.asarray(flat(x) @ matrix).reshape(*x.shape[:-1], matrix.shape[1])


def flat(x: Array) -> Array:
    """All vectors of x (..., n) one below the other."""
    return x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


class Maps(NamedTuple):
    """T (distinct, out, in) of the members of a stage that differ, the rows of sums E (distinct,
    sums, in), and their names, if somebody looks for them."""

    T: Array
    E: Array
    names: tuple[bytes, ...]


@dataclass(frozen=True, eq=False)
class Sharing:
    """Of many members, which of `count` distinct matrices each has."""

    which: np.ndarray
    count: int

    @cached_property
    def _order(self) -> np.ndarray:
        """The members by their matrices."""
        return np.argsort(self.which, kind="stable")

    @cached_property
    def _evenly(self) -> bool:
        """Whether members come matrix by matrix, of each equally many."""
        each = np.repeat(np.arange(self.count), len(self.which) // max(self.count, 1))
        return np.array_equal(self.which, each)

    @cached_property
    def _members(self) -> list[np.ndarray]:
        """Of every matrix, whose it is."""
        starts = np.searchsorted(self.which[self._order], np.arange(1, self.count))
        return np.split(self._order, starts)

    def times(self, matrices: Array, x: Array) -> Array:
        """matrices[which[i]] @ x[i] for all members i, x (members, n), or (members, k, n) for
        several right-hand sides."""
        if self.count == 1:
            return times_all(x, matrices[0].T)
        if self._evenly:
            return self._in_order(matrices, x)
        if self.count == len(x):
            return self._in_order(matrices, x[self._order])[self.which]
        found = np.empty((*x.shape[:-1], matrices.shape[1]))
        for matrix, own in zip(matrices, self._members, strict=True):
            found[own] = times_all(x[own], matrix.T)
        return found

    def _in_order(self, matrices: Array, x: Array) -> Array:
        """The same if members come matrix by matrix, of each equally many: as one product."""
        own = x.reshape(self.count, math.prod(x.shape[:-1]) // self.count, x.shape[-1])
        found = np.matmul(own, matrices.transpose(0, 2, 1))
        return found.reshape(*x.shape[:-1], matrices.shape[1])


@dataclass(frozen=True, eq=False)
class Distinct(Sharing):
    """Of a stage's members, which have the same numbers; those that differ are pairs (count, 2) of
    distinct members of both children."""

    pairs: np.ndarray


def distinct_members(order: Order, leaves: Sequence[np.ndarray | None]) -> tuple[Distinct, ...]:
    """Of all stages, given that of the single cells; the same ones as last time for the same."""
    key = processes.index(), *(None if own is None else own.tobytes() for own in leaves)
    found: tuple[Distinct, ...] | None = order.known.get(key)
    if found is None:
        found = tuple(_distinct_members(order, leaves))
        order.known.clear()
        order.known[key] = found
    return found


def _distinct_members(order: Order, leaves: Sequence[np.ndarray | None]) -> list[Distinct]:
    found: list[Distinct] = []
    for stage, own in zip(order.stages, leaves, strict=True):
        if stage.owner != processes.index():
            found.append(_one(stage.count))
            continue
        if own is not None:
            count = int(own.max()) + 1
            found.append(Distinct(own, count, np.zeros((count, 2), dtype=np.int64)))
            continue
        left, right = found[stage.left].which, found[stage.right].which
        known: dict[tuple[int, int], int] = {}
        a, b = stage.pairs.T
        keys = zip(left[a].tolist(), right[b].tolist(), strict=True)
        which = np.array([known.setdefault(key, len(known)) for key in keys])
        found.append(Distinct(which, len(known), np.array(list(known))))
    return found


def _one(count: int) -> Distinct:
    """Of members of another process: those that are handed over are alone."""
    return Distinct(np.zeros(count, dtype=np.int64), 1, np.zeros((1, 2), dtype=np.int64))


def runs(numbers: Sequence[int], most: int) -> list[slice]:
    """Neighbouring ones of ascending numbers together, at most so many."""
    found: list[slice] = []
    for i in numbers:
        if found and found[-1].stop == i and i - found[-1].start < most:
            found[-1] = slice(found[-1].start, i + 1)
        else:
            found.append(slice(i, i + 1))
    return found


def gathered_outputs(order: Order, outs: Sequence[Array | None]) -> Array:
    """What all cells give, where others take it: a vector, or one for every right-hand side,
    (k, size)."""
    several = next((own.shape[1:-1] for own in outs if own is not None), ())
    found = np.zeros((*several, order.size))
    for place, own in zip(order.given, outs, strict=True):
        if place is not None and own is not None:
            put(found, place, own)
    return found


def put(x: Array, place: np.ndarray, own: Array) -> None:
    """Numbers of members (members, n), or (members, k, n), into a vector, or (k, size)."""
    x[..., place] = own if own.ndim == 2 else own.swapaxes(0, 1)


def taken_from(x: Array, place: np.ndarray) -> Array:
    """The other way."""
    found = x[..., place]
    return found if x.ndim == 1 else np.ascontiguousarray(found.swapaxes(0, 1))
