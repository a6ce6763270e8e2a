"""Joins of what several processes have, made by all of them together.

Of a group's map every process of its team has some columns: what all cells of the group give if one
number comes in. To join two groups (see `join`) everybody of both teams gets the columns of the
closed ports, and those that stay outside are dealt out evenly; then each makes its columns of

    D = I - B33 A33,     D^-1 (B33 A31, B32),     and of the map that is left.

Only D itself is factored by everybody; so K (see `join`) is not formed, but applied by its parts.
What right-hand sides need beside them goes to the stage's owner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from tessella.cells.joins.join import Times
from tessella.cells.joins.whole import Halves
from tessella.cells.maps.maps import Maps, flat
from tessella.cells.order.order import Order
from tessella.machine import processes
from tessella.machine.arrays import Array

Columns = Mapping[int, np.ndarray]
"""Of every process of a team the columns that it needs."""


@dataclass(frozen=True, eq=False)
class Teams:
    """Who makes which join, and who has which columns of the maps."""

    order: Order

    @cached_property
    def members(self) -> dict[int, tuple[int, ...]]:
        """Of every stage the processes that have cells of it."""
        found: dict[int, tuple[int, ...]] = {}
        for i, stage in enumerate(self.order.stages):
            found[i] = (stage.owner,)
            if i in self.order.above:
                found[i] = tuple(sorted({*found[stage.left], *found[stage.right]}))
        return found

    def holders(self, i: int) -> np.ndarray:
        """The process that has each column of a stage's map."""
        stage, team = self.order.stages[i], self.members[i]
        return np.array(team)[dealt(sum(stage.sizes.taken), len(team))]

    def wanted(self, i: int) -> tuple[Columns, Columns]:
        """The columns of both children that every process needs: those of closed ports, and its
        own of the others. At the very last join its part of A's and all of B's do for the product
        of both, and the owner gets everything."""
        stage, team = self.order.stages[i], self.members[i]
        at, last = stage.numbers, i == len(self.order.stages) - 1
        n1 = len(at.a1_in)
        whose = dealt(n1 + len(at.b2_in), len(team))
        left, right = {}, {}
        for k, process in enumerate(team):
            mine = whose == k if not last else np.full(len(whose), process == stage.owner)
            part = slice(None) if not last or process == stage.owner else self.part(i, process)
            left[process] = np.concatenate([at.a3_in[part], at.a1_in[mine[:n1]]])
            right[process] = np.concatenate([at.b3_in, at.b2_in[mine[n1:]]])
        return left, right

    def part(self, i: int, process: int) -> slice:
        """The columns of D that a process makes."""
        return part_of(len(self.order.stages[i].numbers.a3_in), self.members[i], process)


def dealt(count: int, number: int) -> np.ndarray:
    """Which of so many gets each of `count` things, neighbours together."""
    return np.arange(count) * number // max(count, 1)


def part_of(count: int, team: Sequence[int], process: int) -> slice:
    """The things that one of a team gets."""
    mine = np.flatnonzero(dealt(count, len(team)) == team.index(process))
    return slice(int(mine[0]), int(mine[-1]) + 1) if len(mine) else slice(0, 0)


class Factored(NamedTuple):
    """LU of a matrix, which may have no rows."""

    lu: Array
    pivots: np.ndarray

    @staticmethod
    def of(D: Array) -> Factored:
        if not D.size:
            return Factored(D, np.zeros(0, dtype=np.int32))
        lu, pivots, singular = lapack.dgetrf(D)
        if singular:
            raise np.linalg.LinAlgError("Singular matrix")
        return Factored(lu, pivots)

    def solved(self, right: Array, transposed: bool = False) -> Array:
        """D^-1 of columns, or D^-T."""
        if not right.size:
            return right
        return np.asarray(lapack.dgetrs(*self, right, trans=int(transposed))[0])


@dataclass(frozen=True, eq=False)
class JoinedTogether:
    """What such a join leaves for right-hand sides, like a `Join` of one pair; K by LU of D, A33
    and B33."""

    D: Factored
    A33: Array
    B33: Array
    S: Array
    A13: Array
    B23: Array
    E3: Array

    @property
    def bytes(self) -> int:
        kept = (self.D.lu, self.A33, self.B33, self.S, self.A13, self.B23, self.E3)
        return sum(x.nbytes for x in kept)

    def closed(self, given: Array, times: Times) -> Array:
        """K given."""
        a, b = given[..., : len(self.A33)], given[..., len(self.A33) :]
        x = self._rows(b + a @ self.B33.T)
        return np.concatenate([x, a + x @ self.A33.T], axis=-1)

    def closed_back(self, x: Array, times: Times) -> Array:
        """K^T x."""
        a, b = x[..., : len(self.B33)], x[..., len(self.B33) :]
        right = self._rows(a + b @ self.A33, transposed=True)
        return np.concatenate([b + right @ self.B33, right], axis=-1)

    def _rows(self, right: Array, transposed: bool = False) -> Array:
        found = self.D.solved(flat(right).T, transposed)
        return np.ascontiguousarray(found.T).reshape(right.shape)


class Together:
    """The joins above on their way; every process has its share. `growth` is the largest number in
    what it has of all D^-1."""

    def __init__(self, order: Order, maps: Mapping[int, Maps], sums: int) -> None:
        self.teams, self.me, self.sums = Teams(order), processes.index(), sums
        self.order, self.growth = order, 1.0
        self.shares: dict[int, Array] = {}
        below = {c for i in order.above for c in (order.stages[i].left, order.stages[i].right)}
        for i in below - order.above:
            if order.stages[i].owner == self.me:
                self.shares[i] = np.concatenate([maps[i].T[0], maps[i].E[0]])

    def mine(self, i: int) -> bool:
        return self.me in self.teams.members[i]

    def _columns(self, i: int, wanted: Columns) -> Array:
        """Those columns of a child's map that this process needs."""
        holder, own = self.teams.holders(i), self.shares.pop(i, None)
        held = np.flatnonzero(holder == self.me)
        out = {}
        if own is not None:
            for process, columns in wanted.items():
                mine = columns[holder[columns] == self.me]
                if process != self.me and len(mine):
                    out[process] = own[:, np.searchsorted(held, mine)]
        columns = wanted[self.me]
        whose = holder[columns]
        found = np.empty((sum(self.order.stages[i].sizes.given) + self.sums, len(columns)))
        if own is not None:
            here = whose == self.me
            found[:, here] = own[:, np.searchsorted(held, columns[here])]
        sources = set(whose.tolist()) - {self.me}
        team = tuple(wanted)
        for process, part in processes.exchanged("columns", team, out, sources).items():
            found[:, whose == process] = part
        return found

    def join(self, i: int) -> JoinedTogether | None:
        """One join; what right-hand sides need is the owner's."""
        stage = self.order.stages[i]
        at, wanted = stage.numbers, self.teams.wanted(i)
        A, B = self._columns(stage.left, wanted[0]), self._columns(stage.right, wanted[1])
        m, n = len(at.a3_in), len(at.b3_in)
        A33, A13, B33, B23 = A[at.a3_out, :m], A[at.a1_out, :m], B[at.b3_out, :n], B[at.b2_out, :n]
        A31, B32 = A[at.a3_out, m:], B[at.b3_out, n:]
        D = Factored.of(self._exchange(i, A33, B33))
        mine = np.eye(m)[:, self.teams.part(i, self.me)]
        k, n1 = mine.shape[1], A31.shape[1]
        x = D.solved(np.concatenate([mine, B33 @ A31, B32], axis=1))
        self.growth = max(self.growth, float(np.abs(x[:, :k]).max(initial=0.0)))
        x = np.ascontiguousarray(x[:, k:])
        y = A33 @ x
        y[:, :n1] += A31
        S = np.concatenate([x, y])
        assert stage.children is not None
        o1, (ga, gb) = len(at.a1_out), (sum(own.given) for own in stage.children)
        rows = np.concatenate([A13 @ x, B23 @ y, A[ga:, :m] @ x + B[gb:, :n] @ y])
        rows[:o1, :n1] += A[at.a1_out, m:]
        rows[o1 : len(rows) - self.sums, n1:] += B[at.b2_out, n:]
        rows[len(rows) - self.sums :] += np.concatenate([A[ga:, m:], B[gb:, n:]], axis=1)
        self.shares[i] = rows
        E3 = np.concatenate([A[ga:, :m], B[gb:, :n]], axis=1)
        every = self._kept(i, S)
        if every is None:
            return None
        return JoinedTogether(D, A33, B33, every[None], A13[None], B23[None], E3[None])

    def _exchange(self, i: int, A33: Array, B33: Array) -> Array:
        """D, of which every process makes some columns."""
        team = self.teams.members[i]
        mine = self.teams.part(i, self.me)
        own = -B33 @ A33[:, mine]
        own[mine] += np.eye(own.shape[1])
        every = processes.exchanged("D", team, dict.fromkeys(_others(team), own), _others(team))
        return np.concatenate([{**every, self.me: own}[p] for p in team], axis=1)

    def _kept(self, i: int, own: Array) -> Array | None:
        """S of all processes at the owner."""
        stage, team = self.order.stages[i], self.teams.members[i]
        if stage.owner != self.me:
            processes.send(stage.owner, "join", own)
            return None
        every = {p: processes.receive(p, "join")[0] for p in _others(team)} | {self.me: own}
        return np.concatenate([every[p] for p in team], axis=1)

    def last(self) -> tuple[Halves, Array] | None:
        """Of the very last join the maps of both halves, and B33 A33, which all make together; the
        owner's."""
        i = len(self.order.stages) - 1
        stage, team = self.order.stages[i], self.teams.members[i]
        at, wanted = stage.numbers, self.teams.wanted(i)
        A, B = self._columns(stage.left, wanted[0]), self._columns(stage.right, wanted[1])
        B33, mine = B[at.b3_out, : len(at.b3_in)], self.teams.part(i, self.me)
        if stage.owner != self.me:
            processes.send(stage.owner, "product", B33 @ A[at.a3_out])
            return None
        halves = Halves.of(A, B, stage)
        parts = {p: processes.receive(p, "product")[0] for p in _others(team)}
        parts[self.me] = B33 @ halves.A33[:, mine]
        return halves, np.concatenate([parts[p] for p in team], axis=1)


def _others(team: Sequence[int]) -> list[int]:
    return [p for p in team if p != processes.index()]
