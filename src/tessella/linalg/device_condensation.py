"""`condensation` of many blocks of one shape at once, on the device.

The rows [A 0; E -I] of a block are a front with the own columns first and the shared unknowns
after them: one QR of it leaves [R C; 0 triangle]. Whether the filter would drop own columns is read
off the own triangle R; only where it might, R is pivoted.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tessella.linalg.batched_qr import (
    NOWHERE,
    Pivoted,
    Reflections,
    back_substitute,
    leading,
    padded_choice,
    padded_size,
    pivot_leading,
    qr,
    smallest,
    transpose_times,
    triangle,
)
from tessella.linalg.rrqr import RRQR


class Pieces(NamedTuple):
    """Right-hand sides by block: piece p has the members[p] (padded with NOWHERE) of block[p].

    A block with more right-hand sides than a piece holds has several pieces.
    """

    block: np.ndarray
    members: np.ndarray


class Filter(NamedTuple):
    """What the filter did to the blocks where it might drop columns.

    pieces  those of their right-hand sides, and `place` of each one's block among the blocks
    rank    of these blocks
    own     pivoted QR of their own triangles
    rest    QR of what that leaves for the shared unknowns
    """

    pieces: np.ndarray
    place: np.ndarray
    rank: jax.Array
    own: Reflections
    rest: Reflections


class Turns(NamedTuple):
    """The orthogonal transformations of all eliminations, in their order."""

    Q: Reflections
    filter: Filter | None

    def apply(self, h: jax.Array, by: Pieces, n: int) -> jax.Array:
        """Right-hand sides h (J, m) turned, (P, M, rows): own rows, then the triangle's."""
        turned = _right_sides(self.Q, h, *by)
        return turned if self.filter is None else _right_sides_left(self.filter, turned, n)


class Eliminated(NamedTuple):
    """All blocks after elimination; K blocks, n own and c shared columns, P pieces of M members.

    kept      (K,) own columns that the filter kept, order[:, :kept] in the order of `top`
    top       (K, columns, size) the own rows of [R C]
    triangle  (K, c, c) on the shared unknowns, (block, column, row)
    z, g      (P, M, size), (P, M, c): right-hand sides of the own rows and of the triangle
    turns     if they were asked for
    """

    kept: np.ndarray
    order: np.ndarray
    top: jax.Array
    triangle: jax.Array
    z: jax.Array
    g: jax.Array
    turns: Turns | None = None

    def renewed(self, h: jax.Array, by: Pieces) -> Eliminated:
        """The same blocks with other right-hand sides: no factorisation, only its turns."""
        assert self.turns is not None
        n, c = self.order.shape[1], self.triangle.shape[1]
        turned = self.turns.apply(h, by, n)
        return self._replace(z=turned[:, :, : self.top.shape[2]], g=turned[:, :, n : n + c])


MOST_MEMBERS = 16
"""Right-hand sides in a piece, at most."""


def pieces(members: list[np.ndarray]) -> Pieces:
    """The right-hand sides of every block, whose numbers are `members`, cut into pieces."""
    most = max(map(len, members))
    width = min(MOST_MEMBERS, 1 << (most - 1).bit_length())
    block, parts = [], []
    for k, own in enumerate(members):
        for start in range(0, len(own), width):
            part = np.full(width, NOWHERE)
            part[: len(own[start : start + width])] = own[start : start + width]
            block.append(k)
            parts.append(part)
    return Pieces(np.array(block), np.stack(parts))


def condense_all(
    values: jax.Array,
    shared: np.ndarray,
    h: jax.Array,
    by: Pieces,
    rule: RRQR,
    keep: bool = False,
) -> Eliminated:
    """Eliminate the own columns of all blocks.

    `values` (K, n, m) holds every row of every block, shared[k] (c,) the rows that ask for a shared
    unknown each (padded with NOWHERE), and h (J, m) the right-hand sides, zero in those rows.
    `keep` holds on to the transformations, for `renewed`.
    """
    K, n, _ = values.shape
    Q, top, R, least = _factored(values, shared)
    kept, order, filter = np.full(K, n), np.tile(np.arange(n), (K, 1)), None
    bound, longest = jax.device_get(least)
    if not np.all(np.isfinite(longest)):
        raise FloatingPointError("a block of the matrix contains NaN or infinity")
    weak = np.flatnonzero(bound <= 10 * rule.sigma * longest * math.sqrt(n))
    if len(weak):
        top, R, found, rest = _filtered(top, R, padded_choice(weak), n, rule.sigma)
        kept[weak] = np.asarray(found.rank)[: len(weak)]
        order[weak] = np.asarray(found.order)[: len(weak), :n]
        affected = np.flatnonzero(np.isin(by.block, weak))
        some = padded_choice(affected)
        place = np.zeros_like(some)
        place[: len(affected)] = np.searchsorted(weak, by.block[affected])
        filter = Filter(some, place, found.rank, found.reflections, rest)
    turns = Turns(Q, filter)
    turned, last = turns.apply(h, by, n), slice(n, n + shared.shape[1])
    made = Eliminated(
        kept, order, top, R[:, last, last], turned[:, :, : top.shape[2]], turned[:, :, last]
    )
    return made._replace(turns=turns) if keep else made


@jax.jit
def own_unknowns(
    top: jax.Array, z: jax.Array, t: jax.Array, block: jax.Array, kept: jax.Array, n: int
) -> jax.Array:
    """R^-1 (z - C t) for the shared unknowns t (P, M, c) of every piece; (P, M, size)."""
    size, c = top.shape[2], t.shape[2]
    C = jax.lax.dynamic_slice_in_dim(top, n, c, axis=1)[block]
    mine = (jnp.arange(size) < kept[block][:, None])[:, None, :]
    rest = jnp.where(mine, z - jnp.einsum("pkc,pco->pko", t, C), 0.0)
    return back_substitute(leading(top[:, :size], kept)[block], rest)


@jax.jit
def _factored(
    values: jax.Array, shared: jax.Array
) -> tuple[Reflections, jax.Array, jax.Array, tuple[jax.Array, jax.Array]]:
    """Q, R's own rows, R, and what tells how regular the own triangle is: (|R^-1|^-1, |column|)."""
    K, n, m = values.shape
    c = shared.shape[1]
    N, size = padded_size(n + c), padded_size(n)
    F = jnp.zeros((K, N, max(N, padded_size(m)))).at[:, :n, :m].set(values)
    block, column = jnp.arange(K)[:, None], n + jnp.arange(c)
    F = F.at[block, column, shared].set(-1.0, mode="drop", unique_indices=True)
    Q = qr(F)
    top = triangle(Q.packed, size)
    own = leading(top[:, :size], jnp.full(K, n))
    longest = jnp.sqrt((top[:, :n] ** 2).sum(2).max(1))
    return Q, top, triangle(Q.packed, N), (smallest(own), longest)


@jax.jit
def _right_sides(Q: Reflections, h: jax.Array, block: jax.Array, members: jax.Array) -> jax.Array:
    """Q^T h of every piece, (P, M, rows)."""
    c = jnp.take(h, members, axis=0, mode="fill", fill_value=0.0)
    c = jnp.pad(c, ((0, 0), (0, 0), (0, Q.packed.shape[2] - c.shape[2])))
    return transpose_times(Reflections(Q.packed[block], Q.T[:, block]), c)


@jax.jit
def _filtered(
    top: jax.Array, R: jax.Array, which: jax.Array, n: int, sigma: float
) -> tuple[jax.Array, jax.Array, Pivoted, Reflections]:
    """`top` and R after the filter for the blocks `which`; the pivoting; the QR of the rest.

    What the dropped columns' rows say of the shared unknowns joins the triangle, which is
    triangularised anew.
    """
    size, N = top.shape[2], R.shape[2]
    pivoted, found = pivot_leading(top, which, jnp.full(len(top), n), 0.0, sigma)
    top = top.at[which].set(pivoted, mode="drop")
    row = jnp.arange(N)
    left = jnp.take(R, which, axis=0, mode="clip").at[:, :, :size].set(pivoted)
    beyond = row >= found.rank[:, None]
    left = jnp.where((row >= n)[:, None] & beyond[:, None, :], left, 0.0)
    rest = qr(jnp.roll(left, -n, axis=1))
    last = jnp.roll(triangle(rest.packed, N), (n, n), axis=(1, 2))
    return top, R.at[which].set(last, mode="drop"), found, rest


@jax.jit
def _right_sides_left(filter: Filter, turned: jax.Array, n: int) -> jax.Array:
    """The right-hand sides of all pieces after the filter."""
    size, N = filter.own.packed.shape[2], filter.rest.packed.shape[2]
    row, place = jnp.arange(N), filter.place
    c = jnp.take(turned, filter.pieces, axis=0, mode="clip")
    own = Reflections(filter.own.packed[place], filter.own.T[:, place])
    c = c.at[:, :, :size].set(transpose_times(own, c[:, :, :size]))
    beyond = row >= filter.rank[place][:, None, None]
    rest = Reflections(filter.rest.packed[place], filter.rest.T[:, place])
    g = transpose_times(rest, jnp.where(beyond, c[:, :, :N], 0.0))
    c = jnp.where(row < n, c[:, :, :N], jnp.roll(g, n, axis=2))
    return turned.at[filter.pieces, :, :N].set(c, mode="drop")
