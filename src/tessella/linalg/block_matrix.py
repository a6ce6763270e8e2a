"""The block-sparse matrix: sole owner of its storage.

M = sum_j V_j^T M_j W_j (the paper's domain decomposition identity): every block M_j fills some rows
and some columns of the whole. Blocks of similar height are stored together, padded, as

    values (B, C, m)   block, column, row: rows run along the last axis, where vector units work
    rows (B, m)        where the block's rows lie in the whole; padding points at row 0, value 0
    columns (B, C)     where its columns lie; padding points at column 0, value 0

so both products are one contraction and one gather or scatter per group.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse

from tessella.linalg.block_kernels import (
    bucket,
    contract_columns,
    contract_rows,
    look_up,
    same_numbers,
    scaled_columns,
    scaled_rows,
    squared_sums,
)
from tessella.linalg.vectors import WHOLE, Whole
from tessella.machine.arrays import AnyArray, Array, on_device, some
from tessella.machine.device import on_host
from tessella.machine.printing import counted, megabytes, times


class Group(NamedTuple):
    """Blocks padded to one height and width; block b is values[b, :widths[b], :heights[b]].

    `positions` (B, d) places the blocks in a grid, as a hint to solvers that order them; blocks of
    another `level` belong to another grid, `coarse` if there is a finer one of the same unknown.
    """

    values: jax.Array
    rows: jax.Array
    columns: jax.Array
    heights: np.ndarray
    widths: np.ndarray
    positions: np.ndarray | None = None
    level: int = 0
    coarse: bool = False

    def some(self, which: np.ndarray) -> Group:
        """A group of some of its blocks."""
        return self._replace(
            values=some(self.values, which),
            rows=some(self.rows, which),
            columns=some(self.columns, which),
            heights=self.heights[which],
            widths=self.widths[which],
            positions=None if self.positions is None else self.positions[which],
        )


class Lookup(NamedTuple):
    """Places of every row's (column's) entries in the flattened blocks, (most, n); -1 is none."""

    rows: jax.Array
    columns: jax.Array


class Block(NamedTuple):
    """One block as (m, C) values and its global rows and columns."""

    values: Array
    rows: np.ndarray
    columns: np.ndarray


@partial(jax.tree_util.register_dataclass, data_fields=["groups", "lookup"], meta_fields=["shape"])
@dataclass(frozen=True, eq=False, repr=False)
class BlockMatrix:
    """The matrix; `lookup` (see `with_lookup`) turns the scatter of its product into a gather."""

    groups: tuple[Group, ...]
    shape: tuple[int, int]
    lookup: Lookup | None = None

    @property
    def vectors(self) -> Whole:
        """Of its rows and columns."""
        return WHOLE

    def __repr__(self) -> str:
        return f"BlockMatrix of {times(self.shape)}, {self.contents}"

    @property
    def contents(self) -> str:
        """How many blocks of which size, and what they take."""
        shapes = [g.values.shape for g in self.groups]
        count = counted(sum(B for B, _, _ in shapes), "block")
        height, width = (max((shape[axis] for shape in shapes), default=0) for axis in (2, 1))
        return f"{count} of up to {height:,} x {width:,} ({megabytes(self.stored_bytes)})"

    def matvec(self, v: AnyArray) -> jax.Array:
        """M v."""
        if not self._by_numpy(v):
            return self.compiled_matvec(v)
        out, v = np.zeros(self.shape[0]), np.asarray(v)
        for g in self.groups:
            local = v[np.asarray(g.columns)][:, None, :] @ np.asarray(g.values)
            out += np.bincount(np.asarray(g.rows).ravel(), local.ravel(), self.shape[0])
        return on_device(out)

    def rmatvec(self, u: AnyArray) -> jax.Array:
        """M^T u."""
        if not self._by_numpy(u):
            return self.compiled_rmatvec(u)
        out, u = np.zeros(self.shape[1]), np.asarray(u)
        for g in self.groups:
            local = np.asarray(g.values) @ u[np.asarray(g.rows)][:, :, None]
            out += np.bincount(np.asarray(g.columns).ravel(), local.ravel(), self.shape[1])
        return on_device(out)

    def _by_numpy(self, vector: AnyArray) -> bool:
        """Whether a product can do without XLA, which would compile it for this pattern first."""
        return on_host(vector, *(g.values for g in self.groups))

    @jax.jit
    def compiled_matvec(self, v: jax.Array) -> jax.Array:
        if self.lookup is not None:
            # The barriers keep XLA from gathering v for every row, and from reading the values in
            # the order of the whole's rows. One reduction is three times faster than fused sums.
            own = [jax.lax.optimization_barrier(v[g.columns]) for g in self.groups]
            local = [
                (g.values * part[:, :, None]).sum(1).ravel()
                for g, part in zip(self.groups, own, strict=True)
            ]
            return look_up(jax.lax.optimization_barrier(local), self.lookup.rows)
        # One buffer per group, so that one group's scatter overlaps the next one's contraction.
        parts = [
            jnp.zeros(self.shape[0]).at[g.rows].add(contract_columns(g.values, v[g.columns]))
            for g in self.groups
        ]
        return sum(parts[1:], parts[0])

    @jax.jit
    def compiled_rmatvec(self, u: jax.Array) -> jax.Array:
        # The barrier keeps XLA from repeating the gather for every column.
        local = [
            contract_rows(g.values, jax.lax.optimization_barrier(u[g.rows])) for g in self.groups
        ]
        if self.lookup is not None:
            return look_up([part.ravel() for part in local], self.lookup.columns)
        out = jnp.zeros(self.shape[1])
        for g, part in zip(self.groups, local, strict=True):
            out = out.at[g.columns].add(part)
        return out

    def with_lookup(self) -> BlockMatrix:
        """The same matrix with, for every row and column, where in the blocks its entries are.

        A GPU sums by looking up (no atomic additions, the same result every time) faster than it
        scatters; a CPU does not.
        """
        rows = [(np.asarray(g.rows), g.heights) for g in self.groups]
        columns = [(np.asarray(g.columns), g.widths) for g in self.groups]
        tables = (_inverse(rows, self.shape[0]), _inverse(columns, self.shape[1]))
        return BlockMatrix(self.groups, self.shape, Lookup(*map(on_device, tables)))

    def with_groups(self, groups: tuple[Group, ...]) -> BlockMatrix:
        """The same rows and columns with these blocks."""
        return BlockMatrix(groups, self.shape)

    def acts_like(self, other: BlockMatrix) -> bool:
        """Whether both take a random vector to the same one, up to rounding.

        That tells matrices apart by their numbers, however they are cut into blocks.
        """
        if self.shape != other.shape:
            return False
        v = on_device(np.random.default_rng(0).standard_normal(self.shape[1]))
        return same_numbers(np.asarray(self.matvec(v)), np.asarray(other.matvec(v)))

    def blocks(self) -> Iterator[Block]:
        """Every block without its padding."""
        for g in self.groups:
            values, rows, columns = (np.asarray(a) for a in (g.values, g.rows, g.columns))
            for b, (height, width) in enumerate(zip(g.heights, g.widths, strict=True)):
                yield Block(values[b, :width, :height].T, rows[b, :height], columns[b, :width])

    def pattern(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Rows and columns of every block, in the order of `blocks`."""
        rows, columns = [], []
        for g in self.groups:
            r, c = np.asarray(g.rows), np.asarray(g.columns)
            rows += [r[b, :height] for b, height in enumerate(g.heights)]
            columns += [c[b, :width] for b, width in enumerate(g.widths)]
        return rows, columns

    def positions(self) -> Array | None:
        """Positions of the blocks, if every group knows them."""
        known = [g.positions for g in self.groups if g.positions is not None]
        return np.concatenate(known) if len(known) == len(self.groups) else None

    def scale_rows(self, factors: Array) -> BlockMatrix:
        """diag(factors) M."""
        f = on_device(factors)
        groups = (g._replace(values=scaled_rows(g.values, g.rows, f)) for g in self.groups)
        return BlockMatrix(tuple(groups), self.shape)

    def select(self, kept: np.ndarray) -> BlockMatrix:
        """The columns `kept` (sorted), in that order: M_hat of the paper."""
        position = np.full(self.shape[1], -1)
        position[kept] = np.arange(len(kept))
        groups = []
        for g in self.groups:
            new = position[np.asarray(g.columns)]
            new[np.arange(new.shape[1]) >= g.widths[:, None]] = -1
            order = np.argsort(new < 0, axis=1, kind="stable")
            widths = np.count_nonzero(new >= 0, axis=1)
            order = order[:, : max(int(widths.max(initial=0)), 1)]
            new = np.take_along_axis(new, order, axis=1)
            values = np.take_along_axis(np.asarray(g.values), order[:, :, None], axis=1)
            groups.append(
                Group(
                    on_device(np.where((new >= 0)[:, :, None], values, 0.0)),
                    g.rows,
                    on_device(np.maximum(new, 0).astype(np.int32)),
                    g.heights,
                    widths,
                    g.positions,
                    g.level,
                    g.coarse,
                )
            )
        return BlockMatrix(tuple(groups), (self.shape[0], len(kept)))

    def without_low_blocks(self, least: float) -> BlockMatrix:
        """Without blocks of fewer rows than `least` times their columns, which become zero."""
        groups = []
        for g in self.groups:
            tall = np.flatnonzero(g.heights >= least * g.widths)
            if len(tall) == len(g.heights):
                groups.append(g)
            elif len(tall):
                groups.append(g.some(tall))
        return BlockMatrix(tuple(groups), self.shape)

    def levels(self) -> np.ndarray:
        """The level of every block, in the order of `blocks`."""
        return np.repeat([g.level for g in self.groups], [len(g.heights) for g in self.groups])

    def merge(self, label: np.ndarray) -> BlockMatrix:
        """Join all blocks of one label into a single block; labels in the order of `blocks`.

        A label belongs to one level. Levels stay in groups of their own, since their blocks differ
        so much in height that they would be mostly padding in one.
        """
        parts: dict[int, list[Block]] = {}
        for block, own in zip(self.blocks(), label, strict=True):
            parts.setdefault(int(own), []).append(block)
        known, levels = self.positions(), self.levels()
        coarse = {g.level for g in self.groups if g.coarse}
        groups: list[Group] = []
        for level in np.unique(levels):
            labels = np.unique(label[levels == level])
            places = None
            if known is not None:
                places = np.array([known[label == own].mean(axis=0) for own in labels])
            merged = from_blocks([_joined(parts.pop(own)) for own in labels], self.shape, places)
            groups += [
                g._replace(level=int(level), coarse=int(level) in coarse) for g in merged.groups
            ]
        return BlockMatrix(tuple(groups), self.shape)

    def row_norms_squared(self, columns: np.ndarray | None = None) -> Array:
        """Squared length of every row, over all columns or those where the mask `columns` is."""
        out = np.zeros(self.shape[0])
        for g in self.groups:
            values = g.values
            if columns is not None:
                values = scaled_columns(values, g.columns, columns)
            squares = squared_sums(values, 1)
            np.add.at(out, np.asarray(g.rows), squares)
        return out

    def column_norms_squared(self) -> Array:
        out = np.zeros(self.shape[1])
        for g in self.groups:
            squares = squared_sums(g.values, 2)
            np.add.at(out, np.asarray(g.columns), squares)
        return out

    def to_csr(self) -> scipy.sparse.csr_array:
        """The same matrix in SciPy's compressed row format."""
        entries, rows, columns = [], [], []
        for block in self.blocks():
            entries.append(block.values.ravel())
            rows.append(np.repeat(block.rows, len(block.columns)))
            columns.append(np.tile(block.columns, len(block.rows)))
        data = (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns)))
        return scipy.sparse.csr_array(scipy.sparse.coo_array(data, shape=self.shape))

    def to_dense(self) -> Array:
        dense = np.zeros(self.shape)
        for block in self.blocks():
            dense[np.ix_(block.rows, block.columns)] += block.values
        return dense

    @property
    def stored_bytes(self) -> int:
        return sum(g.values.nbytes + g.rows.nbytes + g.columns.nbytes for g in self.groups)


def _joined(blocks: list[Block]) -> Block:
    rows = np.unique(np.concatenate([b.rows for b in blocks]))
    columns = np.concatenate([b.columns for b in blocks])
    values = np.zeros((len(rows), len(columns)))
    start = 0
    for b in blocks:
        width = len(b.columns)
        values[np.searchsorted(rows, b.rows), start : start + width] = b.values
        start += width
    return Block(values, rows, columns)


def _inverse(indices: Sequence[tuple[np.ndarray, np.ndarray]], size: int) -> np.ndarray:
    """Lookup table of padded index arrays (B, k), of which the first `sizes[b]` are real."""
    index = np.concatenate([array.ravel() for array, _ in indices])
    real = np.concatenate(
        [(np.arange(array.shape[1]) < sizes[:, None]).ravel() for array, sizes in indices]
    )
    place = np.flatnonzero(real)
    place = place[np.argsort(index[place], kind="stable")]
    target = index[place]
    count = np.bincount(target, minlength=size)
    slot = np.arange(len(target)) - np.repeat(np.cumsum(count) - count, count)
    table = np.full((max(int(count.max(initial=0)), 1), size), -1, dtype=np.int32)
    table[slot, target] = place
    return table


def beside(matrices: Sequence[BlockMatrix]) -> BlockMatrix:
    """[A, B, ...]: the same rows, columns one after the other, every matrix on its own levels."""
    if len(matrices) == 1:
        return matrices[0]
    groups: list[Group] = []
    columns = level = 0
    for A in matrices:
        groups += [
            g._replace(
                columns=on_device(np.asarray(g.columns) + np.int32(columns)), level=g.level + level
            )
            for g in A.groups
        ]
        columns += A.shape[1]
        level += 1 + max((g.level for g in A.groups), default=0)
    return BlockMatrix(tuple(groups), (matrices[0].shape[0], columns))


def from_blocks(
    blocks: Sequence[Block], shape: tuple[int, int], positions: Array | None = None
) -> BlockMatrix:
    """A block matrix from (m, C) blocks of any sizes."""
    heights = np.array([len(b.rows) for b in blocks], dtype=np.int64)
    widths = np.array([len(b.columns) for b in blocks], dtype=np.int64)
    padded = bucket(np.maximum(heights, 1), int(widths.max(initial=1)))
    groups = []
    for height in np.unique(padded):
        members = np.flatnonzero(padded == height)
        width = max(int(widths[members].max()), 1)
        values = np.zeros((len(members), width, int(height)))
        rows = np.zeros((len(members), int(height)), dtype=np.int32)
        columns = np.zeros((len(members), width), dtype=np.int32)
        for k, b in enumerate(members.tolist()):
            values[k, : widths[b], : heights[b]] = blocks[b].values.T
            rows[k, : heights[b]] = blocks[b].rows
            columns[k, : widths[b]] = blocks[b].columns
        groups.append(
            Group(
                on_device(values),
                on_device(rows),
                on_device(columns),
                heights[members],
                widths[members],
                None if positions is None else positions[members],
            )
        )
    return BlockMatrix(tuple(groups), shape)
