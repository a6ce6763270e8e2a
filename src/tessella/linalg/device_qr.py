"""NestedQR's fronts on an accelerator: assembled, factored and handed up without leaving it.

Fronts are padded with zeros to few sizes, so that few programs are compiled. A front is a sum of
gathers: for every block, and for what every child left over, two short tables say which of its rows
and columns stands at each row and column of the front.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from tessella.domain import Array
from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.dense_qr import FrontFactor, Leftover, finish
from tessella.linalg.elimination import Elimination, Front

STEP = 128
"""Least step between two padded sizes."""

PIECES = 8
"""Blocks added to a front by one program."""


def padded_size(count: int) -> int:
    """The next of the sizes that fronts are padded to: eight for every doubling."""
    step = max(STEP, (1 << max(count - 1, 1).bit_length()) // 16)
    return -(-max(count, 1) // step) * step


@dataclass(frozen=True)
class Explicit:
    """The columns of Q on the device, padded; `rows` and `size` are what is real of them."""

    Q: jax.Array
    rows: int
    size: int

    def transpose_times(self, c: Array) -> tuple[Array, float]:
        along, rest = jax.device_get(_project(self.Q, self.size, _padded(c, len(self.Q))))
        return np.array(along[: self.size]), float(rest)


@dataclass(frozen=True)
class DeviceFront:
    """F = Q R with all of its own columns kept; R stays on the device, padded."""

    Q: Explicit
    R: jax.Array
    own: int

    @property
    def kept(self) -> int:
        return self.own

    @property
    def order(self) -> np.ndarray:
        return np.arange(self.own)

    def reduce(self, c: Array) -> tuple[Array, Array, float]:
        """As `FrontFactor.reduce`."""
        along, rest = self.Q.transpose_times(c)
        return along[: self.own], along[self.own :], rest

    def substitute(self, fitted: Array, beyond: Array) -> Array:
        """As `FrontFactor.substitute`."""
        known = _padded(np.concatenate([fitted, beyond]), len(self.R))
        return np.asarray(_substitute(self.R, self.own, known))[: self.own]


class Handed(NamedTuple):
    """Rows for the parent: values[corner : corner + rows, corner:], zero below the diagonal."""

    values: jax.Array
    corner: int
    rows: int


def factor_fronts(
    A: BlockMatrix,
    plan: Elimination,
    scale: Array,
    tolerance: float,
    report: Callable[[int], None],
) -> list[DeviceFront | FrontFactor]:
    """All fronts, level by level; the host only reads whether their triangles are regular."""
    place = [(g, b) for g, group in enumerate(A.groups) for b in range(len(group.heights))]
    fronts: list[Any] = [None] * len(plan.fronts)
    handed: list[Any] = [None] * len(plan.fronts)
    for number, level in enumerate(plan.levels):
        factored = {}
        for i in level:
            front = plan.fronts[i]
            children = [(handed[k], plan.fronts[k].into_parent) for k in front.children]
            rows = len(front.rows) + sum(child.rows for child, _ in children)
            F = _assemble(A, place, front, scale, children, rows)
            factored[i] = (rows, *_qr(F, front.own))
            for k in front.children:
                handed[k] = None
        least = jax.device_get({i: smallest for i, (_, _, _, smallest) in factored.items()})
        for i, (rows, Q, R, _) in factored.items():
            own, n = plan.fronts[i].own, len(plan.fronts[i].columns)
            size = min(rows, n)
            known = Explicit(Q, rows, size)
            if rows >= own and least[i] > 10 * tolerance * max(own, 1):
                fronts[i], handed[i] = DeviceFront(known, R, own), Handed(R, own, size - own)
            else:
                whole = np.asfortranarray(np.asarray(R)[:size, :n])
                fronts[i], left = finish(known, whole, own, tolerance)
                handed[i] = _handed(left, n - own)
        report(number)
    return fronts


def _assemble(
    A: BlockMatrix,
    place: list[tuple[int, int]],
    front: Front,
    scale: Array,
    children: list[tuple[Handed, np.ndarray]],
    rows: int,
) -> jax.Array:
    width = padded_size(len(front.columns))
    shape = max(padded_size(rows), width), width
    F = jnp.zeros(shape)
    for g, group in enumerate(A.groups):
        own = [piece for piece in front.pieces if place[piece.block][0] == g]
        for start in range(0, len(own), PIECES):
            b = np.zeros(PIECES, dtype=np.int32)
            at_rows = np.full((PIECES, shape[0]), -1, dtype=np.int32)
            at_columns = np.full((PIECES, width), -1, dtype=np.int32)
            for k, piece in enumerate(own[start : start + PIECES]):
                b[k] = place[piece.block][1]
                at_rows[k, piece.rows] = piece.block_rows
                count = int(group.widths[b[k]])
                at_columns[k, piece.offset : piece.offset + count] = np.arange(count)
            F = _add_blocks(F, group.values, b, at_rows, at_columns)
    F = F * _padded(scale[front.columns], width)
    start = len(front.rows)
    for child, columns in children:
        at_row = np.full(shape[0], -1, dtype=np.int32)
        at_row[start : start + child.rows] = child.corner + np.arange(child.rows)
        at_column = np.full(width, -1, dtype=np.int32)
        at_column[columns] = child.corner + np.arange(len(columns))
        F = _add(F, child.values, at_row, at_column)
        start += child.rows
    return F


def _handed(left: Leftover, columns: int) -> Handed:
    values = np.zeros((padded_size(left.rows), padded_size(columns)))
    left.copy_into(values, np.arange(columns))
    return Handed(jnp.asarray(values), 0, left.rows)


def _padded(values: Array, count: int) -> Array:
    out = np.zeros((count, *values.shape[1:]))
    out[: len(values)] = values
    return out


@jax.jit
def _add(F: jax.Array, values: jax.Array, rows: jax.Array, columns: jax.Array) -> jax.Array:
    """F[i, j] + values[rows[i], columns[j]], where neither index is -1."""
    inside = (rows >= 0)[:, None] & (columns >= 0)
    return F + jnp.where(inside, values[rows[:, None], columns], 0.0)


@jax.jit
def _add_blocks(
    F: jax.Array, values: jax.Array, b: jax.Array, rows: jax.Array, columns: jax.Array
) -> jax.Array:
    """The same for some blocks, which are stored (block, column, row)."""

    def one(F: jax.Array, piece: tuple[jax.Array, ...]) -> tuple[jax.Array, None]:
        b, rows, columns = piece
        return _add(F, values[b].T, rows, columns), None

    return jax.lax.scan(one, F, (b, rows, columns))[0]


@jax.jit
def _qr(F: jax.Array, own: int) -> tuple[jax.Array, jax.Array, jax.Array]:
    """(Q, R, a lower bound of what its own columns have that no combination of others has).

    The bound is 1 / |R_own^-1| in the 1-norm, and zero where that is not a number.
    """
    Q, R = jnp.linalg.qr(F)
    inside = jnp.arange(len(R)) < own
    eye = jnp.eye(len(R))
    inverse = solve_triangular(jnp.where(inside[:, None] & inside, R, eye), eye)
    smallest = 1.0 / jnp.abs(inverse).sum(axis=0).max()
    return Q, R, jnp.where(jnp.isfinite(smallest), smallest, 0.0)


@jax.jit
def _project(Q: jax.Array, size: int, c: jax.Array) -> tuple[jax.Array, jax.Array]:
    along = jnp.where((jnp.arange(Q.shape[1]) < size)[:, None], Q.T @ c, 0.0)
    return along, jnp.sum((c - Q @ along) ** 2)


@jax.jit
def _substitute(R: jax.Array, own: int, known: jax.Array) -> jax.Array:
    """R_own^-1 (known_own - C known_beyond), from the padded R = [R_own C; 0 *]."""
    inside = jnp.arange(len(R)) < own
    C = jnp.where(inside[:, None] & ~inside, R, 0.0)
    R_own = jnp.where(inside[:, None] & inside, R, jnp.eye(len(R)))
    return solve_triangular(R_own, jnp.where(inside[:, None], known - C @ known, 0.0))
