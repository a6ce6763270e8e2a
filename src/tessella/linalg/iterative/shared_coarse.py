"""The coarser levels of a matrix that several processes share, solved exactly.

Every row is looked at by one process, which first asks the others for their coarse blocks there.
Rows that meet the same blocks are turned into a triangle, which is what they say about coarse
unknowns; process 0 has the triangles of all and factors them. For a right-hand side each process
sends what its turned rows make of it, and gets back its own unknowns.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
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
    """Least-squares solutions in the coarse columns; only process 0 has factors."""

    turned: tuple[Turned, ...]
    starts: np.ndarray
    factors: Factorisation | WideFactorisation | None

    def solve(self, b: Array) -> tuple[Array, float]:
        """The unknowns of this process, zero in columns that are not coarse."""
        own = np.concatenate([np.zeros(0), *(one.apply(b) for one in self.turned)])
        others = range(1, processes.number())
        if self.factors is None:
            processes.send(0, "turned", own)
            return processes.receive(0, "coarse")[0], np.nan
        every = [own, *(processes.receive(q, "turned")[0] for q in others)]
        c, left = self.factors.solve(np.concatenate(every))
        for q in others:
            processes.send(q, "coarse", c[self.starts[q] : self.starts[q + 1]])
        return c[: self.starts[1]], left

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
    sizes = processes.gathered("columns", np.array([C.shape[1]]))
    starts = np.concatenate([[0], *sizes]).cumsum()
    first = starts[processes.index()]
    own = [block._replace(columns=block.columns + first) for block in C.own.blocks()]
    places = C.own.positions() if own else None
    full = [k for k, block in enumerate(own) if len(block.columns)]
    own, places = [own[k] for k in full], None if places is None else places[full]
    assert isinstance(C.vectors, Halo)
    classes = _classes(_met(own, C.vectors), C.shape[0])
    turned, triangles = [], []
    for rows, pieces in classes:
        values = np.concatenate([piece.values for piece in pieces], axis=1)
        columns = [piece.columns for piece in pieces]
        Q = None
        if len(values) > values.shape[1]:
            Q, values = np.linalg.qr(values)
        turned.append(Turned(rows, Q))
        triangles.append((values, columns))
    whole = _collected(triangles, own, places, int(starts[-1]))
    factors = None if whole is None else NestedQR().init(whole, progress)
    return SharedCoarse(tuple(turned), starts, factors)


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
    """Rows that meet the same pieces, with these restricted to them."""
    keys = np.random.default_rng(0).integers(1, 2**64, size=len(pieces), dtype=np.uint64)
    kind = np.zeros(size, dtype=np.uint64)
    for key, piece in zip(keys, pieces, strict=True):
        kind[piece.rows] += key
    met = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *(p.rows for p in pieces)]))
    names, number = np.unique(kind[met], return_inverse=True)
    order = np.argsort(number, kind="stable")
    ends = np.concatenate([[0], np.cumsum(np.bincount(number, minlength=len(names)))])
    members = [met[order[start:end]] for start, end in pairwise(ends)]
    of_row = np.zeros(size, dtype=np.int64)
    of_row[met] = number
    parts: list[list[Block]] = [[] for _ in names]
    for piece in pieces:
        own = of_row[piece.rows]
        for one in np.unique(own).tolist():
            here = np.flatnonzero(own == one)
            here = here[np.argsort(piece.rows[here])]
            parts[one].append(Block(piece.values[here], piece.rows[here], piece.columns))
    return list(zip(members, parts, strict=True))


def _collected(
    triangles: list[tuple[Array, list[np.ndarray]]],
    own: list[Block],
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
    firsts = np.array([block.columns[0] for block in own], dtype=np.float64)[:, None]
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
