"""The symbolic half of NestedQR: which rows and columns meet in which front."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.direct.dissection import Node, block_graph, dissect, postorder
from tessella.machine.printing import counted

FLOPS_PER_SECOND = 4e10
"""Speed assumed in the time estimate, as measured on two cores; only the order matters."""


class Piece(NamedTuple):
    """Some rows of one block inside a front: front[rows, offset:...] = block[block_rows]."""

    block: int
    block_rows: np.ndarray
    rows: np.ndarray
    offset: int


@dataclass(frozen=True)
class Front:
    """One tree node: its rows of the matrix, its columns (own ones first), its children, and which
    of its columns those leave to it."""

    rows: np.ndarray
    columns: np.ndarray
    own: int
    pieces: tuple[Piece, ...]
    children: tuple[int, ...]
    into: tuple[np.ndarray, ...]
    level: int
    shape: tuple[int, int]

    @cached_property
    def begins(self) -> np.ndarray:
        """The first column that each of its rows touches."""
        found = np.full(len(self.rows), len(self.columns))
        for piece in self.pieces:
            found[piece.rows] = np.minimum(found[piece.rows], piece.offset)
        return found

    @property
    def flops(self) -> float:
        m, n = self.shape
        k = min(m, n)
        return 4.0 * m * n * k - 2.0 * (m + n) * k**2 + 4 / 3 * k**3


@dataclass(frozen=True, repr=False)
class Elimination:
    """All fronts in the order of elimination, children before parents, the root last.

    `untouched` are the rows that no block reaches: pure residual.
    """

    shape: tuple[int, int]
    fronts: tuple[Front, ...]
    untouched: np.ndarray

    @cached_property
    def levels(self) -> list[list[int]]:
        """Fronts by level, deepest first; the fronts of a level do not depend on each other."""
        deepest = max((f.level for f in self.fronts), default=-1)
        found: list[list[int]] = [[] for _ in range(deepest + 1)]
        for i, front in enumerate(self.fronts):
            found[deepest - front.level].append(i)
        return found

    @property
    def flops(self) -> float:
        return sum(f.flops for f in self.fronts)

    @property
    def bytes(self) -> int:
        """Memory for the factors, with the largest front twice while it is being made."""
        sizes = [8 * m * n for m, n in (f.shape for f in self.fronts)]
        return sum(sizes) + max(sizes, default=0)

    @property
    def largest(self) -> int:
        return max((f.shape[1] for f in self.fronts), default=0)

    @property
    def seconds(self) -> float:
        """Rough time of the numeric factorisation."""
        return self.flops / FLOPS_PER_SECOND + 2e-4 * len(self.fronts)

    def __repr__(self) -> str:
        return (
            f"{counted(len(self.fronts), 'front')}, largest {self.largest:,} columns, "
            f"{self.flops / 1e9:.3g} GFLOP, {self.bytes / 2**30:.2g} GiB, "
            f"about {self.seconds:.2g} s"
        )


def eliminate(A: BlockMatrix, leaf: int) -> Elimination:
    """Order the blocks by nested dissection and lay out the fronts."""
    row_lists, column_lists = A.pattern()
    widths = np.array([len(c) for c in column_lists])
    if np.bincount(np.concatenate(column_lists), minlength=A.shape[1]).max(initial=0) > 1:
        raise ValueError("NestedQR needs every column in one block only")
    graph = block_graph(row_lists, A.shape[0])
    nodes = postorder(dissect(graph, widths, A.positions(), leaf))
    order = _ordered(nodes, len(widths))
    home = order.home(row_lists, A.shape[0])
    node_rows = _group(home, len(nodes))
    parts = _parts(row_lists, home, node_rows)

    number = {id(node): i for i, node in enumerate(nodes)}
    fronts: list[Front] = []
    beyond: list[np.ndarray] = []  # blocks of ancestors in each front, in elimination order
    handed: list[int] = []
    for i, node in enumerate(nodes):
        children = tuple(number[id(c)] for c in node.children)
        met = [np.array([p.block for p in parts[i]], dtype=np.int64)]
        others = order.beyond(i, np.concatenate([*met, *(beyond[k] for k in children)]))
        blocks = np.concatenate([node.blocks, others])
        ends = np.cumsum(widths[blocks], dtype=np.int64)
        start = dict(zip(blocks.tolist(), (ends - widths[blocks]).tolist(), strict=True))
        columns = _join([column_lists[b] for b in blocks])
        own = int(widths[node.blocks].sum())
        m = len(node_rows[i]) + sum(handed[k] for k in children)
        fronts.append(
            Front(
                node_rows[i],
                columns,
                own,
                tuple(part._replace(offset=start[part.block]) for part in parts[i]),
                children,
                tuple(
                    _join([start[b] + np.arange(widths[b]) for b in beyond[k]]) for k in children
                ),
                node.level,
                (m, len(columns)),
            )
        )
        beyond.append(others)
        handed.append(min(m, len(columns)) - min(m, own))
    return Elimination(A.shape, tuple(fronts), np.flatnonzero(home < 0))


class _Order(NamedTuple):
    """The node that owns each block, its place in the order of elimination, and that order."""

    owner: np.ndarray
    rank: np.ndarray
    by_rank: np.ndarray

    def home(self, row_lists: list[np.ndarray], n_rows: int) -> np.ndarray:
        """The node of every row, -1 of none: whose is the first of its blocks to be eliminated."""
        n_blocks = len(self.rank)
        first = np.full(n_rows, n_blocks)
        np.minimum.at(first, _join(row_lists), np.repeat(self.rank, [len(r) for r in row_lists]))
        return np.append(self.owner[self.by_rank], -1)[first]

    def beyond(self, node: int, blocks: np.ndarray) -> np.ndarray:
        """Those of the blocks that other nodes own, each once, in the order of elimination."""
        others = self.by_rank[np.unique(self.rank[blocks])]
        return others[self.owner[others] != node]


def _ordered(nodes: list[Node], n_blocks: int) -> _Order:
    owner, rank = np.zeros((2, n_blocks), dtype=np.int64)
    by_rank = _join([node.blocks for node in nodes])
    owner[by_rank] = np.repeat(np.arange(len(nodes)), [len(node.blocks) for node in nodes])
    rank[by_rank] = np.arange(n_blocks)
    return _Order(owner, rank, by_rank)


def _parts(
    row_lists: list[np.ndarray], home: np.ndarray, node_rows: list[np.ndarray]
) -> list[list[Piece]]:
    """What every node takes of every block: runs of equal (block, node), a block's rows in order.

    Where the block's columns lie in the front is not known yet.
    """
    place = np.zeros(len(home), dtype=np.int64)
    for own_rows in node_rows:
        place[own_rows] = np.arange(len(own_rows))
    sizes = [len(rows) for rows in row_lists]
    block, rows = np.repeat(np.arange(len(sizes)), sizes), _join(row_lists)
    within = np.arange(len(rows)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    order = np.lexsort((home[rows], block))
    at, block, within, places = (x[order] for x in (home[rows], block, within, place[rows]))
    edges = np.flatnonzero(np.diff(at, prepend=-1) | np.diff(block, prepend=-1))
    parts: list[list[Piece]] = [[] for _ in node_rows]
    for a, b in pairwise([*edges.tolist(), len(at)]):
        parts[at[a]].append(Piece(int(block[a]), within[a:b], places[a:b], 0))
    return parts


def _group(keys: np.ndarray, count: int) -> list[np.ndarray]:
    """Indices with key 0, 1, ..., count - 1."""
    order = np.argsort(keys, kind="stable")
    edges = np.searchsorted(keys[order], np.arange(count + 1))
    return [order[a:b] for a, b in pairwise(edges)]


def _join(arrays: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(arrays) if arrays else np.zeros(0, dtype=np.int64)
