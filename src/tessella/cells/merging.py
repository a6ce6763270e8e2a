"""Cells joined by their maps: what goes in at their ports decides what comes out.

A cell answers incoming data with out = T in + c. Two cells A and B joined at the ports 3, with 1
and 2 the other ports of A and of B, exchange in_A3 = out_B3 and in_B3 = out_A3, so that

    in_A3 = (I - T_B33 T_A33)^-1 (T_B33 (T_A31 in_1 + c_A3) + T_B32 in_2 + c_B3)
    in_B3 = T_A33 in_A3 + T_A31 in_1 + c_A3

(Redheffer's star product), and what is left on the outside is again a cell with a map. T is made on
the way up once; every right-hand side goes up as c and comes down as `in`.

Sums over all cells (integrals, measurements of what walls leave open) are further rows of T that
nobody takes: they add up, and the whole solves for them in the least-squares sense together with
its last exchange and with what comes in at ports that were left open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from tessella.cells.joining import Numbers, Order, Stage
from tessella.cells.shelf import Shelf
from tessella.cells.solvers import Merging
from tessella.linalg.iterative.iteration import History, SolverResult, Stop
from tessella.machine.arrays import Array
from tessella.machine.threads import in_parallel

SINGULAR = 1e-11
"""A last exchange whose reciprocal condition number is below this has no unique solution."""

EXACT = 1e-13
"""Relative residual of the exchange that is left as it is."""

TOGETHER = 8
"""Joins that are made in one call of a batched product."""


class Maps(NamedTuple):
    """T (distinct, out, in) of the members of a stage that differ, the rows of sums E (distinct,
    sums, in), and their names."""

    T: Array
    E: Array
    names: tuple[bytes, ...]


class Distinct(NamedTuple):
    """Of a stage's members, which have the same numbers: `which` of the distinct ones each is, and
    these as pairs of distinct members of both children."""

    which: np.ndarray
    pairs: np.ndarray


def distinct_members(order: Order, leaves: Sequence[np.ndarray | None]) -> list[Distinct]:
    """Of all stages, given that of the single cells."""
    found: list[Distinct] = []
    for stage, own in zip(order.stages, leaves, strict=True):
        if own is not None:
            count = int(own.max()) + 1
            found.append(Distinct(own, np.zeros((count, 2), dtype=np.int64)))
            continue
        left, right = found[stage.left], found[stage.right]
        base = max(len(right.pairs), 1)
        key = left.which[stage.pairs[:, 0]] * base + right.which[stage.pairs[:, 1]]
        keys, which = np.unique(key, return_inverse=True)
        found.append(Distinct(which, np.stack([keys // base, keys % base], axis=1)))
    return found


class Join(NamedTuple):
    """What joining leaves for right-hand sides, for every distinct pair: the inverse of the
    exchange, in_A3 and in_B3 from what comes in outside, and the blocks that c passes.

    Of the last join the inverse is left to `Whole`, and S are not yet divided by the exchange.
    """

    inverse: Array
    S_a: Array
    S_b: Array
    A33: Array
    B33: Array
    A13: Array
    B23: Array
    E_a: Array
    E_b: Array


@dataclass(frozen=True)
class Whole:
    """The last exchange, with the sums and with what comes in at ports that were left open.

    Square and regular it is solved as it is, otherwise in the least-squares sense.
    """

    rows: Array
    taken: int
    weights: Array
    factors: tuple[Array, Array] | None
    condition: float

    @staticmethod
    def of(rows: Array, taken: int, weights: Array) -> Whole:
        n = len(rows)
        if rows.shape != (n, n) or n == 0:
            return Whole(rows, taken, weights, None, 1.0)
        lu, pivots, info = lapack.dgetrf(rows)
        size = float(np.max(np.sum(np.abs(rows), axis=0)))
        share = lapack.dgecon(lu, size)[0] if info == 0 and np.isfinite(size) else 0.0
        condition = 1 / share if share > 0 else np.inf
        factors = (lu, pivots) if share > SINGULAR else None
        return Whole(rows, taken, weights, factors, condition)

    @property
    def undetermined(self) -> bool:
        """Whether nothing fixes what the last exchange leaves open."""
        return self.condition > 1 / SINGULAR

    def solve(self, right: Array, sums: Array) -> tuple[Array, Array]:
        """in_A3 and what comes in outside, (1, n) each."""
        if self.factors is not None:
            x = lapack.dgetrs(*self.factors, np.concatenate([right, sums]))[0]
        elif self.rows.size:
            weight = np.concatenate([np.ones(len(right)), self.weights])
            given = weight * np.concatenate([right, sums])
            x = scipy.linalg.lstsq(weight[:, None] * self.rows, given, cond=1e-13)[0]
        else:
            x = np.zeros(self.rows.shape[1])
        return x[None, : self.taken], x[None, self.taken :]


def _take(T: Array, rows: np.ndarray, columns: np.ndarray) -> Array:
    return T[:, rows[:, None], columns]


def _blocks(TA: Array, TB: Array, at: Numbers) -> tuple[Array, ...]:
    """A33, A31, A13, A11, B33, B32, B23, B22."""
    return (
        _take(TA, at.a3_out, at.a3_in),
        _take(TA, at.a3_out, at.a1_in),
        _take(TA, at.a1_out, at.a3_in),
        _take(TA, at.a1_out, at.a1_in),
        _take(TB, at.b3_out, at.b3_in),
        _take(TB, at.b3_out, at.b2_in),
        _take(TB, at.b2_out, at.b3_in),
        _take(TB, at.b2_out, at.b2_in),
    )


def join_maps(TA: Array, EA: Array, TB: Array, EB: Array, at: Numbers) -> tuple[Array, Array, Join]:
    """The maps of joined cells, their sums, and what remains of the join."""
    A33, A31, A13, A11, B33, B32, B23, B22 = _blocks(TA, TB, at)
    n1, o1 = A31.shape[2], A11.shape[1]
    exchange: Any = np.eye(A33.shape[2]) - B33 @ A33
    inverse = np.linalg.inv(exchange)
    right = np.empty((len(TA), B33.shape[1], n1 + B32.shape[2]))
    np.matmul(B33, A31, out=right[:, :, :n1])
    right[:, :, n1:] = B32
    S_a = inverse @ right
    S_b = A33 @ S_a
    S_b[:, :, :n1] += A31
    T = np.empty((len(TA), o1 + B22.shape[1], right.shape[2]))
    np.matmul(A13, S_a, out=T[:, :o1])
    np.matmul(B23, S_b, out=T[:, o1:])
    T[:, :o1, :n1] += A11
    T[:, o1:, n1:] += B22
    E_a, E_b = EA[:, :, at.a3_in], EB[:, :, at.b3_in]
    E = E_a @ S_a + E_b @ S_b
    E[:, :, :n1] += EA[:, :, at.a1_in]
    E[:, :, n1:] += EB[:, :, at.b2_in]
    return T, E, Join(inverse, S_a, S_b, A33, B33, A13, B23, E_a, E_b)


def _join_last(
    TA: Array, EA: Array, TB: Array, EB: Array, at: Numbers, weights: Array
) -> tuple[Whole, Join]:
    """The rows of the last exchange and of the sums, as functions of (in_A3, in_1, in_2)."""
    A33, A31, A13, _, B33, B32, B23, _ = _blocks(TA, TB, at)
    exchange = np.eye(A33.shape[2]) - B33 @ A33
    right = np.concatenate([B33 @ A31, B32], axis=2)
    E_a, E_b = EA[:, :, at.a3_in], EB[:, :, at.b3_in]
    sums = [E_a + E_b @ A33, EA[:, :, at.a1_in] + E_b @ A31, EB[:, :, at.b2_in]]
    rows = np.concatenate(
        [np.concatenate([exchange, -right], axis=2), np.concatenate(sums, axis=2)], axis=1
    )
    whole = Whole.of(rows[0], exchange.shape[1], weights)
    return whole, Join(exchange, right, A31, A33, B33, A13, B23, E_a, E_b)


@dataclass(frozen=True)
class Merged:
    """All joins of an order, ready for right-hand sides.

    joins   per stage with children: what `up` and `down` need, None for single cells
    reused  joins that an earlier solve had made
    """

    order: Order
    leaves: tuple[Maps | None, ...]
    distinct: tuple[Distinct, ...]
    joins: tuple[Join | None, ...]
    whole: Whole
    reused: int

    solver: ClassVar[Merging] = Merging()

    @property
    def growth(self) -> float:
        """The largest number in the inverse of an exchange: by so much a group of cells that is
        nearly resonant magnifies rounding errors."""
        inner = [join.inverse for join in self.joins[:-1] if join is not None]
        return max((float(np.max(np.abs(x))) for x in inner if x.size), default=1.0)

    def solve(
        self, c: Sequence[Array | None], sums: Sequence[Array | None], values: Array
    ) -> tuple[list[Array], SolverResult]:
        """`in` of all single cells, given their c (members, out), their parts of the sums
        (members, sums) and what these should be; per stage of single cells."""
        taken = self._once(c, sums, values)
        size = _norm(taken)
        missed = self._missed(taken, c, sums, values)
        error, last = _norm(missed[0]) / (size or 1.0), np.inf
        while EXACT < error < last / 4:
            more = self._once(*missed)
            taken = [x + y for x, y in zip(taken, more, strict=True)]
            missed = self._missed(taken, c, sums, values)
            error, last = _norm(missed[0]) / (size or 1.0), error
        return taken, SolverResult(None, 0, Stop.DIRECT, History(), error)

    def _once(
        self, c: Sequence[Array | None], sums: Sequence[Array | None], values: Array
    ) -> list[Array]:
        passing, right, total = self._up(c, sums)
        return self._down(passing, right, values - total)

    def _missed(
        self,
        taken: Sequence[Array],
        c: Sequence[Array | None],
        sums: Sequence[Array | None],
        values: Array,
    ) -> tuple[list[Array | None], list[Array | None], Array]:
        """What exchange and sums of this `in` leave over, as right-hand sides for a correction.

        A group of cells may be nearly resonant where the whole is not, and magnify rounding errors
        on the way; a correction or two take them out again.
        """
        order, left = self.order, np.array(values, dtype=np.float64)
        outs: list[Array | None] = []
        x = np.zeros(order.size)
        for place, own, one, mine, given, part in zip(
            order.taken, self.leaves, self.distinct, taken, c, sums, strict=True
        ):
            if place is None or own is None or given is None or part is None:
                outs.append(None)
                continue
            outs.append(apply_maps(own.T, one.which, mine) + given)
            left -= np.sum(apply_maps(own.E, one.which, mine) + part, axis=0)
            x[place] = mine
        apart = gathered_outputs(order, outs) - x
        apart[self.open_places] = 0.0
        again = [None if place is None else apart[place] for place in order.given]
        none = [None if part is None else np.zeros_like(part) for part in sums]
        return again, none, left

    @cached_property
    def open_places(self) -> np.ndarray:
        """Where something is taken that no neighbour gives."""
        taken_by_none = np.ones(self.order.size, dtype=bool)
        for place in self.order.given:
            if place is not None:
                taken_by_none[place] = False
        return np.flatnonzero(taken_by_none)

    def _up(
        self, c: Sequence[Array | None], sums: Sequence[Array | None]
    ) -> tuple[list[tuple[Array, Array]], Array, Array]:
        """Of every stage in_A3 and in_B3 if nothing came in from outside; of the whole the
        right-hand side of its last exchange, and the sums."""
        outs: list[Any] = list(c)
        parts: list[Any] = list(sums)
        passing: list[tuple[Array, Array]] = []
        stages = self.order.stages
        for i, (stage, join) in enumerate(zip(stages, self.joins, strict=True)):
            if join is None:
                passing.append((np.zeros((0, 0)), np.zeros((0, 0))))
                continue
            at, which = stage.numbers, self.distinct[i].which
            a, b = stage.pairs.T
            cA, cB = outs[stage.left][a], outs[stage.right][b]
            total = parts[stage.left][a] + parts[stage.right][b]
            c3 = cA[:, at.a3_out]
            right = apply_maps(join.B33, which, c3) + cB[:, at.b3_out]
            if i == len(stages) - 1:
                total += apply_maps(join.E_b, which, c3)
                return [*passing, (right, c3)], right[0], total[0]
            a3 = apply_maps(join.inverse, which, right)
            b3 = apply_maps(join.A33, which, a3) + c3
            outs[i] = np.concatenate(
                [
                    cA[:, at.a1_out] + apply_maps(join.A13, which, a3),
                    cB[:, at.b2_out] + apply_maps(join.B23, which, b3),
                ],
                axis=1,
            )
            total += apply_maps(join.E_a, which, a3) + apply_maps(join.E_b, which, b3)
            parts[i] = total
            passing.append((a3, b3))
        raise AssertionError("an order ends with a join")

    def _down(self, passing: list[tuple[Array, Array]], right: Array, sums: Array) -> list[Array]:
        stages = self.order.stages
        taken = [np.zeros((s.count, sum(s.sizes.taken))) for s in stages]
        for i in range(len(stages) - 1, -1, -1):
            stage, join = stages[i], self.joins[i]
            if join is None:
                continue
            at, which, (a3, b3) = stage.numbers, self.distinct[i].which, passing[i]
            n1 = len(at.a1_in)
            if i == len(stages) - 1:
                a3, outside = self.whole.solve(right, sums)
                b3 = b3 + a3 @ join.A33[0].T + outside[:, :n1] @ join.S_b[0].T
            else:
                outside = taken[i]
                a3 = a3 + apply_maps(join.S_a, which, outside)
                b3 = b3 + apply_maps(join.S_b, which, outside)
            a, b = stage.pairs.T
            taken[stage.left][a[:, None], at.a1_in] = outside[:, :n1]
            taken[stage.left][a[:, None], at.a3_in] = a3
            taken[stage.right][b[:, None], at.b2_in] = outside[:, n1:]
            taken[stage.right][b[:, None], at.b3_in] = b3
        return taken


def _norm(parts: Sequence[Array | None]) -> float:
    return math.sqrt(sum(float(np.sum(x**2)) for x in parts if x is not None))


def gathered_outputs(order: Order, outs: Sequence[Array | None]) -> Array:
    """What all cells give, where others take it."""
    found = np.zeros(order.size)
    for place, own in zip(order.given, outs, strict=True):
        if place is not None and own is not None:
            found[place] = own
    return found


def apply_maps(matrices: Array, which: np.ndarray, x: Array) -> Array:
    """matrices[which[i]] @ x[i] for all i, x (members, n)."""
    if len(matrices) == 1:
        return np.asarray(x @ matrices[0].T)
    if len(matrices) == len(x):
        found = np.asarray((matrices @ x[np.argsort(which)][:, :, None])[:, :, 0])
        return found[which]
    found = np.zeros((len(x), matrices.shape[1]))
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(len(matrices) + 1)).tolist()
    for k, matrix in enumerate(matrices):
        own = order[starts[k] : starts[k + 1]]
        found[own] = x[own] @ matrix.T
    return found


def merge(
    order: Order,
    leaves: Sequence[Maps | None],
    distinct: Sequence[Distinct],
    weights: Array,
    shelf: Shelf | None = None,
) -> Merged:
    """Join everything; `leaves` are the maps of the stages of single cells."""
    stages = order.stages
    maps: list[Any] = list(leaves)
    joins: list[Join | None] = []
    reused = 0
    for i, stage in enumerate(stages):
        if stage.cells is not None:
            joins.append(None)
            continue
        left, right, pairs = maps[stage.left], maps[stage.right], distinct[i].pairs
        if i == len(stages) - 1:
            (a,), (b,) = pairs.T
            whole, join = _join_last(
                left.T[a : a + 1], left.E[a : a + 1], right.T[b : b + 1], right.E[b : b + 1],
                stage.numbers, weights,
            )  # fmt: skip
        else:
            maps[i], join, again = _merge_stage(stage, left, right, pairs, shelf)
            reused += again
        joins.append(join)
        for child in (stage.left, stage.right):
            if order.last_use[child] == i:
                maps[child] = None
    return Merged(order, tuple(leaves), tuple(distinct), tuple(joins), whole, reused)


def _merge_stage(
    stage: Stage, left: Maps, right: Maps, pairs: np.ndarray, shelf: Shelf | None
) -> tuple[Maps, Join, int]:
    names = tuple(
        blake2b(left.names[a] + right.names[b] + stage.name, digest_size=16).digest()
        for a, b in pairs.tolist()
    )
    known = [None if shelf is None else shelf.join(name) for name in names]
    fresh = [i for i, one in enumerate(known) if one is None]

    def one(part: list[int]) -> tuple[Array, Array, Join]:
        a, b = pairs[part].T
        return join_maps(left.T[a], left.E[a], right.T[b], right.E[b], stage.numbers)

    step = TOGETHER if len(fresh) > TOGETHER else 1
    pieces = [fresh[i : i + step] for i in range(0, len(fresh), step)]
    results = in_parallel(one, pieces, len(fresh) * stage.flops)
    if len(results) == 1 and len(fresh) == len(names):
        T, E, join = results[0]
    else:
        T, E, join = _gathered(results, pieces, known)
    if shelf is not None:
        for i in fresh:
            shelf.put_join(names[i], (T[i], E[i], tuple(x[i] for x in join)))
    return Maps(T, E, names), join, len(names) - len(fresh)


def _gathered(
    results: list[tuple[Array, Array, Join]], pieces: list[list[int]], known: list[Any]
) -> tuple[Array, Array, Join]:
    """Pieces in the order of their pairs, with those that were known in between."""
    every = list(known)
    for part, (T, E, join) in zip(pieces, results, strict=True):
        for i, number in enumerate(part):
            every[number] = (T[i], E[i], tuple(x[i] for x in join))
    T, E = np.stack([one[0] for one in every]), np.stack([one[1] for one in every])
    return T, E, Join(*(np.stack([one[2][k] for one in every]) for k in range(len(Join._fields))))
