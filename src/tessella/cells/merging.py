"""Cells joined by their maps: what goes in at their ports decides what comes out.

A cell answers incoming data with out = T in + c. Two cells A and B joined at the ports 3, with 1
and 2 the other ports of A and of B, exchange in_A3 = out_B3 and in_B3 = out_A3, so that

    in_A3 = (I - T_B33 T_A33)^-1 (T_B33 (T_A31 in_1 + c_A3) + T_B32 in_2 + c_B3)
    in_B3 = T_A33 in_A3 + T_A31 in_1 + c_A3

(Redheffer's star product), and what is left on the outside is again a cell with a map. T is made on
the way up once; every right-hand side goes up as c and comes down as `in`.

Sums over all cells (integrals, measurements of what walls leave open) are further rows of T that
nobody takes: they add up, and the whole solves for them in the least-squares sense together with
its last exchange and with what came in at ports that were left open.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from tessella.cells.joining import Order, Stage, of_ports
from tessella.cells.shelf import Shelf
from tessella.cells.solvers import Merging
from tessella.domain import Array
from tessella.linalg.iteration import History, SolverResult, Stop
from tessella.linalg.threads import side_by_side

SINGULAR = 1e-11
"""A last exchange whose reciprocal condition number is below this has no unique solution."""


class Maps(NamedTuple):
    """T (distinct, out, in) of the members of a stage that differ, the rows of sums E (distinct,
    sums, in), which of them each member is, and their names."""

    T: Array
    E: Array
    which: np.ndarray
    names: tuple[bytes, ...]


class Numbers(NamedTuple):
    """Positions in a stage's vectors: closed ports (3) and the others, taken and given."""

    a3_in: np.ndarray
    a3_out: np.ndarray
    a1_in: np.ndarray
    a1_out: np.ndarray
    b3_in: np.ndarray
    b3_out: np.ndarray
    b2_in: np.ndarray
    b2_out: np.ndarray


def _numbers(stage: Stage, stages: Sequence[Stage]) -> Numbers:
    left, right = stages[stage.left].sizes, stages[stage.right].sizes
    a3, b3 = [i for i, _ in stage.closed], [j for _, j in stage.closed]
    a1 = [i for i in range(len(left.taken)) if i not in set(a3)]
    b2 = [i for i in range(len(right.taken)) if i not in set(b3)]
    parts = []
    for sizes, three, rest in ((left, a3, a1), (right, b3, b2)):
        parts += [of_ports(sizes.taken, three), of_ports(sizes.given, three)]
        parts += [of_ports(sizes.taken, rest), of_ports(sizes.given, rest)]
    return Numbers(*parts)


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
        regular = share > SINGULAR
        condition = 1 / share if share > 0 else np.inf
        return Whole(rows, taken, weights, (lu, pivots) if regular else None, condition)

    def solve(self, right: Array, sums: Array) -> tuple[Array, Array]:
        """in_A3 and what comes in outside, both (1, n, R)."""
        if self.factors is not None:
            x = lapack.dgetrs(*self.factors, right)[0]
        elif self.rows.size:
            weight = np.concatenate([np.ones(len(right)), self.weights])[:, None]
            given = np.concatenate([right, sums])
            x = scipy.linalg.lstsq(weight * self.rows, weight * given, cond=1e-13)[0]
        else:
            x = np.zeros((self.rows.shape[1], right.shape[1]))
        return x[None, : self.taken], x[None, self.taken :]


class Join(NamedTuple):
    """What joining leaves for right-hand sides, for every distinct pair: the inverse of the
    exchange, in_A3 and in_B3 from what comes in outside, and the blocks that c passes."""

    inverse: Array
    S_a: Array
    S_b: Array
    A33: Array
    B33: Array
    A13: Array
    B23: Array
    E_a: Array
    E_b: Array
    root: Array | None = None


NUMBERS = 9
"""Fields of a Join that every join has."""


def _take(T: Array, rows: np.ndarray, columns: np.ndarray) -> Array:
    return np.ascontiguousarray(T[:, rows[:, None], columns])


def _joined(
    TA: Array, EA: Array, TB: Array, EB: Array, at: Numbers, last: bool
) -> tuple[Array, Array, Join]:
    """The maps of joined cells and what remains of the join; of the last one, rows to be solved."""
    A33, A31 = _take(TA, at.a3_out, at.a3_in), _take(TA, at.a3_out, at.a1_in)
    B33, B32 = _take(TB, at.b3_out, at.b3_in), _take(TB, at.b3_out, at.b2_in)
    A13, A11 = _take(TA, at.a1_out, at.a3_in), _take(TA, at.a1_out, at.a1_in)
    B23, B22 = _take(TB, at.b2_out, at.b3_in), _take(TB, at.b2_out, at.b2_in)
    n1, o1 = A31.shape[2], A11.shape[1]
    D: Any = np.eye(A33.shape[2]) - B33 @ A33
    right = np.concatenate([B33 @ A31, B32], axis=2)
    if last:
        rows = np.concatenate([np.concatenate([D, -right], axis=2),
                               _sum_rows(EA, EB, A33, A31, at)], axis=1)  # fmt: skip
        nothing = np.zeros((len(D), 0, 0))
        return nothing, nothing, Join(D, right, A31, A33, B33, A13, B23, EA, EB, rows[0])
    inverse: Array = np.linalg.inv(D)
    S_a = inverse @ right
    S_b = A33 @ S_a
    S_b[:, :, :n1] += A31
    T = np.concatenate([A13 @ S_a, B23 @ S_b], axis=1)
    T[:, :o1, :n1] += A11
    T[:, o1:, n1:] += B22
    E = EA[:, :, at.a3_in] @ S_a + EB[:, :, at.b3_in] @ S_b
    E[:, :, :n1] += EA[:, :, at.a1_in]
    E[:, :, n1:] += EB[:, :, at.b2_in]
    return T, E, Join(inverse, S_a, S_b, A33, B33, A13, B23, EA, EB)


def _sum_rows(EA: Array, EB: Array, A33: Array, A31: Array, at: Numbers) -> Array:
    """Of the last join: the sums as functions of (in_A3, in_1, in_2)."""
    on_b = EB[:, :, at.b3_in]
    return np.concatenate(
        [
            EA[:, :, at.a3_in] + on_b @ A33,
            EA[:, :, at.a1_in] + on_b @ A31,
            EB[:, :, at.b2_in],
        ],
        axis=2,
    )


@dataclass(frozen=True)
class Merged:
    """All joins of an order, ready for right-hand sides.

    maps    of the stages of single cells
    joins   per stage with children: what `up` and `down` need, None for single cells
    reused  joins that an earlier solve had made
    """

    order: Order
    which: tuple[np.ndarray, ...]
    numbers: tuple[Numbers | None, ...]
    joins: tuple[Join | None, ...]
    reused: int
    made: int
    whole: Whole
    """The last exchange, factored."""

    solver: ClassVar[Merging] = Merging()

    def solve(
        self, c: Sequence[Array | None], sums: Sequence[Array | None], values: Array
    ) -> tuple[list[Array], SolverResult]:
        """`in` of all single cells, given their c (members, out, R), their parts of the sums
        (members, sums, R) and what these should be (sums, R); per stage of single cells."""
        taken = _down(self, *_up(self, c, sums), values)
        return taken, SolverResult(None, 0, Stop.DIRECT, History(), 0.0)


def merge(
    order: Order,
    leaves: Sequence[Maps | None],
    weights: Array,
    shelf: Shelf | None = None,
) -> Merged:
    """Join everything; `leaves` are the maps of the stages of single cells."""
    stages = order.stages
    maps: list[Maps | None] = list(leaves)
    numbers: list[Numbers | None] = []
    joins: list[Join | None] = []
    reused = made = 0
    for i, stage in enumerate(stages):
        if stage.cells is not None:
            numbers.append(None)
            joins.append(None)
            continue
        last = i == len(stages) - 1
        stage_numbers, found, kept, again = _merge_stage(stage, stages, maps, last, shelf)
        numbers.append(stage_numbers)
        joins.append(kept)
        maps[i] = found
        reused += again
        made += len(found.names) - again
        for child in (stage.left, stage.right):
            if _last_use(stages, child) == i:
                old = maps[child]
                assert old is not None
                maps[child] = old._replace(T=old.T[:0], E=old.E[:0])
    last_join = joins[-1]
    assert last_join is not None and last_join.root is not None
    whole = Whole.of(last_join.root, last_join.inverse.shape[1], weights)
    which = tuple(one.which for one in maps if one is not None)
    return Merged(order, which, tuple(numbers), tuple(joins), reused, made, whole)


def distinct_members(order: Order, leaves: Sequence[Maps | None]) -> list[int]:
    """How many members of every stage have numbers of their own."""
    which: list[np.ndarray] = []
    for stage, own in zip(order.stages, leaves, strict=True):
        if own is not None:
            which.append(own.which)
            continue
        members = np.array(stage.members)
        pairs = np.stack([which[stage.left][members[:, 0]], which[stage.right][members[:, 1]]])
        which.append(np.unique(pairs, axis=1, return_inverse=True)[1].ravel())
    return [int(own.max()) + 1 for own in which]


def _last_use(stages: Sequence[Stage], child: int) -> int:
    return max(i for i, s in enumerate(stages) if child in (s.left, s.right))


def _merge_stage(
    stage: Stage,
    stages: Sequence[Stage],
    maps: Sequence[Maps | None],
    last: bool,
    shelf: Shelf | None,
) -> tuple[Numbers, Maps, Join, int]:
    members = np.array(stage.members)
    left = maps[stage.left]
    assert left is not None
    right, at = maps[stage.right], _numbers(stage, stages)
    assert right is not None
    kinds = np.stack([left.which[members[:, 0]], right.which[members[:, 1]]], axis=1)
    pairs, which = np.unique(kinds, axis=0, return_inverse=True)
    which = which.ravel()
    tail = repr(stage.closed).encode()
    names = tuple(
        blake2b(left.names[a] + right.names[b] + tail, digest_size=16).digest()
        for a, b in pairs.tolist()
    )
    known = [shelf.join(name) if shelf is not None and not last else None for name in names]
    fresh = [i for i, one in enumerate(known) if one is None]
    n, m = len(at.a3_in), left.T.shape[1] + right.T.shape[1]

    def one(part: np.ndarray) -> tuple[Array, Array, Join]:
        a, b = pairs[part].T
        return _joined(left.T[a], left.E[a], right.T[b], right.E[b], at, last)

    pieces = [np.array(fresh[i : i + 8], dtype=int) for i in range(0, len(fresh), 8)]
    if 1 < len(fresh) <= 8:
        pieces = [np.array([i]) for i in fresh]
    flops = len(fresh) * (2.0 * n**3 + 8.0 * n * m * (n + m))
    results = side_by_side(one, pieces, flops)
    T, E, join = _gathered(results, pieces, known, len(names))
    if shelf is not None and not last:
        for i in fresh:
            shelf.put_join(names[i], (T[i], E[i], _one(join, i)))
    again = len(names) - len(fresh)
    return at, Maps(T, E, which, names), join, again


def _one(join: Join, number: int) -> Join:
    """The numbers of one of several pairs."""
    arrays: Any = join[:NUMBERS]
    return Join(*(x[number] for x in arrays))


def _gathered(
    results: list[tuple[Array, Array, Join]],
    pieces: list[np.ndarray],
    known: list[Any],
    count: int,
) -> tuple[Array, Array, Join]:
    """Pieces in the order of their pairs, with those that were known in between."""
    if len(results) == 1 and len(pieces[0]) == count:
        return results[0]
    every: list[Any] = list(known)
    for part, (T, E, join) in zip(pieces, results, strict=True):
        for i, number in enumerate(part.tolist()):
            every[number] = (T[i], E[i], _one(join, i))
    T, E = np.stack([one[0] for one in every]), np.stack([one[1] for one in every])
    join = Join(*(np.stack([one[2][k] for one in every]) for k in range(NUMBERS)))
    return T, E, join


def apply_maps(matrices: Array, which: np.ndarray, x: Array) -> Array:
    """matrices[which[i]] @ x[i] for all i, x (members, n, R)."""
    if len(matrices) == len(x) and len(x) > 1 and np.array_equal(which, np.arange(len(x))):
        return np.asarray(matrices @ x)
    found = np.zeros((len(x), matrices.shape[1], x.shape[2]))
    if not found.size:
        return found
    if len(matrices) == 1:
        flat = matrices[0] @ np.moveaxis(x, 0, 1).reshape(x.shape[1], len(x) * x.shape[2])
        return np.moveaxis(flat.reshape(len(flat), len(x), x.shape[2]), 1, 0)
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(len(matrices) + 1))
    for k in range(len(matrices)):
        own = order[starts[k] : starts[k + 1]]
        flat = matrices[k] @ np.moveaxis(x[own], 0, 1).reshape(x.shape[1], len(own) * x.shape[2])
        found[own] = np.moveaxis(flat.reshape(len(flat), len(own), x.shape[2]), 1, 0)
    return found


class _Passing(NamedTuple):
    """Of the members of a stage: in_A3 and in_B3 if nothing came in from outside."""

    a3: Array
    b3: Array


def _up(
    merged: Merged, c: Sequence[Array | None], sums: Sequence[Array | None]
) -> tuple[list[_Passing | None], Array, Array]:
    """The c of all stages; returns what is needed on the way down, and of the whole the right-hand
    side of its last exchange and the sums."""
    stages = merged.order.stages
    outs: list[Any] = list(c)
    parts: list[Any] = list(sums)
    passing: list[_Passing | None] = []
    for i, stage in enumerate(stages):
        join, at, which = merged.joins[i], merged.numbers[i], merged.which[i]
        if join is None or at is None:
            passing.append(None)
            continue
        members = np.array(stage.members)
        cA, cB = outs[stage.left][members[:, 0]], outs[stage.right][members[:, 1]]
        eA, eB = parts[stage.left][members[:, 0]], parts[stage.right][members[:, 1]]
        right = apply_maps(join.B33, which, cA[:, at.a3_out]) + cB[:, at.b3_out]
        if i == len(stages) - 1:
            b3 = cA[:, at.a3_out]
            total = eA + eB + apply_maps(join.E_b[:, :, at.b3_in], which, b3)
            return [*passing, _Passing(right, b3)], right[0], total[0]
        a3 = apply_maps(join.inverse, which, right)
        b3 = apply_maps(join.A33, which, a3) + cA[:, at.a3_out]
        outs[i] = np.concatenate(
            [
                cA[:, at.a1_out] + apply_maps(join.A13, which, a3),
                cB[:, at.b2_out] + apply_maps(join.B23, which, b3),
            ],
            axis=1,
        )
        gained = apply_maps(join.E_a[:, :, at.a3_in], which, a3)
        gained += apply_maps(join.E_b[:, :, at.b3_in], which, b3)
        parts[i] = eA + eB + gained
        passing.append(_Passing(a3, b3))
    raise AssertionError("an order ends with a join")


def _down(
    merged: Merged,
    passing: list[_Passing | None],
    right: Array,
    total: Array,
    values: Array,
) -> list[Array]:
    stages = merged.order.stages
    taken = [np.zeros((s.count, sum(s.sizes.taken), right.shape[-1])) for s in stages]
    for i in range(len(stages) - 1, -1, -1):
        stage, join, at = stages[i], merged.joins[i], merged.numbers[i]
        if join is None or at is None:
            continue
        members, which, own = np.array(stage.members), merged.which[i], passing[i]
        assert own is not None
        if join.root is not None:
            a3, outside = merged.whole.solve(right, values - total)
            b3 = own.b3 + join.A33 @ a3 + join.S_b @ outside[:, : join.S_b.shape[2]]
        else:
            outside = taken[i]
            a3 = own.a3 + apply_maps(join.S_a, which, outside)
            b3 = own.b3 + apply_maps(join.S_b, which, outside)
        n1 = len(at.a1_in)
        for child, number, rest, three, closed in (
            (stage.left, 0, at.a1_in, at.a3_in, a3),
            (stage.right, 1, at.b2_in, at.b3_in, b3),
        ):
            x = np.zeros((len(members), len(rest) + len(three), right.shape[-1]))
            x[:, rest] = outside[:, n1:] if number else outside[:, :n1]
            x[:, three] = closed
            taken[child][members[:, number]] = x
    return taken
