"""A dense row in a block-sparse matrix, as a tree of partial sums.

A row q . a = value that touches every column would make every block the neighbour of every other.
Instead each block b gets an unknown t_b with the row q_b . a_b - t_b = 0, and the t_b are added up
along a tree of near blocks: every node asks that its children's sums add up to its own, the root
that they add up to the value. Every row then touches few near blocks, which a direct solver can
dissect, and the tree is so shallow that an iteration passes through it in few steps.

With all these rows scaled by s, what the row misses is spread over the n of them evenly: they weigh
s^2 / n on (q . a - value)^2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tessella.linalg.block_matrix import BlockMatrix, Group
from tessella.machine.arrays import Array, on_device

FANOUT = 4
"""Most numbers that one node adds up."""


class Sums(NamedTuple):
    """How to add up n numbers: item i < n is a number, the others are nodes, the last the root.

    `parent[i]` is the node that adds item i, -1 for the root; `positions` are those of all items.
    """

    leaves: int
    parent: np.ndarray
    positions: Array

    @property
    def rows(self) -> int:
        """One to define each number, and one for each node."""
        return len(self.parent)


def partial_sums(positions: Array) -> Sums:
    """A tree over numbers with these places (n, d); near ones are added first."""
    n = len(positions)
    parent = [-1] * n
    places = list(positions)

    def add(members: np.ndarray) -> int:
        if len(members) <= FANOUT:
            children = members.tolist()
        else:
            x = positions[members]
            order = members[np.argsort(x[:, np.argmax(np.ptp(x, axis=0))], kind="stable")]
            children = [add(half) for half in np.array_split(order, 2)]
        parent.append(-1)
        places.append(positions[members].mean(axis=0))
        for child in children:
            parent[child] = len(parent) - 1
        return len(parent) - 1

    add(np.arange(n))
    return Sums(n, np.array(parent), np.array(places))


def add_dense_rows(M: BlockMatrix, dense: Sequence[Array], scales: Sequence[float]) -> BlockMatrix:
    """M with these rows q (one number per column) below it, each as a tree of partial sums.

    The rows of each tree are those of its leaves, block by block, then those of its nodes; the last
    one is where s * value belongs on the right-hand side. The new columns follow those of M.
    """
    tree = partial_sums(block_places(M))
    m, n = M.shape
    groups, first = [], 0
    for g in M.groups:
        starts = [m + k * tree.rows + first for k in range(len(dense))]
        groups.append(_with_rows(g, dense, scales, starts))
        first += len(g.heights)
    level = max((g.level for g in M.groups), default=0) + 1
    sums = np.arange(tree.rows - 1)  # the root's is known
    for k, scale in enumerate(scales):
        rows = m + k * tree.rows + np.stack([sums, tree.parent[:-1]], axis=1)
        groups.append(
            Group(
                on_device(np.tile([-scale, scale], (len(sums), 1, 1))),
                on_device(rows.astype(np.int32)),
                on_device((n + k * len(sums) + sums)[:, None].astype(np.int32)),
                np.full(len(sums), 2),
                np.ones(len(sums), dtype=np.int64),
                tree.positions[:-1],
                level,
                coarse=True,
            )
        )
    shape = (m + len(dense) * tree.rows, n + len(dense) * len(sums))
    return BlockMatrix(tuple(groups), shape)


def block_places(M: BlockMatrix) -> Array:
    """Positions of the blocks; their order stands in where none are known."""
    known = M.positions()
    count = sum(len(g.heights) for g in M.groups)
    return np.arange(count, dtype=np.float64)[:, None] if known is None else known


def _with_rows(
    g: Group, dense: Sequence[Array], scales: Sequence[float], starts: Sequence[int]
) -> Group:
    """The blocks with one more row for each dense row, numbered from `starts` on."""
    B, C = g.columns.shape
    columns, blocks = np.asarray(g.columns), np.arange(B)
    filled = np.arange(C) < g.widths[:, None]
    values = np.concatenate([np.asarray(g.values), np.zeros((B, C, len(dense)))], axis=2)
    rows = np.concatenate([np.asarray(g.rows), np.zeros((B, len(dense)), dtype=np.int32)], axis=1)
    for k, (q, scale, start) in enumerate(zip(dense, scales, starts, strict=True)):
        values[blocks, :, g.heights + k] = np.where(filled, scale * q[columns], 0.0)
        rows[blocks, g.heights + k] = start + blocks
    return g._replace(
        values=on_device(values), rows=on_device(rows), heights=g.heights + len(dense)
    )
