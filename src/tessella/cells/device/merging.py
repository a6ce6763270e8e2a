"""Maps of many cells joined on a device: every level of joins is one batch of matrix products.

All steps of an order are one program, and what a right-hand side passes on its way up and down is
another. See `merging` for the formulas. Of a grid with open sides its own map is left in the end.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tessella.cells.device.grid import Grid
from tessella.cells.joins.whole import SINGULAR
from tessella.cells.order.order import Order
from tessella.cells.order.stage import Numbers as Positions
from tessella.cells.order.stage import Stage

CLOSE = 1e-8
"""Residual of an approximate inverse from which one more step reaches rounding."""

STEPS = 60
"""Steps after which an inverse is given up: enough for condition numbers of 1e7."""


PROMPT = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}
"""Options for programs of many different products: no time is spent on finding the fastest kernel
for each, which costs ten times as much as it ever gains here."""


class Join(NamedTuple):
    """What one step leaves for right-hand sides (see `merging.Join`)."""

    inverse: jax.Array
    S_a: jax.Array
    S_b: jax.Array
    A33: jax.Array
    B33: jax.Array
    A13: jax.Array
    B23: jax.Array


class Whole(NamedTuple):
    """The last exchange, its inverse, and what b3 needs."""

    exchange: jax.Array
    inverse: jax.Array
    A33: jax.Array
    B33: jax.Array


class Merged(NamedTuple):
    """All joins but the last one, the last one, and the largest number in the inverse of one of the
    others' exchanges, infinite if there is none (see `merging.Merged.growth`). With open sides all
    joins, and the map that is left there."""

    joins: tuple[Join | None, ...]
    whole: Whole | None
    growth: jax.Array
    outside: jax.Array | None = None


def _members(stages: tuple[Stage, ...], stage: Stage) -> tuple[np.ndarray, np.ndarray]:
    """Which members of both children are joined; cells by their own numbers."""
    found = []
    for child, which in ((stage.left, 0), (stage.right, 1)):
        own, cells = stage.pairs[:, which], stages[child].cells
        found.append(own if cells is None else cells[own])
    return found[0], found[1]


def _some(x: jax.Array, which: np.ndarray, axis: int) -> jax.Array:
    """Along one axis, the entries with these numbers."""
    return x.at[(slice(None),) * axis + (which,)].get(mode="promise_in_bounds")


def _block(T: jax.Array, rows: np.ndarray, columns: np.ndarray) -> jax.Array:
    return _some(_some(T, rows, 1), columns, 2)


def _beside(M: jax.Array, left: int, right: int) -> jax.Array:
    """Matrices with columns of zeros on both sides."""
    return jnp.pad(M, ((0, 0), (0, 0), (left, right)))


@partial(jax.jit, static_argnames="grid", compiler_options=PROMPT)
def merge(T: jax.Array, grid: Grid) -> Merged:
    """Join all cells, given their maps (J, out, in)."""
    stages = grid.order.stages
    last_use = {child: i for i, s in enumerate(stages) for child in (s.left, s.right)}
    maps = {i: T for i, s in enumerate(stages) if s.cells is not None}
    joins: list[Join | None] = []
    growth = jnp.array(1.0)
    for i, stage in enumerate(stages):
        if stage.cells is not None:
            joins.append(None)
            continue
        a, b = _members(stages, stage)
        TA, TB = _some(maps[stage.left], a, 0), _some(maps[stage.right], b, 0)
        for child in (stage.left, stage.right):
            if last_use[child] == i:
                maps.pop(child, None)
        if i == len(stages) - 1 and not grid.opened:
            whole, regular = _join_last(TA, TB, stage.numbers)
            return Merged((*joins, None), whole, jnp.where(regular, growth, jnp.inf))
        maps[i], join, regular = _join(TA, TB, stage.numbers)
        joins.append(join)
        largest = jnp.max(jnp.abs(join.inverse), initial=growth)
        growth = jnp.where(regular, largest, jnp.inf)
    taken, given = grid.outside
    return Merged(tuple(joins), None, growth, _block(maps[len(stages) - 1], given, taken)[0])


def _join(TA: jax.Array, TB: jax.Array, at: Positions) -> tuple[jax.Array, Join, jax.Array]:
    A33, B33 = _block(TA, at.a3_out, at.a3_in), _block(TB, at.b3_out, at.b3_in)
    A31, B32 = _block(TA, at.a3_out, at.a1_in), _block(TB, at.b3_out, at.b2_in)
    A13, B23 = _block(TA, at.a1_out, at.a3_in), _block(TB, at.b2_out, at.b3_in)
    inverse, regular = inverted(jnp.eye(A33.shape[2]) - B33 @ A33)
    S_a = inverse @ jnp.concatenate([B33 @ A31, B32], axis=2)
    n1, n2 = len(at.a1_in), len(at.b2_in)
    S_b = A33 @ S_a + _beside(A31, 0, n2)
    top = A13 @ S_a + _beside(_block(TA, at.a1_out, at.a1_in), 0, n2)
    low = B23 @ S_b + _beside(_block(TB, at.b2_out, at.b2_in), n1, 0)
    T = jnp.concatenate([top, low], axis=1)
    return T, Join(inverse, S_a, S_b, A33, B33, A13, B23), regular


def _join_last(TA: jax.Array, TB: jax.Array, at: Positions) -> tuple[Whole, jax.Array]:
    """Nothing comes in from outside, so that the exchange alone is left."""
    A33, B33 = _block(TA, at.a3_out, at.a3_in), _block(TB, at.b3_out, at.b3_in)
    D = jnp.eye(A33.shape[2]) - B33 @ A33
    inverse, regular = inverted(D)
    condition = jnp.max(jnp.abs(D).sum(axis=1), initial=0.0)
    condition *= jnp.max(jnp.abs(inverse).sum(axis=1), initial=0.0)
    return Whole(D, inverse, A33, B33), regular & (condition * SINGULAR < 1)


def inverted(D: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The inverses of matrices (B, n, n) by Newton's iteration X <- X (2 I - D X), and whether
    there are any.

    It is made of products only, which many matrices share; elimination would take one column after
    the other. X = D^T / (|D|_1 |D|_inf) is close enough to begin with.
    """
    if not D.size:
        return D, jnp.array(True)
    eye = jnp.eye(D.shape[1])
    size = jnp.abs(D).sum(axis=1).max(axis=1) * jnp.abs(D).sum(axis=2).max(axis=1)

    def missed(X: jax.Array) -> jax.Array:
        return eye - D @ X

    def far(state: tuple[jax.Array, jax.Array, jax.Array]) -> jax.Array:
        _, R, step = state
        return (jnp.max(jnp.sum(R * R, axis=(1, 2))) > CLOSE**2) & (step < STEPS)

    def improved(
        state: tuple[jax.Array, jax.Array, jax.Array],
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        X, R, step = state
        X = X + X @ R
        return X, missed(X), step + 1

    X = jnp.swapaxes(D, 1, 2) / size[:, None, None]
    X, R, step = jax.lax.while_loop(far, improved, (X, missed(X), jnp.array(0)))
    return X + X @ R, (step < STEPS) & jnp.all(jnp.isfinite(X))


def times(M: jax.Array, x: jax.Array) -> jax.Array:
    return jnp.einsum("bij,bj->bi", M, x)


PASSES = 2
"""A correction takes out what a group of cells that is nearly resonant has magnified."""


def exchange(
    grid: Grid, merged: Merged, T: jax.Array, given: jax.Array, c: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """What comes in at all cells (J, in), given what goes out if nothing does (J, out); and how far
    it is from what their neighbours give, as a part of it."""

    def missed(x: jax.Array) -> jax.Array:
        return c + times(T, x) - given * _some(x.ravel(), grid.partners, 0)

    def corrected(_: int, x: jax.Array) -> jax.Array:
        return x + _exchange(grid.order, merged, missed(x))

    x = jax.lax.fori_loop(0, PASSES, corrected, jnp.zeros((len(T), T.shape[2])))
    size = jnp.linalg.norm(x)
    return x, jnp.linalg.norm(missed(x)) / jnp.where(size > 0, size, 1.0)


def _exchange(order: Order, merged: Merged, c: jax.Array) -> jax.Array:
    """The same without correction."""
    assert merged.whole is not None
    passing, outs = up(order, merged, c)
    D, inverse, A33, B33 = merged.whole
    c3, c4, *_ = _both(order.stages, len(order.stages) - 1, outs)
    right = times(B33, c3) + c4
    a3 = times(inverse, right)
    a3 = a3 + times(inverse, right - times(D, a3))
    passing[len(order.stages) - 1] = (a3, times(A33, a3) + c3)
    return down(order, merged, passing)


Passing = dict[int, tuple[jax.Array, jax.Array]]
"""Of every step, in_A3 and in_B3."""


def up(order: Order, merged: Merged, c: jax.Array) -> tuple[Passing, dict[int, jax.Array]]:
    """Of every step in_A3 and in_B3 if nothing came in from outside, and what all give then."""
    stages = order.stages
    outs = {i: c for i, s in enumerate(stages) if s.cells is not None}
    passing: Passing = {}
    for i, join in enumerate(merged.joins):
        if join is not None:
            c3, c4, cA, cB = _both(stages, i, outs)
            a3 = times(join.inverse, times(join.B33, c3) + c4)
            b3 = times(join.A33, a3) + c3
            cA, cB = cA + times(join.A13, a3), cB + times(join.B23, b3)
            outs[i], passing[i] = jnp.concatenate([cA, cB], axis=1), (a3, b3)
    return passing, outs


def _both(
    stages: tuple[Stage, ...], i: int, outs: dict[int, jax.Array]
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """What both sides of a step give at closed ports, and outside."""
    at, (a, b) = stages[i].numbers, _members(stages, stages[i])
    cA, cB = _some(outs[stages[i].left], a, 0), _some(outs[stages[i].right], b, 0)
    parts = (cA, at.a3_out), (cB, at.b3_out), (cA, at.a1_out), (cB, at.b2_out)
    c3, c4, cA, cB = (_some(own, places, 1) for own, places in parts)
    return c3, c4, cA, cB


def down(
    order: Order, merged: Merged, passing: Passing, into: jax.Array | None = None
) -> jax.Array:
    """`in` of all cells, from the whole down to them, with what comes in there if it is open."""
    stages = order.stages
    found: list[list[tuple[np.ndarray, jax.Array]]] = [[] for _ in stages]
    if into is not None:
        found[-1].append((np.zeros(1, dtype=np.int64), into[None]))
    for i in range(len(stages) - 1, -1, -1):
        stage, join = stages[i], merged.joins[i]
        if stage.cells is not None:
            continue
        at, (a3, b3) = stage.numbers, passing[i]
        outside = _gathered(found[i]) if found[i] else jnp.zeros((1, sum(stage.sizes.taken)))
        if join is not None:
            a3, b3 = a3 + times(join.S_a, outside), b3 + times(join.S_b, outside)
        n1 = len(at.a1_in)
        a, b = _members(stages, stage)
        parts = (
            (stage.left, a, outside[:, :n1], a3, at.a1_in, at.a3_in),
            (stage.right, b, outside[:, n1:], b3, at.b2_in, at.b3_in),
        )
        for child, members, other, three, at_other, at_three in parts:
            place = np.argsort(np.concatenate([at_other, at_three]))
            rows = _some(jnp.concatenate([other, three], axis=1), place, 1)
            found[child].append((members, rows))
    return next(_gathered(own) for s, own in zip(stages, found, strict=True) if s.cells is not None)


def _gathered(parts: list[tuple[np.ndarray, jax.Array]]) -> jax.Array:
    """Rows of all members of a stage, in their order."""
    place = np.argsort(np.concatenate([members for members, _ in parts]))
    return _some(jnp.concatenate([rows for _, rows in parts]), place, 0)
