"""A^T A in blocks: only for solvers on the normal equations, and only when they ask.

Two blocks are neighbours when they share a row; A^T A couples neighbours and nothing else. Block
column k of A^T A is stored as one block whose rows are all columns that k's neighbours own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import scipy.sparse

from tessella.linalg.block_matrix import Block, BlockMatrix, from_blocks
from tessella.machine.arrays import Array
from tessella.machine.memory import require

Index = np.ndarray

DENSE_GAIN = 40
"""How much faster a product of dense matrices makes one multiplication than a sparse one."""


@dataclass(frozen=True)
class Pattern:
    """Which rows and columns every block has, without padding, and which blocks are neighbours.

    Only blocks with columns are listed; a block without rows is its own only neighbour.
    """

    rows: list[Index]
    columns: list[Index]
    neighbours: list[Index]
    size: int

    @property
    def widths(self) -> Index:
        return np.array([len(c) for c in self.columns], dtype=np.int64)

    def reach(self, groups: Sequence[Index]) -> list[Index]:
        """The columns, sorted, that each group of blocks owns together."""
        return [np.sort(np.concatenate([self.columns[k] for k in group])) for group in groups]


def pattern(A: BlockMatrix) -> Pattern:
    """The pattern of A from its row and column numbers alone; refuses columns with two owners."""
    rows, columns = [], []
    for g in A.groups:
        at_rows, at_columns = np.asarray(g.rows), np.asarray(g.columns)
        for b, (height, width) in enumerate(zip(g.heights, g.widths, strict=True)):
            if width:
                rows.append(at_rows[b, :height])
                columns.append(at_columns[b, :width])
    owned = np.concatenate(columns) if columns else np.zeros(0, dtype=np.int64)
    times = np.bincount(owned, minlength=A.shape[1])
    if times.max(initial=0) > 1:
        raise ValueError(
            f"column {int(np.argmax(times))} of the matrix lies in {int(times.max())} blocks: the "
            f"normal equations are blocked by columns, each with one owner; use LSQR or LSMR"
        )
    return Pattern(rows, columns, _sharing(rows, A.shape[0]), A.shape[1])


def second_neighbours(p: Pattern) -> list[Index]:
    """Blocks that share a neighbour: what a sum over neighbourhoods couples."""
    return _sharing(p.neighbours, len(p.neighbours))


def _sharing(members: Sequence[Index], size: int) -> list[Index]:
    """For every set of numbers below `size`: itself and the sets it has a number in common with."""
    # Numbers that lie in the same sets say the same thing twice: keep one of each kind, told apart
    # by a random 64-bit sum over their sets.
    count = len(members)
    keys = np.random.default_rng(0).integers(1, 2**64, size=count, dtype=np.uint64)
    kind = np.zeros(size, dtype=np.uint64)
    for key, own in zip(keys, members, strict=True):
        kind[own] += key
    _, first = np.unique(kind, return_index=True)
    renamed = np.full(size, -1)
    renamed[first] = np.arange(len(first))
    kept = [own[own >= 0] for own in (renamed[own] for own in members)]

    ends = np.concatenate([[0], np.cumsum([len(own) for own in kept], dtype=np.int64)])
    where = np.concatenate([*kept, np.zeros(0, dtype=np.int64)])
    ones = np.ones(len(where), dtype=np.float32)
    touch = scipy.sparse.csr_array((ones, where, ends), shape=(count, len(first)))
    per_number = touch.sum(axis=0)
    if float(per_number @ per_number) * DENSE_GAIN > count**2 * len(first):
        dense = touch.toarray()
        common = scipy.sparse.csr_array(dense @ dense.T)
    else:
        common = scipy.sparse.csr_array(touch @ touch.T)
    both = scipy.sparse.csr_array(common + scipy.sparse.eye_array(count, dtype=np.float32))
    both.sort_indices()
    return [both.indices[a:b] for a, b in pairwise(both.indptr)]


def block_bytes(p: Pattern, groups: Sequence[Index]) -> int:
    """Memory of a symmetric matrix whose block column k has the rows that groups[k] own."""
    widths = p.widths
    return 8 * int(sum(int(widths[k]) * int(widths[g].sum()) for k, g in enumerate(groups)))


class SymmetricBlocks:
    """A symmetric matrix in block columns, to be filled in place and then frozen.

    Entry [c, i] of columns[k] couples column c of block k with column reach[k][i] of the whole.
    """

    def __init__(self, p: Pattern, groups: Sequence[Index]) -> None:
        self.pattern, self.reach = p, p.reach(groups)
        self.columns: list[Array] = [
            np.zeros((len(own), len(rows))) for own, rows in zip(p.columns, self.reach, strict=True)
        ]

    def freeze(self) -> BlockMatrix:
        made = [
            Block(values.T, rows, own)
            for values, rows, own in zip(
                self.columns, self.reach, self.pattern.columns, strict=True
            )
        ]
        nothing = Block(np.zeros((1, 1)), np.zeros(1, np.int64), np.zeros(1, np.int64))
        return from_blocks(made or [nothing], (self.pattern.size, self.pattern.size))


def gramian_blocks(A: BlockMatrix, p: Pattern) -> SymmetricBlocks:
    """A^T A from the products A_j^T A_k of neighbouring blocks, over the rows they share."""
    G = SymmetricBlocks(p, p.neighbours)
    blocks = [block.values for block in A.blocks() if len(block.columns)]
    place = np.full(A.shape[0], -1)
    for j, near in enumerate(p.neighbours):
        place[p.rows[j]] = np.arange(len(p.rows[j]))
        for k in near[near >= j].tolist():
            at = place[p.rows[k]]
            shared = at >= 0
            product = blocks[j][at[shared]].T @ blocks[k][shared]
            G.columns[j][:, np.searchsorted(G.reach[j], p.columns[k])] = product
            G.columns[k][:, np.searchsorted(G.reach[k], p.columns[j])] = product.T
        place[p.rows[j]] = -1
    return G


def gramian(A: BlockMatrix) -> BlockMatrix:
    """A^T A, formed: its condition number is the square of A's, and it is less sparse."""
    p = pattern(A)
    require(
        2 * block_bytes(p, p.neighbours),
        f"the Gramian of a {A.shape[0]:,} x {A.shape[1]:,} matrix",
        "use CG() with gramian=False, or LSQR: they need products with the matrix only",
    )
    return gramian_blocks(A, p).freeze()
