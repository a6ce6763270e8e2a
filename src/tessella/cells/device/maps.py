"""Programs that map cells on a device, all at once, and fit them to their data.

Rows are made of the derivatives of features, which all cells share, and of coefficients, which are
each cell's own; Gramians, their inverses and the maps follow in a few batched products.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tessella.cells.cell.port import Rowed
from tessella.cells.device.grid import Grid
from tessella.cells.device.merging import PROMPT, Merged, exchange

BATCH = 1 << 32
"""Bytes of rows that are made and multiplied together."""


Coefficients = tuple[tuple[jax.Array | np.ndarray, ...], ...]


class Statement(NamedTuple):
    """What makes the rows of one statement in its cells: per unknown, the coefficients (members, n)
    of every derivative, and these of all features, (n, r). No members are all cells."""

    members: jax.Array | None
    coefficients: Coefficients
    tables: tuple[tuple[jax.Array, ...], ...]


class PortRows(NamedTuple):
    """The rows of all ports, and which of a cell's ports (J, ports), numbers taken (J, in) and
    given (J, out) have a neighbour beyond."""

    rows: tuple[Rowed, ...]
    beyond: jax.Array
    taken: jax.Array
    given: jax.Array


class Leaves(NamedTuple):
    """Inverses of the Gramians of all cells (J, r, r), B (r, in) and O (out, r) of all ports, maps
    (J, out, in), and the worst condition of a cell's rows."""

    inverse: jax.Array
    B: jax.Array
    out: jax.Array
    T: jax.Array
    condition: jax.Array


Widths = tuple[int, ...]
"""Filtered features of every unknown."""


def _added(x: jax.Array, members: jax.Array | None, more: jax.Array) -> jax.Array:
    """x plus what some of its members get, or all."""
    return x + more if members is None else x.at[members].add(more)


def _gram(statement: Statement, widths: Widths) -> jax.Array:
    """M^T M of a statement's rows, (members, r, r)."""
    n = next(table.shape[0] for own in statement.tables for table in own)

    def one(coefficients: Coefficients) -> jax.Array:
        blocks = [
            sum((c[:, None] * t for c, t in zip(*pair, strict=True)), jnp.zeros((n, width)))
            for *pair, width in zip(coefficients, statement.tables, widths, strict=True)
        ]
        A = jnp.concatenate(blocks, axis=1)
        return A.T @ A

    together = max(1, BATCH // (8 * n * sum(widths)))
    if together >= len(next(c for own in statement.coefficients for c in own)):
        return jax.vmap(one)(statement.coefficients)
    return jax.lax.map(one, statement.coefficients, batch_size=together)


@partial(jax.jit, static_argnames="widths", compiler_options=PROMPT)
def map_cells(statements: tuple[Statement, ...], ports: PortRows, widths: Widths) -> Leaves:
    """The maps of all cells."""
    grams = jnp.stack([own.rows.T @ own.rows for own in ports.rows])
    B = jnp.concatenate([own.rows.T @ own.lifted for own in ports.rows], axis=1)
    out = jnp.concatenate([own.out for own in ports.rows])
    G = jnp.einsum("jp,prs->jrs", ports.beyond, grams)
    for statement in (own for own in statements if any(own.tables)):
        G = _added(G, statement.members, _gram(statement, widths))
    L = jnp.linalg.cholesky(G)
    size = jnp.diagonal(L, axis1=1, axis2=2)
    eye = jnp.broadcast_to(jnp.eye(G.shape[1]), G.shape)
    half = jax.lax.linalg.triangular_solve(L, eye, left_side=True, lower=True)
    inverse = jnp.einsum("jkr,jks->jrs", half, half)
    T = ports.given[:, :, None] * (out @ inverse @ B) * ports.taken[:, None, :]
    return Leaves(inverse, B, out, T, jnp.max(size.max(axis=1) / size.min(axis=1)))


def _projected(statement: Statement, h: jax.Array, widths: Widths) -> jax.Array:
    """M^T h, (members, r)."""
    blocks = [
        sum(((c * h) @ t for c, t in zip(*pair, strict=True)), jnp.zeros((len(h), width)))
        for *pair, width in zip(statement.coefficients, statement.tables, widths, strict=True)
    ]
    return jnp.concatenate(blocks, axis=1)


def _missed(statement: Statement, h: jax.Array, y: Sequence[jax.Array]) -> jax.Array:
    """Squares of M y - h, summed over every cell's rows, (members,)."""
    values = -h
    for of, coefficients, tables in zip(y, statement.coefficients, statement.tables, strict=True):
        own = of if statement.members is None else jnp.take(of, statement.members, axis=0)
        for c, table in zip(coefficients, tables, strict=True):
            values = values + c * (own @ table.T)
    return jnp.sum(values * values, axis=1)


@partial(jax.jit, static_argnames=("grid", "widths"), compiler_options=PROMPT)
def fit_cells(
    statements: tuple[Statement, ...],
    h: tuple[jax.Array, ...],
    given: jax.Array,
    leaves: Leaves,
    merged: Merged,
    grid: Grid,
    widths: Widths,
) -> tuple[jax.Array, list[jax.Array], jax.Array]:
    """The unknowns of all cells (J, r), the squares that every statement misses in them, and the
    error of the exchange."""
    y = by_themselves(statements, h, leaves, widths)
    taken, error = exchange(grid, merged, leaves.T, given, given * (y @ leaves.out.T))
    return *completed(statements, h, leaves, y, taken, widths), error


def by_themselves(
    statements: tuple[Statement, ...], h: tuple[jax.Array, ...], leaves: Leaves, widths: Widths
) -> jax.Array:
    """The unknowns of all cells (J, r) if nothing came in."""
    b = jnp.zeros(leaves.inverse.shape[:2])
    for statement, own in zip(statements, h, strict=True):
        b = _added(b, statement.members, _projected(statement, own, widths))
    return jnp.einsum("jrs,js->jr", leaves.inverse, b)


def completed(
    statements: tuple[Statement, ...],
    h: tuple[jax.Array, ...],
    leaves: Leaves,
    y: jax.Array,
    taken: jax.Array,
    widths: Widths,
) -> tuple[jax.Array, list[jax.Array]]:
    """The same with what comes in, and the squares that every statement misses in them."""
    y = y + jnp.einsum("jrs,js->jr", leaves.inverse, taken @ leaves.B.T)
    each = jnp.split(y, np.cumsum(widths)[:-1], axis=1)
    pairs = zip(statements, h, strict=True)
    return y, [_missed(statement, own, each) for statement, own in pairs]
