"""Two cells, or groups of cells, as one.

A cell answers incoming data with out = T in + c. Two cells A and B joined at the ports 3, with 1
and 2 the other ports of A and of B, exchange in_A3 = out_B3 and in_B3 = out_A3, so that

    [in_A3; in_B3] = K [T_A31 in_1 + c_A3; T_B32 in_2 + c_B3]

    K = [D^-1 T_B33, D^-1; I + T_A33 D^-1 T_B33, T_A33 D^-1],     D = I - T_B33 T_A33

(Redheffer's star product), and what is left on the outside is again a cell with a map.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from tessella.cells.maps.block import Block
from tessella.cells.maps.maps import Distinct, Maps, runs
from tessella.cells.maps.shelf import Shelf
from tessella.cells.order.front import Front, front_of
from tessella.cells.order.order import Order
from tessella.cells.order.stage import Arrangement, Stage
from tessella.linalg.lapack import invert
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.machine.threads import in_parallel

TOGETHER, WORTH = 32, 3.2e7
"""Joins that are made in one call of batched products: at most so many, and about so many flops. A
core does these in a thousandth of a second; with a quarter of it many cores wait for Python."""

LARGE, PANEL = 2e8, 128
"""Flops from which on several cores make a join, and rows that one of them makes at a time."""


class Join(NamedTuple):
    """What joining leaves for right-hand sides, for every distinct pair: what comes in at the
    closed ports by what both sides would give there alone (K) and by what comes in outside (S), and
    what that adds to what A and B give outside and to the sums."""

    K: Array
    S: Array
    A13: Array
    B23: Array
    E3: Array

    @property
    def bytes(self) -> int:
        return sum(x.nbytes for x in self)

    @property
    def inverse(self) -> Array:
        """D^-1."""
        return self.K[:, : self.A13.shape[2], self.B23.shape[2] :]

    def closed(self, given: Array, times: Times) -> Array:
        """K given."""
        return times(self.K, given)

    def closed_back(self, x: Array, times: Times) -> Array:
        """K^T x."""
        return times(self.K.transpose(0, 2, 1), x)


Times = Callable[[Array, Array], Array]
"""Of a stage: matrices of its distinct pairs times vectors of all its members."""


class Joined(NamedTuple):
    """Of every distinct pair of a stage its map, its sums, and what right-hand sides need."""

    T: Array
    E: Array
    join: Join

    def some(self, pairs: slice) -> Joined:
        if pairs.stop - pairs.start == len(self.T):
            return self
        return Joined(self.T[pairs], self.E[pairs], Join(*(x[pairs] for x in self.join)))

    def copied(self, pair: int) -> tuple[Array, ...]:
        return tuple(x[pair].copy() for x in (self.T, self.E, *self.join))

    def fill(self, pair: int, known: Sequence[Array]) -> None:
        for x, own in zip((self.T, self.E, *self.join), known, strict=True):
            x[pair] = own


@lru_cache(maxsize=64)
def _identity(n: int) -> Array:
    return np.eye(n)


def arranged(T: Array, which: np.ndarray, at: Arrangement) -> Array:
    """Some of the maps T, with what is given and taken at closed ports first."""
    own = T[which] if len(which) > 1 else T[which[0] : which[0] + 1]
    if at.flat is None:
        return own.take(at.rows, axis=1).take(at.columns, axis=2)
    return own.reshape(len(own), -1).take(at.flat, axis=1).reshape(own.shape)


def join_maps(left: Maps, right: Maps, pairs: np.ndarray, stage: Stage, found: Joined) -> None:
    """Fill in the maps of joined cells, their sums, and what remains of the joins."""
    (a, b), (at_a, at_b), at = pairs.T, stage.arrangements, stage.numbers
    A, B = arranged(left.T, a, at_a), arranged(right.T, b, at_b)
    m, n, n1, o1 = len(at.a3_in), len(at.b3_in), len(at.a1_in), len(at.a1_out)
    T, E, (K, S, A13, B23, E3) = found
    A33, A31, A13[...], A11 = A[:, :n, :m], A[:, :n, m:], A[:, n:, :m], A[:, n:, m:]
    B33, B32, B23[...], B22 = B[:, :m, :n], B[:, :m, n:], B[:, m:, :n], B[:, m:, n:]
    D = np.empty((len(B33), m, m))
    _multiply([(B33, A33, D)], stage)
    np.subtract(_identity(m), D, out=D)
    invert(D)
    K[:, :m, n:] = D
    _multiply([(D, B33, K[:, :m, :n])], stage)
    _multiply([(A33, K[:, :m], K[:, m:])], stage)
    K.reshape(len(K), -1)[:, m * (m + n) :: m + n + 1][:, :n] += 1.0
    products = [(K[:, :, :n], A31, S[:, :, :n1]), (K[:, :, n:], B32, S[:, :, n1:])]
    _multiply(products, stage)
    _multiply([(A13, S[:, :m], T[:, :o1]), (B23, S[:, m:], T[:, o1:])], stage)
    T[:, :o1, :n1] += A11
    T[:, o1:, n1:] += B22
    if E.shape[1]:
        EA, EB = left.E[a], right.E[b]
        E3[:, :, :m], E3[:, :, m:] = EA[:, :, at.a3_in], EB[:, :, at.b3_in]
        np.matmul(E3, S, out=E)
        E[:, :, :n1] += EA[:, :, at.a1_in]
        E[:, :, n1:] += EB[:, :, at.b2_in]


def _multiply(products: Sequence[tuple[Array, Array, Array]], stage: Stage) -> None:
    """Some products X Y = Z of a join; of a large one some rows at a time, by whoever has nothing
    else to do. Not by the number of cores, on which no rounding should depend."""
    if stage.flops < LARGE:
        for X, Y, Z in products:
            np.matmul(X, Y, out=Z)
        return
    panels = [
        (X[:, i : i + PANEL], Y, Z[:, i : i + PANEL])
        for X, Y, Z in products
        for i in range(0, X.shape[1], PANEL)
    ]
    in_parallel(lambda one: np.matmul(one[0], one[1], out=one[2]), panels, stage.flops)


def _name(left: bytes, right: bytes, stage: Stage) -> bytes:
    """Of two groups joined; nothing if one of them has none, since it will not be met again."""
    if not (left and right):
        return b""
    return blake2b(left + right + stage.name, digest_size=16).digest()


class Making:
    """The joins of one stage on their way, those on a shelf filled in already."""

    def __init__(
        self,
        stage: Stage,
        pair: tuple[Maps, Maps],
        pairs: np.ndarray,
        blocks: tuple[Block, Block],
        shelf: Shelf | None,
    ) -> None:
        self.stage, self.pairs, self.shelf = stage, pairs, shelf
        self.left, self.right = left, right = pair
        for_maps, for_joins = blocks
        count, sums, (T, *join) = len(pairs), left.E.shape[1], stage.shapes
        K, S, A13, B23 = (for_joins.array(count, *own) for own in join)
        self.found = Joined(
            for_maps.array(count, *T),
            np.empty((count, sums, T[1])),
            Join(K, S, A13, B23, np.empty((count, sums, K.shape[1]))),
        )
        self.names: tuple[bytes, ...] = ()
        self.fresh = list(range(len(pairs)))
        if shelf is not None:
            self.names = tuple(
                _name(left.names[a], right.names[b], stage) for a, b in pairs.tolist()
            )
            known = [shelf.join(name) for name in self.names]
            for i, one in enumerate(known):
                if one is not None:
                    self.found.fill(i, one)
            self.fresh = [i for i, one in enumerate(known) if one is None]

    @property
    def reused(self) -> int:
        return len(self.pairs) - len(self.fresh)

    def pieces(self) -> list[slice]:
        """Pairs that are still to be joined, a few neighbours at a time."""
        return runs(self.fresh, min(TOGETHER, max(1, int(WORTH / (self.stage.flops or 1.0)))))

    def make(self, piece: slice) -> None:
        join_maps(self.left, self.right, self.pairs[piece], self.stage, self.found.some(piece))

    def maps(self) -> Maps:
        if self.shelf is not None:
            for i in self.fresh:
                if self.names[i]:
                    self.shelf.put_join(self.names[i], self.found.copied(i))
        return Maps(self.found.T, self.found.E, self.names)


def _make(work: tuple[Making, slice]) -> None:
    work[0].make(work[1])


class Climb:
    """Maps and joins on their way up a tree; `leaves` are the maps of the stages of single
    cells."""

    def __init__(
        self,
        order: Order,
        leaves: Sequence[Maps | None],
        distinct: Sequence[Distinct],
        shelf: Shelf | None,
    ) -> None:
        self.order, self.distinct, self.shelf, self.reused = order, distinct, shelf, 0
        self.leaves = leaves
        self.maps = {i: own for i, own in enumerate(leaves) if own is not None}
        self.joins: list[Join | None] = [None] * len(order.stages)
        pairs = [(s.left, s.right) for s in order.stages if s.cells is None]
        self.uses = Counter(child for pair in pairs for child in pair)

    def below(self) -> Climb:
        """All joins of cells that one process has, made by it alone; but for the very last one."""
        return self.to(front_of(self.order, self.order.count))

    def to(self, front: Front) -> Climb:
        """All joins below a front that this process makes and has not made yet."""
        stages, me = self.order.stages, processes.index()
        for level in self.order.levels:
            own = [i for i in level if i in front.joined and stages[i].owner == me]
            self._join([i for i in own if self.joins[i] is None])
        return self

    def _join(self, level: Sequence[int]) -> None:
        """Stages whose children are all there, at once."""
        stages, maps, distinct = self.order.stages, self.maps, self.distinct
        sizes = [(distinct[i].count, *stages[i].numbers_left) for i in level]
        blocks = Block(sum(n * T for n, T, _ in sizes)), Block(sum(n * x for n, _, x in sizes))
        making = {}
        for i in level:
            pair = maps[stages[i].left], maps[stages[i].right]
            making[i] = Making(stages[i], pair, distinct[i].pairs, blocks, self.shelf)
        work = [(own, piece) for own in making.values() for piece in own.pieces()]
        work.sort(key=lambda one: -one[0].stage.flops)
        flops = sum(len(own.fresh) * own.stage.flops for own in making.values())
        in_parallel(_make, work, flops)
        for i, own in making.items():
            maps[i], self.joins[i] = own.maps(), own.found.join
            self.reused += own.reused
        for child in (child for i in level for child in (stages[i].left, stages[i].right)):
            self.uses[child] -= 1
            if not self.uses[child]:
                maps.pop(child)


def largest_inverse(joins: Sequence[Join | None]) -> float:
    """The largest number in the inverse of an exchange, and at least 1."""
    each = (float(np.abs(join.inverse).max(initial=0.0)) for join in joins if join is not None)
    return max([1.0, *each])
