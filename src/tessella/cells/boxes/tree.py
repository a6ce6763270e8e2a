"""Boxes split in 2^d parts, again and again: which boxes are left, and which of them touch.

A cell is (level, index...): its place in the grid that has 2^level times as many cells along every
axis as the roots. A tree is the set of cells that are split; the others, its leaves, cover the
domain. Leaves that share a face are at most one level apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from tessella.overlap.decomposition import Index

Cell = tuple[int, ...]

WHOLE = 0
"""The part of a cell's face that touches a neighbour no smaller than the cell; parts that touch
smaller ones count from 1, last axis fastest."""


class Roots(NamedTuple):
    """How many cells of level 0 there are along every axis, and along which it closes on itself."""

    counts: tuple[int, ...]
    wraps: tuple[bool, ...]

    def beside(self, cell: Cell, axis: int, step: int) -> Cell | None:
        """The cell of the same level on the other side of a face; None beyond the domain."""
        level, index = cell[0], list(cell[1:])
        end = self.counts[axis] << level
        index[axis] += step
        if self.wraps[axis]:
            index[axis] %= end
        return (level, *index) if 0 <= index[axis] < end else None


class Leaves(NamedTuple):
    """Levels (J,) and places (J, d) of all leaves: roots in order, last axis fastest, and children
    likewise in the place of their parent."""

    level: Index
    place: Index


class Touching(NamedTuple):
    """Leaves on both sides of all faces across one axis, and the parts of theirs that they share:
    at least one of the two is whole."""

    below: Index
    above: Index
    part_below: Index
    part_above: Index


def children(cell: Cell) -> list[Cell]:
    level, index = cell[0], cell[1:]
    return [
        (level + 1, *(2 * i + b for i, b in zip(index, bits, strict=True)))
        for bits in itertools.product((0, 1), repeat=len(index))
    ]


def parent(cell: Cell) -> Cell:
    return (cell[0] - 1, *(i >> 1 for i in cell[1:]))


def leaves(roots: Roots, splits: frozenset[Cell]) -> Leaves:
    def below(cell: Cell) -> Iterator[Cell]:
        if cell not in splits:
            yield cell
        else:
            for child in children(cell):
                yield from below(child)

    starts = itertools.product(*(range(n) for n in roots.counts))
    found = np.array([leaf for start in starts for leaf in below((0, *start))], dtype=np.int64)
    return Leaves(found[:, 0], found[:, 1:])


def balanced(roots: Roots, splits: frozenset[Cell], more: Iterable[Cell]) -> frozenset[Cell]:
    """`splits` and more of them, and those that keep neighbours at most one level apart."""
    found, waiting = set(splits), list(more)
    while waiting:
        cell = waiting.pop()
        if cell in found:
            continue
        found.add(cell)
        if cell[0] == 0:
            continue
        waiting.append(parent(cell))
        for axis, step in itertools.product(range(len(cell) - 1), (-1, 1)):
            beside = roots.beside(cell, axis, step)
            if beside is not None:
                waiting.append(parent(beside))
    return frozenset(found)


def touching(roots: Roots, every: Leaves) -> list[Touching]:
    """All interior faces, axis by axis; of leaves of different size, each face of the smaller."""
    cells = [tuple(cell) for cell in np.column_stack([every.level, every.place]).tolist()]
    number = {cell: j for j, cell in enumerate(cells)}
    found = []
    for axis in range(len(roots.counts)):
        pairs: list[tuple[int, int, int, int]] = []
        for j, cell in enumerate(cells):
            part = _part(cell, axis)
            above, below = roots.beside(cell, axis, 1), roots.beside(cell, axis, -1)
            if above in number:
                pairs.append((j, number[above], WHOLE, WHOLE))
            elif above is not None and above[0] and parent(above) in number:
                pairs.append((j, number[parent(above)], WHOLE, part))
            if below is not None and below[0] and below not in number and parent(below) in number:
                pairs.append((number[parent(below)], j, part, WHOLE))
        found.append(Touching(*np.array(pairs, dtype=np.int64).reshape(-1, 4).T))
    return found


def _part(cell: Cell, axis: int) -> int:
    """Which part of a larger neighbour's face across an axis a cell touches."""
    part = 0
    for i, index in enumerate(cell[1:]):
        if i != axis:
            part = 2 * part + (index & 1)
    return 1 + part


def parts(dimension: int) -> range:
    """The parts of a face that smaller neighbours touch."""
    return range(1, 1 + 2 ** (dimension - 1))


def middle(part: int, dimension: int) -> np.ndarray:
    """The centre of a part in the coordinates [-1, 1]^(d-1) of the face; it is half as wide."""
    if part == WHOLE:
        return np.zeros(dimension - 1)
    bits = [(part - 1) >> (dimension - 2 - i) & 1 for i in range(dimension - 1)]
    return np.array(bits) - 0.5
