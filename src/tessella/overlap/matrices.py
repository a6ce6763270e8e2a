"""Operators on all basis functions at some points: the blocks of the matrices."""

from __future__ import annotations

from collections.abc import Iterator

import jax.numpy as jnp
import numpy as np

from tessella.geometry.functions import Orders
from tessella.linalg.block_kernels import bucket
from tessella.linalg.block_matrix import BlockMatrix, Group, beside
from tessella.machine.arrays import Array, leading, on_device
from tessella.overlap.basis import AnyBasis, Basis, Multilevel, per_field
from tessella.overlap.decomposition import Decomposition
from tessella.overlap.evaluation import basis_tables, evaluate_blocks
from tessella.overlap.shares import Share
from tessella.problem.operators import Operator
from tessella.problem.problem import Problem

CHUNK_BYTES = 1 << 26
"""Blocks are evaluated this many bytes at a time, which bounds XLA's temporaries."""


def evaluate_matrix(
    basis: Basis | Multilevel,
    points: Array,
    symbol: dict[Orders, Array],
    share: Share | None = None,
) -> BlockMatrix:
    """The operator with these coefficients on every basis function, at the points it reaches.

    Rows without any coefficient, which belong to other unknowns, enter no block. With a `share` it
    has the blocks of this process only.
    """
    used = np.zeros(len(points), dtype=bool)
    for c in symbol.values():
        used |= c != 0
    if not used.any():
        symbol = symbol or {(0,) * points.shape[1]: np.zeros(len(points))}
        used[:1] = True
    if used.all():
        groups = _evaluate_levels(basis, points, symbol, share)
    else:
        rows = np.flatnonzero(used).astype(np.int32)
        own = {alpha: c[rows] for alpha, c in symbol.items()}
        groups = [
            g._replace(rows=on_device(np.append(rows, 0)[np.asarray(g.rows)]))
            for g in _evaluate_levels(basis, points[rows], own, share)
        ]
    return BlockMatrix(tuple(groups), (len(points), basis.columns))


def _evaluate_levels(
    basis: Basis | Multilevel, points: Array, symbol: dict[Orders, Array], share: Share | None
) -> list[Group]:
    groups: list[Group] = []
    offset = 0
    for number, level in enumerate(basis.levels):
        own = _evaluate_level(level, points, symbol, offset, share)
        coarse = number < len(basis.levels) - 1
        groups += [group._replace(level=number, coarse=coarse) for group in own]
        offset += level.columns
    return groups


def _evaluate_level(
    basis: Basis, points: Array, symbol: dict[Orders, Array], offset: int, share: Share | None
) -> list[Group]:
    """The blocks of one level, its columns numbered from `offset`."""
    C = basis.width
    tables = basis_tables(basis, points, symbol)
    groups = []
    own = None if share is None else share.has(basis.decomposition)
    for members, rows, heights in gather_pairs(basis.decomposition, points, C, own):
        pieces = -(-8 * C * rows.size // CHUNK_BYTES)
        step = -(-len(members) // pieces)
        values = []
        for start in range(0, len(members), step):
            # The last piece repeats a block to keep its shape, so that it compiles only once.
            c = np.minimum(np.arange(start, start + step), len(members) - 1)
            made = evaluate_blocks(basis, members[c], rows[c], heights[c], points, tables, symbol)
            values.append(leading(made, min(step, len(members) - start)))
        groups.append(
            Group(
                on_device(values[0]) if len(values) == 1 else jnp.concatenate(values),
                on_device(rows),
                on_device((offset + members[:, None] * C + np.arange(C)).astype(np.int32)),
                heights,
                np.full(len(members), C),
                basis.decomposition.positions[members],
            )
        )
    return groups


def gather_pairs(
    decomposition: Decomposition, points: Array, width: int, own: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Which points every subdomain sees, in few groups of one padded height each; subdomains that
    see none are left out.

    Yields subdomains (B,), their points' numbers (B, m) and how many of them count (B,); the rest
    is padding with point 0. `width` is the number of columns per pair, which weighs the padding;
    `own` tells which subdomains are asked for, if not all.
    """
    subdomain, point = decomposition.seen(points)
    if own is not None:
        subdomain, point = subdomain[own[subdomain]], point[own[subdomain]]
    heights = np.bincount(subdomain, minlength=decomposition.count)
    starts = np.concatenate([[0], np.cumsum(heights)[:-1]])
    active = np.flatnonzero(heights)
    if not len(active):
        return
    padded = bucket(heights[active], width)
    for height in np.unique(padded):
        members = active[padded == height]
        slot = np.arange(height)
        filled = slot < heights[members, None]
        pick = np.where(filled, starts[members, None] + slot, 0)
        rows = np.where(filled, point[pick] if len(point) else 0, 0).astype(np.int32)
        yield members, rows, heights[members]


def evaluate_at(
    problem: Problem,
    basis: AnyBasis,
    operator: Operator,
    points: Array,
    share: Share | None = None,
) -> tuple[BlockMatrix, Array]:
    """(E, e) with operator(u) = E a + e at the points, for coefficients a."""
    matrices = [
        evaluate_matrix(own, points, problem.symbol(operator, points, field=field), share)
        for field, own in zip(problem.fields, per_field(basis, problem.fields), strict=True)
    ]
    E = beside(matrices)
    return E if share is None else share.localised(E), problem.lift(operator, points)


def evaluate_all(
    problem: Problem, basis: AnyBasis, points: Array, share: Share | None = None
) -> tuple[BlockMatrix, Array]:
    """(E, e) with E a + e the values of every unknown, one after the other; e is (unknowns, n)."""
    n, groups, lifts = len(points), [], []
    for number, name in enumerate(problem.unknowns):
        E, e = evaluate_at(problem, basis, problem.unknown(name), points, share)
        rows = [on_device(np.asarray(g.rows) + np.int32(number * n)) for g in E.groups]
        groups += [g._replace(rows=r) for g, r in zip(E.groups, rows, strict=True)]
        lifts.append(e)
    return BlockMatrix(tuple(groups), (n * len(lifts), E.shape[1])), np.stack(lifts)
