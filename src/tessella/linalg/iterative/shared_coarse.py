"""The coarser levels of a matrix that several processes share, solved exactly.

Every row is looked at by one process, which first asks the others for their coarse blocks there.
Rows that meet the same blocks are turned into a triangle, which is what they say about coarse
unknowns; process 0 has the triangles of all and factors them. For a right-hand side each process
sends what its turned rows make of it, and gets back its own unknowns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tessella.linalg.block_matrix import Block, BlockMatrix, from_blocks
from tessella.linalg.direct.factorisation import Factorisation
from tessella.linalg.direct.nested_qr import NestedQR
from tessella.linalg.direct.wide import WideFactorisation
from tessella.linalg.shared_matrix import SharedMatrix
from tessella.linalg.vectors import Halo
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.machine.progress import Progress


class Turned(NamedTuple):
    """Rows here that meet the same blocks, and Q of their Q R; no Q if they are few enough."""

    rows: np.ndarray
    Q: Array | None

    def apply(self, b: Array) -> Array:
        return b[self.rows] if self.Q is None else self.Q.T @ b[self.rows]


@dataclass(frozen=True)
class SharedCoarse:
    """Least-squares solutions in the coarse columns; only process 0 has factors.

    columns  which of the columns here are coarse, of `size` in all
    starts   where those of each process begin among the coarse ones of all
    """

    turned: tuple[Turned, ...]
    columns: np.ndarray
    size: int
    starts: np.ndarray
    factors: Factorisation | WideFactorisation | None

    def solve(self, b: Array) -> tuple[Array, float]:
        """The unknowns of this process, zero in columns that are not coarse."""
        own = np.concatenate([np.zeros(0), *(one.apply(b) for one in self.turned)])
        others = range(1, processes.number())
        if self.factors is None:
            processes.send(0, "turned", own)
            return self._placed(processes.receive(0, "coarse")[0]), np.nan
        every = [own, *(processes.receive(q, "turned")[0] for q in others)]
        c, left = self.factors.solve(np.concatenate(every))
        for q in others:
            processes.send(q, "coarse", c[self.starts[q] : self.starts[q + 1]])
        return self._placed(c[: self.starts[1]]), left

    def _placed(self, c: Array) -> Array:
        found = np.zeros(self.size)
        found[self.columns] = c
        return found

    def bytes(self) -> int:
        """What all processes send for one right-hand side."""
        rows = (
            0
            if self.factors is not None
            else sum(len(one.rows) if one.Q is None else one.Q.shape[1] for one in self.turned)
        )
        sent = processes.total("turned", np.array([rows])).item()
        return 8 * int(sent + self.starts[-1] - self.starts[1])


def shared_coarse(C: SharedMatrix, progress: Progress | None = None) -> SharedCoarse:
    """Factor the coarse blocks of all processes."""
    turned, columns, starts, whole = _triangles(C)
    factors = None if whole is None else NestedQR().init(whole, progress)
    return SharedCoarse(tuple(turned), columns, C.shape[1], starts, factors)


def _triangles(
    C: SharedMatrix,
) -> tuple[list[Turned], np.ndarray, np.ndarray, BlockMatrix | None]:
    """The turned rows, the coarse columns here, where those of each process begin, and in process
    0 all triangles; the pieces they were made of are forgotten."""
    assert isinstance(C.vectors, Halo)
    every = list(C.own.blocks())
    full = [k for k, block in enumerate(every) if len(block.columns)]
    own, places = [every[k] for k in full], C.own.positions() if full else None
    places = None if places is None else places[full]
    none = np.zeros(0, dtype=np.int64)
    columns = np.unique(np.concatenate([none, *(block.columns for block in own)]))
    sizes = processes.gathered("columns", np.array([len(columns)]))
    starts = np.concatenate([[0], *sizes]).cumsum()
    first = starts[processes.index()]
    own = [b._replace(columns=first + np.searchsorted(columns, b.columns)) for b in own]
    turned, triangles = _turned(_classes(_met(own, C.vectors), C.shape[0]))
    firsts = np.array([block.columns[0] for block in own], dtype=np.float64)[:, None]
    del every, own
    return turned, columns, starts, _collected(triangles, firsts, places, int(starts[-1]))


Triangle = tuple[Array, list[np.ndarray]]
"""What rows say about coarse unknowns, and the columns of each block that they meet."""


def _turned(
    classes: list[tuple[np.ndarray, list[Block]]],
) -> tuple[list[Turned], list[Triangle]]:
    """Q and R of every class, which is forgotten."""
    turned, triangles = [], []
    while classes:
        rows, pieces = classes.pop()
        met = [piece.columns for piece in pieces]
        values = np.zeros((len(rows), sum(map(len, met))))
        ends = np.cumsum([len(one) for one in met])
        for piece, end in zip(pieces, ends, strict=True):
            at = np.searchsorted(rows, piece.rows)
            values[at, end - len(piece.columns) : end] = piece.values
        Q = None
        if len(values) > values.shape[1]:
            Q, values = np.linalg.qr(values)
        turned.append(Turned(rows, Q))
        triangles.append((values, met))
    return turned, triangles


def _met(own: list[Block], halo: Halo) -> list[Block]:
    """The parts of all processes' blocks at rows that count here."""
    me, counter = processes.index(), halo.counter
    place = np.zeros(len(counter), dtype=np.int64)
    for q, at in halo.places.items():
        theirs = counter[at] == q
        place[at[theirs]] = np.flatnonzero(theirs)
    found, sent = [], {}
    for q in (me, *halo.places):
        parts = [(block, counter[block.rows] == q) for block in own]
        pieces = [
            Block(block.values[here], block.rows[here], block.columns)
            for block, here in parts
            if here.any()
        ]
        if q == me:
            found += pieces
        else:
            sent[q] = _packed([piece._replace(rows=place[piece.rows]) for piece in pieces])
    numbers = processes.swapped("coarse places", {q: ints for q, (ints, _) in sent.items()})
    values = processes.swapped("coarse values", {q: floats for q, (_, floats) in sent.items()})
    for q in sorted(numbers):
        pieces = _unpacked(numbers[q], values[q])
        found += [piece._replace(rows=halo.places[q][piece.rows]) for piece in pieces]
    return found


def _packed(blocks: list[Block]) -> tuple[np.ndarray, Array]:
    """Blocks as one array of integers and one of numbers."""
    heads = [np.array([len(b.rows), len(b.columns)]) for b in blocks]
    parts = [part for b in blocks for part in (b.rows, b.columns)]
    ints = np.concatenate([[len(blocks)], *heads, *parts]).astype(np.int64)
    return ints, np.concatenate([np.zeros(0), *(b.values.ravel() for b in blocks)])


def _unpacked(ints: np.ndarray, values: Array) -> list[Block]:
    count, found = int(ints[0]), []
    heads, at, start = ints[1 : 1 + 2 * count].reshape(count, 2), 1 + 2 * count, 0
    for height, width in heads.tolist():
        rows, columns = ints[at : at + height], ints[at + height : at + height + width]
        block = values[start : start + height * width].reshape(height, width)
        found.append(Block(block, rows, columns))
        at, start = at + height + width, start + height * width
    return found


def _classes(pieces: list[Block], size: int) -> list[tuple[np.ndarray, list[Block]]]:
    """Rows that meet the same pieces, or some of those, with these restricted to them."""
    kind, names = _kinds(pieces, size)
    met: list[set[int]] = [set() for _ in range(names)]
    for k, piece in enumerate(pieces):
        for one in np.unique(kind[piece.rows]).tolist():
            met[one].add(k)
    kind = np.append(_homes(met), -1)[kind]
    parts: dict[int, list[Block]] = {}
    for piece in pieces:
        own = kind[piece.rows]
        for one in np.unique(own).tolist():
            here = np.flatnonzero(own == one)
            part = Block(piece.values[here], piece.rows[here], piece.columns)
            parts.setdefault(one, []).append(part)
    order = np.argsort(kind, kind="stable")
    starts = np.searchsorted(kind[order], range(names + 1))
    return [(order[starts[one] : starts[one + 1]], parts[one]) for one in sorted(parts)]


def _kinds(pieces: list[Block], size: int) -> tuple[np.ndarray, int]:
    """For every row a number that it has in common with those that meet the same pieces, -1 if it
    meets none; and how many there are. Told apart by a random 64-bit sum over their pieces."""
    keys = np.random.default_rng(0).integers(1, 2**64, size=len(pieces), dtype=np.uint64)
    total = np.zeros(size, dtype=np.uint64)
    for key, piece in zip(keys, pieces, strict=True):
        total[piece.rows] += key
    found, names = np.full(size, -1), 0
    if total.any():
        known, number = np.unique(total[total > 0], return_inverse=True)
        found[total > 0], names = number, len(known)
    return found, names


def _homes(met: list[set[int]]) -> np.ndarray:
    """To which set each joins: one that has all of it and most besides, or itself."""
    having: dict[int, set[int]] = {}
    for one, own in enumerate(met):
        for k in own:
            having.setdefault(k, set()).add(one)
    wider = [set.intersection(*(having[k] for k in own)) for own in met]
    return np.array([max(sorted(some), key=lambda c: len(met[c])) for some in wider], dtype=int)


def _collected(
    triangles: list[Triangle],
    firsts: Array,
    positions: Array | None,
    columns: int,
) -> BlockMatrix | None:
    """In process 0, all triangles as one matrix of coarse blocks."""
    pieces, row = [], 0
    for values, parts in triangles:
        at, rows = 0, np.arange(row, row + len(values))
        for part in parts:
            pieces.append(Block(values[:, at : at + len(part)], rows, part))
            at += len(part)
        row += len(values)
    ints, floats = _packed(pieces)
    places = np.zeros((0, 1)) if positions is None else np.concatenate([firsts, positions], axis=1)
    if processes.index():
        processes.send(0, "triangles", ints, floats, np.array([row]), places)
        return None
    every, known = [pieces], [places]
    for q in range(1, processes.number()):
        theirs, numbers, more, where = processes.receive(q, "triangles")
        every.append([b._replace(rows=b.rows + row) for b in _unpacked(theirs, numbers)])
        row += int(more[0])
        known.append(where)
    joined: dict[int, list[Block]] = {}
    for piece in (one for part in every for one in part):
        joined.setdefault(int(piece.columns[0]), []).append(piece)
    blocks = [
        Block(
            np.concatenate([b.values for b in parts]),
            np.concatenate([b.rows for b in parts]),
            parts[0].columns,
        )
        for parts in joined.values()
    ]
    found = {int(line[0]): line[1:] for part in known for line in part}
    at_all = all(first in found for first in joined)
    hint = np.array([found[first] for first in joined]) if at_all else None
    return from_blocks(blocks, (row, columns), hint)
