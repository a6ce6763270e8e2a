"""NestedQR on an accelerator: the fronts of a level assembled, factored and handed up together.

Fronts of similar size make a batch, padded with zeros to one of few sizes. Short tables say where
everything lies: a block's or a child's rows and columns in the front, a front's rows among those of
the right-hand side and the children, its columns among the unknowns. The host makes the tables and
reads one number per front: is its triangle regular? If not, it is pivoted, and its rank read too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
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
from tessella.linalg.block_matrix import BlockMatrix
from tessella.linalg.direct.elimination import Elimination, Front
from tessella.machine.arrays import Array, on_device

ALIKE = 0.5
"""Fronts of at least this share of a batch's rows and columns join it."""


class Second(NamedTuple):
    """Pivoted QR of own triangles that were not regular, and which fronts of the batch they are."""

    which: np.ndarray
    reflections: Reflections


@dataclass(frozen=True)
class Batch:
    """Fronts factored together, padded to N columns, M rows and `width` own columns.

    fronts   their numbers in the plan
    top      R's first rows, (B, N, width); own columns as pivoted
    rows     (B, M) places of their rows in [right-hand side, results of the level below]
    columns  (B, N) numbers of their unknowns, as ordered in `top`
    own      (B,) own columns, of which the first `kept` are not dependent
    size     (B,) rows that the QR leaves; what lies below is residual
    """

    fronts: list[int]
    Q: Reflections
    second: Second | None
    top: jax.Array
    rows: np.ndarray
    columns: np.ndarray
    own: np.ndarray
    kept: np.ndarray
    size: np.ndarray


@dataclass(frozen=True)
class DeviceFactors:
    """All batches, level by level from the leaves to the root."""

    plan: Elimination
    levels: list[list[Batch]]

    @property
    def kept(self) -> list[int]:
        """How many of its own columns every front kept."""
        found = [0] * len(self.plan.fronts)
        for level in self.levels:
            for batch in level:
                for i, count in zip(batch.fronts, batch.kept.tolist(), strict=True):
                    found[i] = count
        return found

    def solve(self, B: Array) -> tuple[Array, float]:
        """Least-squares solutions for the columns of B, and the squared norm of all residuals."""
        b = on_device(B.T)
        lost = [jnp.sum(b[:, self.plan.untouched] ** 2)]
        finished: list[list[jax.Array]] = [[]]
        for level in self.levels:
            found = []
            for batch in level:
                ends = batch.kept if level is self.levels[-1] else batch.size
                c, rest = _reduce(
                    batch.top.shape[2], batch.Q, batch.second, b, finished[-1], batch.rows, ends
                )
                found.append(c)
                lost.append(rest)
            finished.append(found)
        x = jnp.zeros((len(b), self.plan.shape[1]))
        for level, found in zip(reversed(self.levels), reversed(finished[1:]), strict=True):
            for batch, c in zip(level, found, strict=True):
                x = _substitute(x, batch.top, c, batch.own, batch.kept, batch.columns)
        x, lost = jax.device_get((x, lost))
        return x.T, float(sum(lost))


def factor_fronts(
    A: BlockMatrix,
    plan: Elimination,
    scale: Array,
    tolerance: float,
    report: Callable[[int], None],
) -> DeviceFactors:
    """All fronts, level by level, of the matrix whose columns are scaled by `scale`."""
    climb = _Climb(A, plan, scale)
    levels: list[list[Batch]] = []
    for number, level in enumerate(plan.levels):
        levels.append(climb.factor(level, tolerance))
        report(number)
    return DeviceFactors(plan, levels)


class _Climb:
    """Where things are while the fronts are being factored.

    below          batches of the level below, and `handed` their triangles (B, N, N)
    slot           front -> (its batch in the level, its place there)
    rows, kept     front -> its rows, and its own columns that were kept
    """

    def __init__(self, A: BlockMatrix, plan: Elimination, scale: Array) -> None:
        self.plan = plan
        self.groups = A.groups
        self.scales = [on_device(scale)[g.columns] for g in A.groups]
        self.home = [(g, b) for g, group in enumerate(A.groups) for b in range(len(group.heights))]
        self.below: list[Batch] = []
        self.handed: list[jax.Array] = []
        self.slot: dict[int, tuple[int, int]] = {}
        self.rows: dict[int, int] = {}
        self.kept: dict[int, int] = {}

    def left_over(self, i: int) -> int:
        """Rows that a front hands to its parent."""
        return min(self.rows[i], len(self.plan.fronts[i].columns)) - self.kept[i]

    def factor(self, level: list[int], tolerance: float) -> list[Batch]:
        """The batches of a level; all are on their way before the first is looked at."""
        for i in level:
            front = self.plan.fronts[i]
            self.rows[i] = len(front.rows) + sum(self.left_over(k) for k in front.children)
        begun = [self.begin(members) for members in self.batches(level)]
        bounds = jax.device_get([bound for _, _, bound in begun])
        batches: list[Batch] = []
        handed: list[jax.Array] = []
        for (batch, R, _), bound in zip(begun, bounds, strict=True):
            weak = np.flatnonzero(bound <= 10 * tolerance * np.maximum(batch.own, 1))
            if len(weak):
                batch, R = _revealed(batch, R, weak, tolerance)
            for place, (i, kept) in enumerate(zip(batch.fronts, batch.kept, strict=True)):
                self.slot[i], self.kept[i] = (len(batches), place), int(kept)
            batches.append(batch)
            handed.append(R)
        self.below, self.handed = batches, handed
        return batches

    def begin(self, members: list[int]) -> tuple[Batch, jax.Array, jax.Array]:
        """A batch as if all its own columns were kept; R; and how regular the own triangles are."""
        fronts = [self.plan.fronts[i] for i in members]
        N = padded_size(max(len(f.columns) for f in fronts))
        M = max(N, padded_size(max(self.rows[i] for i in members)))
        own = np.array([f.own for f in fronts])
        size = np.array([min(self.rows[i], len(self.plan.fronts[i].columns)) for i in members])
        sources = self.blocks(fronts), self.children(fronts)
        width = padded_size(int(own.max()))
        Q, top, R, bound = _factored((len(members), N, M), width, *sources, own)
        places = self.places(fronts, M), _columns(fronts, N)
        return Batch(members, Q, None, top, *places, own, own, size), R, bound

    def batches(self, level: list[int]) -> list[list[int]]:
        """The level's fronts in batches of similar size."""
        found: list[tuple[int, int, list[int]]] = []
        sizes = {i: (self.rows[i], len(self.plan.fronts[i].columns)) for i in level}
        for i in sorted(level, key=lambda i: -sizes[i][0] * sizes[i][1]):
            m, n = sizes[i]
            for M, N, members in found:
                if ALIKE * M <= m <= M and ALIKE * N <= n <= N:
                    members.append(i)
                    break
            else:
                found.append((m, n, [i]))
        return [members for _, _, members in found]

    def blocks(self, fronts: list[Front]) -> list[tuple[jax.Array | np.ndarray, ...]]:
        """Sources for `_factored`: the fronts' parts of the matrix's blocks, group by group."""
        parts: list[list[tuple[int, int, np.ndarray, np.ndarray, int]]] = [[] for _ in self.groups]
        for f, front in enumerate(fronts):
            for piece in front.pieces:
                g, b = self.home[piece.block]
                parts[g].append((f, b, piece.block_rows, piece.rows, piece.offset))
        found: list[tuple[jax.Array | np.ndarray, ...]] = []
        for g, own in enumerate(parts):
            if not own:
                continue
            group = self.groups[g]
            pick = np.array([b for _, b, *_ in own])
            rows = np.full((len(own), group.values.shape[2]), NOWHERE, dtype=np.int32)
            for k, (_, _, there, here, _) in enumerate(own):
                rows[k, there] = here
            column = np.arange(group.values.shape[1])
            columns = np.array([part[4] for part in own])[:, None] + column
            columns[column >= group.widths[pick][:, None]] = NOWHERE
            places = np.array([f for f, *_ in own]), columns, rows
            found.append((group.values, self.scales[g], pick, *places))
        return found

    def children(self, fronts: list[Front]) -> list[tuple[jax.Array | np.ndarray, ...]]:
        """Sources for `_factored`: what the fronts' children left over, batch by batch."""
        tables = [
            (
                np.full(len(R), NOWHERE),
                np.full((len(R), R.shape[1]), NOWHERE, dtype=np.int32),
                np.full((len(R), R.shape[2]), NOWHERE, dtype=np.int32),
            )
            for R in self.handed
        ]
        for f, front in enumerate(fronts):
            start = len(front.rows)
            for k, into in zip(front.children, front.into, strict=True):
                batch, slot = self.slot[k]
                target, columns, rows = tables[batch]
                child, count, kept = self.plan.fronts[k], self.left_over(k), self.kept[k]
                target[slot] = f
                columns[slot, child.own : len(child.columns)] = into
                rows[slot, kept : kept + count] = start + np.arange(count)
                start += count
        return [
            (R, *table)
            for R, table in zip(self.handed, tables, strict=True)
            if np.any(table[0] != NOWHERE)
        ]

    def places(self, fronts: list[Front], M: int) -> np.ndarray:
        """`Batch.rows`."""
        rows = np.full((len(fronts), M), NOWHERE, dtype=np.int32)
        sizes = [batch.rows.size for batch in self.below]
        first = self.plan.shape[0] + np.cumsum([0, *sizes])
        for f, front in enumerate(fronts):
            start = len(front.rows)
            rows[f, :start] = front.rows
            for k in front.children:
                batch, slot = self.slot[k]
                count = self.left_over(k)
                begin = first[batch] + slot * self.below[batch].rows.shape[1] + self.kept[k]
                rows[f, start : start + count] = begin + np.arange(count)
                start += count
        return rows


def _revealed(
    batch: Batch, R: jax.Array, weak: np.ndarray, tolerance: float
) -> tuple[Batch, jax.Array]:
    """The batch and its R with the own columns of some fronts pivoted, dependent ones last."""
    which = padded_choice(weak)
    top, R, found = _pivoted(batch.top, R, which, batch.own, tolerance)
    kept, columns = batch.kept.copy(), batch.columns.copy()
    ranks, orders = jax.device_get((found.rank, found.order))
    for place, rank, order in zip(weak.tolist(), ranks.tolist(), orders, strict=False):
        kept[place] = rank
        columns[place, :rank] = columns[place, order[:rank]]
    second = Second(which, found.reflections)
    return replace(batch, second=second, top=top, kept=kept, columns=columns), R


def _columns(fronts: list[Front], N: int) -> np.ndarray:
    columns = np.full((len(fronts), N), NOWHERE, dtype=np.int32)
    for f, front in enumerate(fronts):
        columns[f, : len(front.columns)] = front.columns
    return columns


@partial(jax.jit, static_argnums=(0, 1))
def _factored(
    shape: tuple[int, int, int],
    width: int,
    blocks: list[tuple[jax.Array, ...]],
    children: list[tuple[jax.Array, ...]],
    own: jax.Array,
) -> tuple[Reflections, jax.Array, jax.Array, jax.Array]:
    """Q, the first `width` rows of R, the whole of R, and how regular the own triangles are."""
    F = jnp.zeros(shape)
    for values, scale, pick, *places in blocks:
        F = _put(F, values[pick] * scale[pick][:, :, None], *places)
    for values, *places in children:
        F = _put(F, values, *places)
    Q = qr(F)
    top = triangle(Q.packed, width)
    return Q, top, triangle(Q.packed, shape[1]), smallest(leading(top[:, :width], own))


def _put(
    F: jax.Array, values: jax.Array, front: jax.Array, columns: jax.Array, rows: jax.Array
) -> jax.Array:
    at = F.at[front[:, None, None], columns[:, :, None], rows[:, None, :]]
    return at.set(values, mode="drop", unique_indices=True)


@jax.jit
def _pivoted(
    top: jax.Array, R: jax.Array, which: jax.Array, own: jax.Array, tolerance: float
) -> tuple[jax.Array, jax.Array, Pivoted]:
    """`top` and R with the own columns of some fronts pivoted, and how."""
    turned, found = pivot_leading(top, which, own, tolerance, 0.0)
    top = top.at[which].set(turned, mode="drop")
    return top, R.at[which, :, : top.shape[2]].set(turned, mode="drop"), found


@partial(jax.jit, static_argnums=0)
def _reduce(
    width: int,
    Q: Reflections,
    second: Second | None,
    b: jax.Array,
    below: list[jax.Array],
    rows: jax.Array,
    ends: jax.Array,
) -> tuple[jax.Array, jax.Array]:
    """Q^T c of every front, (B, k, M), and the squares of what lies below row `ends`."""
    parts = [b, *(c.transpose(1, 0, 2).reshape(len(b), -1) for c in below)]
    c = jnp.take(jnp.concatenate(parts, axis=1), rows, axis=1, mode="fill", fill_value=0.0)
    c = transpose_times(Q, c.transpose(1, 0, 2))
    if second is not None:
        some = jnp.take(c, second.which, axis=0, mode="clip")[:, :, :width]
        turned = transpose_times(second.reflections, some)
        c = c.at[second.which, :, :width].set(turned, mode="drop")
    rest = jnp.where(jnp.arange(c.shape[2]) >= ends[:, None, None], c, 0.0)
    return c, jnp.sum(rest**2)


@jax.jit
def _substitute(
    x: jax.Array, top: jax.Array, c: jax.Array, own: jax.Array, kept: jax.Array, columns: jax.Array
) -> jax.Array:
    """x with the own unknowns of every front filled in, given those of the ancestors."""
    N, width = top.shape[1:]
    known = jnp.take(x, columns, axis=1, mode="fill", fill_value=0.0).transpose(1, 0, 2)
    known = jnp.where(jnp.arange(N) >= own[:, None, None], known, 0.0)
    mine = jnp.arange(width) < kept[:, None]
    fitted = c[:, :, :width] - jnp.einsum("bkn,bno->bko", known, top)
    found = back_substitute(leading(top[:, :width], kept), jnp.where(mine[:, None, :], fitted, 0.0))
    target = jnp.where(mine, columns[:, :width], NOWHERE)
    return x.at[:, target].set(found.transpose(1, 0, 2), mode="drop")
