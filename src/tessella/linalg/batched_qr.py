"""QR of many dense matrices at once, on the device: Householder, blocked, with or without pivoting.

LAPACK-like libraries factor one small matrix after the other on an accelerator, and each takes as
long as its launches. Here a column of all matrices is eliminated by two kernels, whatever their
number: all products with the column in one pass, the reflection in another. Thirty-two reflections
at a time (I - V T V^T, Schreiber and Van Loan 1989) then meet the other columns as matrix products.

Matrices are stored transposed, (matrix, column, row), as blocks are; padding with zero rows and
columns changes nothing else. Q is kept as reflections and never formed.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

PANEL = 32
"""Reflections applied at a time; the number of columns is a multiple of it."""

UNROLLED = 4
"""Columns of a panel between two looks at the loop's counter."""


NOWHERE = int(np.iinfo(np.int32).max)
"""A place outside every array: what is put there is dropped, what is taken from there is zero."""


def padded_size(count: int) -> int:
    """The next of the sizes that matrices are padded to: multiples of PANEL, eight per doubling."""
    step = max(PANEL, (1 << max(count - 1, 1).bit_length()) // 16)
    return -(-max(count, 1) // step) * step


def padded_choice(which: np.ndarray) -> np.ndarray:
    """Some numbers of matrices, filled up with NOWHERE to a power of two."""
    padded = np.full(1 << max(len(which) - 1, 0).bit_length(), NOWHERE)
    padded[: len(which)] = which
    return padded


class Reflections(NamedTuple):
    """Q and R of every matrix.

    packed  (B, n, m): R on and above the diagonal, below it the reflections' vectors, whose first
            entries are 1
    T       (n / PANEL, B, PANEL, PANEL): the panels' triangles
    """

    packed: jax.Array
    T: jax.Array


class Pivoted(NamedTuple):
    """Q and R of the reordered columns `order`, with |R_ii| falling; the first `rank` count."""

    reflections: Reflections
    order: jax.Array
    rank: jax.Array


@jax.jit
def qr(A: jax.Array) -> Reflections:
    """QR of every matrix; A is (B, n, m) with m >= n, and n a multiple of PANEL."""
    B, n, m = A.shape
    column = jnp.arange(n)[:, None]

    def panel(k: jax.Array, carry: Reflections) -> Reflections:
        A, T = carry
        start = k * PANEL

        def eliminate(P: jax.Array, j: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
            P, products, tau = _eliminate(P, j, start + j)
            return P, (products, tau)

        P = lax.dynamic_slice(A, (0, start, 0), (B, PANEL, m))
        P, (products, tau) = lax.scan(eliminate, P, jnp.arange(PANEL), unroll=UNROLLED)
        V = _vectors(P, start)
        own = _triangle(products.transpose(1, 2, 0), tau.T)
        along = jnp.where(column >= start + PANEL, jnp.einsum("bnm,bkm->bnk", A, V), 0.0)
        A = A - jnp.einsum("bnk,bkm->bnm", along @ own, V)
        return Reflections(lax.dynamic_update_slice(A, P, (0, start, 0)), T.at[k].set(own))

    T = jnp.zeros((n // PANEL, B, PANEL, PANEL))
    return lax.fori_loop(0, n // PANEL, panel, Reflections(A, T))


@jax.jit
def pivoted_qr(A: jax.Array, absolute: float, relative: float) -> Pivoted:
    """QR with column pivoting of square matrices (B, n, n), n a multiple of PANEL.

    The rank counts |R_ii| > absolute + relative |R_11|.
    """
    B, n, m = A.shape
    column = jnp.arange(n)

    def eliminate(
        carry: tuple[jax.Array, jax.Array], j: jax.Array
    ) -> tuple[tuple[jax.Array, jax.Array], tuple[jax.Array, jax.Array]]:
        A, order = carry
        left = jnp.where(jnp.arange(m) >= j, A, 0.0)
        squares = jnp.where(column >= j, (left * left).sum(2), -1.0)
        best = jnp.argmax(squares, axis=1)[:, None]
        swap = jnp.where(column == j, best, jnp.where(column == best, j, column))
        A = jnp.take_along_axis(A, swap[:, :, None], axis=1)
        A, products, tau = _eliminate(A, j, j)
        return (A, jnp.take_along_axis(order, swap, axis=1)), (products, tau)

    start = (A, jnp.broadcast_to(column, (B, n)))
    (A, order), (products, tau) = lax.scan(eliminate, start, column)
    panels = n // PANEL
    tiles = products.transpose(1, 2, 0).reshape(B, panels, PANEL, panels, PANEL)
    tiles = tiles[:, jnp.arange(panels), :, jnp.arange(panels)]
    T = _triangle(tiles, tau.reshape(panels, PANEL, B).transpose(0, 2, 1))
    diagonal = jnp.abs(jnp.diagonal(A, axis1=1, axis2=2))
    rank = jnp.count_nonzero(diagonal > absolute + relative * diagonal[:, :1], axis=1)
    return Pivoted(Reflections(A, T), order, rank)


@jax.jit
def transpose_times(Q: Reflections, c: jax.Array) -> jax.Array:
    """Q^T c for right-hand sides c (B, k, m), stored like the columns."""
    B, _, m = Q.packed.shape

    def panel(k: jax.Array, c: jax.Array) -> jax.Array:
        P = lax.dynamic_slice(Q.packed, (0, k * PANEL, 0), (B, PANEL, m))
        V = _vectors(P, k * PANEL)
        return c - jnp.einsum("bck,bkm->bcm", jnp.einsum("bcm,bkm->bck", c, V) @ Q.T[k], V)

    return lax.fori_loop(0, len(Q.T), panel, c)


@partial(jax.jit, static_argnums=1)
def triangle(packed: jax.Array, size: int) -> jax.Array:
    """The first `size` rows of R, (B, n, size), zero below the diagonal."""
    n = packed.shape[1]
    return jnp.where(jnp.arange(size) <= jnp.arange(n)[:, None], packed[:, :, :size], 0.0)


@jax.jit
def leading(R: jax.Array, count: jax.Array) -> jax.Array:
    """The first count[b] rows and columns of square triangles, and the identity beyond."""
    inside = jnp.arange(R.shape[1]) < count[:, None]
    return jnp.where(inside[:, :, None] & inside[:, None, :], R, jnp.eye(R.shape[1]))


@jax.jit
def smallest(R: jax.Array) -> jax.Array:
    """1 / |R^-1| in the 1-norm for triangles (B, n, n); zero where that is not a number.

    No column is closer to the span of the others, and sqrt(n) times no singular value below it.
    """
    eye = jnp.broadcast_to(jnp.eye(R.shape[1]), R.shape)
    inverse = lax.linalg.triangular_solve(R, eye, left_side=True, lower=True)
    found = 1.0 / jnp.abs(inverse).sum(axis=2).max(axis=1)
    return jnp.where(jnp.isfinite(found), found, 0.0)


@jax.jit
def pivot_leading(
    top: jax.Array, which: jax.Array, count: jax.Array, absolute: float, relative: float
) -> tuple[jax.Array, Pivoted]:
    """The first rows of some triangles, (S, n, size), with their leading columns pivoted.

    `top` (B, n, size) are the first rows of all, `which` (S,) some of them (padding is clipped),
    and count[b] <= size of the columns lead. Rows beyond the rank keep what they have in the
    columns that do not lead; in those that do, only the first rank count.
    """
    size = top.shape[2]
    some = jnp.take(top, which, axis=0, mode="clip")
    leads = jnp.arange(size) < jnp.take(count, which, mode="clip")[:, None]
    square = jnp.where(leads[:, :, None] & leads[:, None, :], some[:, :size], 0.0)
    found = pivoted_qr(square, absolute, relative)
    turned = transpose_times(found.reflections, some)
    pivoted = jnp.where(
        leads[:, :, None], triangle(found.reflections.packed, size), turned[:, :size]
    )
    return turned.at[:, :size].set(pivoted), found


@jax.jit
def back_substitute(R: jax.Array, c: jax.Array) -> jax.Array:
    """R^-1 c for triangles (B, n, n) and right-hand sides (B, k, n)."""
    return lax.linalg.triangular_solve(R, c, left_side=False, lower=True)


def _eliminate(P: jax.Array, j: jax.Array, p: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Reflect column j of every (B, k, m) to a multiple of e_p below row p, and those after it.

    Returns the columns; the products of the reflection's vector with the earlier ones, whose
    vectors they hold; and its tau. With x the column's part from row p on and alpha = -+|x|, the
    vector is (x - alpha e_p) / (x_p - alpha): all products with it follow from those with x.
    """
    row, column = jnp.arange(P.shape[2]), jnp.arange(P.shape[1])
    own = lax.dynamic_index_in_dim(P, j, 1, keepdims=False)
    x = jnp.where(row >= p, own, 0.0)
    products = (P * x[:, None, :]).sum(2)
    norm = jnp.sqrt(lax.dynamic_index_in_dim(products, j, 1, keepdims=False))
    heads = lax.dynamic_index_in_dim(P, p, 2, keepdims=False)
    head = lax.dynamic_index_in_dim(heads, j, 1, keepdims=False)
    alpha = jnp.where(head > 0, -norm, norm)
    alive = norm > 0
    over = jnp.where(alive, 1.0 / jnp.where(alive, head - alpha, 1.0), 0.0)
    tau = jnp.where(alive, (alpha - head) / jnp.where(alive, alpha, 1.0), 0.0)
    products = (products - alpha[:, None] * heads) * over[:, None]
    v = jnp.where(row == p, 1.0, x * over[:, None])
    share = jnp.where(column > j, tau[:, None] * products, 0.0)
    finished = jnp.where(row == p, alpha[:, None], jnp.where(row > p, v, own))
    P = P - share[:, :, None] * v[:, None, :]
    P = jnp.where((column == j)[:, None], finished[:, None, :], P)
    return P, products, tau


def _vectors(P: jax.Array, start: jax.Array) -> jax.Array:
    """The vectors of a panel (B, PANEL, m) that begins at column `start`."""
    place = jnp.arange(P.shape[2]) - start - jnp.arange(PANEL)[:, None]
    return jnp.where(place > 0, P, jnp.where(place == 0, 1.0, 0.0))


def _triangle(products: jax.Array, tau: jax.Array) -> jax.Array:
    """T of panels, from products[..., i, j] = v_i^T v_j for i < j and tau[..., j].

    T is the inverse of the products' strict upper triangle with 1 / tau on the diagonal. Blocks of
    doubling size are joined: the inverse of [A X; 0 B] has -A^-1 X B^-1 in its corner.
    """
    index = jnp.arange(PANEL)
    T = tau[..., :, None] * jnp.eye(PANEL)
    size = 1
    while size < PANEL:
        part = index // size
        corner = (part[:, None] % 2 == 0) & (part == part[:, None] + 1)
        T = T - T @ jnp.where(corner, products, 0.0) @ T
        size *= 2
    return T
