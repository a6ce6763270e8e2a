"""Ways up and down a tree of joins that were made, again and again for one right-hand side: what
takes its time there are calls, so that each join is left with two products, up and down.

All that groups give lies in one vector and all that they take in another, stage by stage; where a
join finds its numbers, and where it leaves them, is known beforehand. With c what is given at the
closed ports of a join and o what is given outside (see `join`),

    up    p = K c,  o + C c,  C = (A13, B23) K      down    p + S t,  t what is taken outside.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tessella.cells.joins.join import Join
from tessella.cells.joins.merging import Merged
from tessella.cells.joins.together import JoinedTogether
from tessella.cells.joins.whole import Whole
from tessella.cells.maps.maps import Sharing
from tessella.cells.order.stage import Stage
from tessella.machine import processes
from tessella.machine.arrays import Array


class Part(NamedTuple):
    """A stage's part of both vectors: where it begins, how many numbers each member has there, and
    in which order members come."""

    taken_from: int
    given_from: int
    widths: tuple[int, int]
    row: np.ndarray

    @property
    def taken_slice(self) -> slice:
        return slice(self.taken_from, self.taken_from + len(self.row) * self.widths[0])

    @property
    def given_slice(self) -> slice:
        return slice(self.given_from, self.given_from + len(self.row) * self.widths[1])

    def rows_of(self, x: Array, which: int) -> Array:
        """What its members take (0) or give (1), (members, n)."""
        own = x[(self.taken_slice, self.given_slice)[which]]
        return own.reshape(len(self.row), self.widths[which])

    def taken(self, members: np.ndarray) -> np.ndarray:
        """Where what some members take is, (members, in)."""
        n = self.widths[0]
        return self.taken_from + n * self.row[members][:, None] + np.arange(n)

    def given(self, members: np.ndarray) -> np.ndarray:
        """Where what they give is, (members, out)."""
        n = self.widths[1]
        return self.given_from + n * self.row[members][:, None] + np.arange(n)


class Run(NamedTuple):
    """Members one after the other, and their matrices, each of which equally many have."""

    rows: slice
    matrices: Array


Turned = Callable[[Array], Array]


class Product(NamedTuple):
    """Matrices times vectors of all members of a stage, in its order."""

    runs: tuple[Run, ...]

    def __call__(self, x: Array) -> Array:
        return self._all(x, 1, lambda matrices: matrices.transpose(0, 2, 1))

    def back(self, x: Array) -> Array:
        """The transposed matrices."""
        return self._all(x, 2, lambda matrices: matrices)

    def _all(self, x: Array, axis: int, turned: Turned) -> Array:
        found = []
        for rows, matrices in self.runs:
            count, each = len(matrices), (rows.stop - rows.start) // max(len(matrices), 1)
            own = np.matmul(x[rows].reshape(count, each, x.shape[1]), turned(matrices))
            found.append(own.reshape(count * each, matrices.shape[axis]))
        return found[0] if len(found) == 1 else np.concatenate(found)


class Pass(NamedTuple):
    """What a join needs, both ways: where its numbers are given at closed ports and outside, and
    taken there."""

    given_closed: np.ndarray
    given_outside: np.ndarray
    taken_closed: np.ndarray
    taken_outside: np.ndarray
    K: Product
    C: Product
    S: Product


class Last(NamedTuple):
    """The same of the last one."""

    given_closed: np.ndarray
    given_outside: np.ndarray
    taken_closed: np.ndarray
    taken_outside: np.ndarray
    whole: Whole
    first: int
    """How many of the numbers that are given at closed ports are A's."""


@dataclass(frozen=True, eq=False)
class Passes:
    """Of this process: its stages' parts, the maps of single cells, joins, and stages that are
    handed over, children first."""

    parts: Mapping[int, Part]
    leaves: Mapping[int, Product]
    order: tuple[int, ...]
    joins: Mapping[int, Pass]
    sent: Mapping[int, int]
    received: Mapping[int, int]
    last: Last | None
    taken: int
    given: int

    @property
    def bytes(self) -> int:
        """Of matrices, and of where their numbers are."""
        products = [*self.leaves.values(), *(own for x in self.joins.values() for own in x[4:])]
        places = [own for x in self.joins.values() for own in x[:4]]
        matrices = [run.matrices for product in products for run in product.runs]
        if self.last is not None:
            whole = self.last.whole
            matrices += [whole.rows, whole.A33, whole.B33]
            matrices += [] if whole.factors is None else [whole.factors[0]]
        return sum(x.nbytes for x in (*matrices, *places))

    def solve(self, r: Array) -> Array:
        """What is taken by all groups if single cells have taken r, once all have told each
        other what comes of that."""
        x, y, kept = np.zeros(self.taken), np.empty(self.given), {}
        for i, T in self.leaves.items():
            part = self.parts[i]
            y[part.given_slice] = T(part.rows_of(r, 0)).ravel()
        for i in self.order:
            if (own := self.joins.get(i)) is not None:
                c = y[own.given_closed]
                kept[i] = own.K(c)
                y[self.parts[i].given_slice] = (y[own.given_outside] + own.C(c)).ravel()
            self._up(i, y[self.parts[i].given_slice])
        self._across(x, y)
        for i in reversed(self.order):
            part = self.parts[i]
            self._down(i, x[part.taken_slice])
            if (own := self.joins.get(i)) is not None:
                t = part.rows_of(x, 0)
                x[own.taken_outside] = t
                x[own.taken_closed] = kept[i] + own.S(t)
        return x

    def solve_back(self, r: Array) -> Array:
        """The transpose of that: from what single cells take to what they have taken."""
        x, y, kept = r.copy(), np.zeros(self.given), {}
        for i in self.order:
            part = self.parts[i]
            if (own := self.joins.get(i)) is not None:
                kept[i] = x[own.taken_closed]
                x[part.taken_slice] = (x[own.taken_outside] + own.S.back(kept[i])).ravel()
            self._up(i, x[part.taken_slice])
        self._across_back(x, y)
        for i in reversed(self.order):
            part = self.parts[i]
            self._down(i, y[part.given_slice])
            if (own := self.joins.get(i)) is not None:
                g = part.rows_of(y, 1)
                y[own.given_outside] = g
                y[own.given_closed] = own.C.back(g) + own.K.back(kept[i])
        found = np.zeros(self.taken)
        for i, T in self.leaves.items():
            part = self.parts[i]
            found[part.taken_slice] = T.back(part.rows_of(y, 1)).ravel()
        return found

    def _across(self, x: Array, y: Array) -> None:
        if self.last is not None:
            own, n = self.last, self.last.first
            given = y[own.given_closed]
            x[own.taken_closed], x[own.taken_outside] = own.whole.solve(
                given[:n], given[n:], np.zeros(0)
            )

    def _across_back(self, x: Array, y: Array) -> None:
        if self.last is not None:
            own = self.last
            *closed, _ = own.whole.transposed(x[own.taken_closed], x[own.taken_outside])
            y[own.given_closed] = np.concatenate(closed)

    def _up(self, i: int, own: Array) -> None:
        """To, or from, the process that goes on with a stage."""
        if i in self.sent:
            processes.send(self.sent[i], "up", own)
        elif i in self.received:
            own[...] = processes.receive(self.received[i], "up")[0]

    def _down(self, i: int, own: Array) -> None:
        if i in self.sent:
            own[...] = processes.receive(self.sent[i], "down")[0]
        elif i in self.received:
            processes.send(self.received[i], "down", own)


def passes(merged: Merged) -> Passes:
    """Through these joins."""
    order, me = merged.order, processes.index()
    parts: dict[int, Part] = {}
    rows: dict[int, np.ndarray] = {}
    taken = given = 0
    for i, stage in enumerate(order.stages[:-1]):
        if stage.owner == me or merged.handed.get(i) == me:
            rows[i] = _ordered(merged.distinct[i]) if stage.owner == me else np.zeros(1, dtype=int)
            row = np.empty_like(rows[i])
            row[rows[i]] = np.arange(len(row))
            widths = sum(stage.sizes.taken), sum(stage.sizes.given)
            parts[i] = Part(taken, given, widths, row)
            taken, given = taken + len(row) * widths[0], given + len(row) * widths[1]
    made = {i: join for i, join in enumerate(merged.joins) if join is not None}
    joins = {i: _pass(order.stages[i], rows[i], parts, merged.distinct[i], made[i]) for i in made}
    leaves = {
        i: _product(maps.T, merged.distinct[i].which[rows[i]])
        for i, maps in enumerate(merged.leaves) if maps is not None
    }  # fmt: skip
    sent = {i: to for i, to in merged.handed.items() if i in parts and to != me}
    received = {i: order.stages[i].owner for i, to in merged.handed.items() if to == me}
    last = None
    if merged.whole is not None:
        final = order.stages[-1]
        c, o, x, t = _places(final, np.zeros(1, dtype=int), parts)
        last = Last(c[0], o[0], x[0], t[0], merged.whole, len(final.numbers.b3_in))
    passed = tuple(i for i in parts if i in joins or i in sent or i in received)
    return Passes(parts, leaves, passed, joins, sent, received, last, taken, given)


def _ordered(own: Sharing) -> np.ndarray:
    """Members by how many have the same matrix, and then by matrices."""
    many = np.bincount(own.which, minlength=own.count)
    return np.lexsort([own.which, many[own.which]])


def _product(matrices: Array, which: np.ndarray) -> Product:
    """Of members in the order of `_ordered` that have these."""
    each = np.flatnonzero(np.append(True, which[1:] != which[:-1]))
    first = which[each]
    counts = np.diff(np.append(each, len(which)))
    cuts = np.flatnonzero(np.append(True, counts[1:] != counts[:-1])).tolist()
    runs = []
    for a, b in zip(cuts, [*cuts[1:], len(counts)], strict=True):
        some = first[a:b]
        own = matrices if np.array_equal(some, np.arange(len(matrices))) else matrices[some]
        start = int(each[a])
        runs.append(Run(slice(start, start + int(counts[a:b].sum())), own))
    return Product(tuple(runs))


def _places(
    stage: Stage, rows: np.ndarray, parts: Mapping[int, Part]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Where pairs in this order find what is given at closed ports and outside, and leave what is
    taken there."""
    (a, b), left, right = stage.pairs[rows].T, parts[stage.left], parts[stage.right]
    given = np.hstack([left.given(a), right.given(b)])[:, stage.given_order]
    own = left.taken(a), right.taken(b)
    every = np.empty((len(rows), sum(x.shape[1] for x in own)), dtype=np.int64)
    for order, x in zip(stage.taken_orders, own, strict=True):
        every[:, order] = x
    closed, outside = stage.closed_given, sum(stage.sizes.taken)
    return given[:, :closed], given[:, closed:], every[:, outside:], every[:, :outside]


def _pass(
    stage: Stage,
    rows: np.ndarray,
    parts: Mapping[int, Part],
    own: Sharing,
    join: Join | JoinedTogether,
) -> Pass:
    K = join.K if isinstance(join, Join) else _formed(join)
    m = join.A13.shape[2]
    C = np.concatenate([join.A13 @ K[:, :m], join.B23 @ K[:, m:]], axis=1)
    which = own.which[rows]
    return Pass(*_places(stage, rows, parts), *(_product(x, which) for x in (K, C, join.S)))


def _formed(join: JoinedTogether) -> Array:
    """K of a single pair."""
    given = len(join.A33) + len(join.B33)
    return join.closed(np.eye(given), lambda matrices, x: x).T[None]
