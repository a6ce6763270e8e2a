"""One cell's map: its features fitted to the equation, its conditions and what comes in.

The rows of a cell are [equation; conditions; w (taken data)], its unknowns the filtered features of
its draw. With G = M^T M,

    a = G^-1 (M^T h + B in),     out = O a,     T = O G^-1 B,     c = O G^-1 M^T h

In the basis that the draw was filtered to, M is so well conditioned that its Gramian loses nothing;
that is checked, and cells for which it does not hold (cut ones, those with functions of their own)
are factored by a QR that is pivoted again (see `pivoted`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tessella.cells.cell.draw import digest
from tessella.cells.cell.port import Port, port_rows
from tessella.cells.cell.rows import Asked
from tessella.cells.cell.space import Space
from tessella.cells.maps.block import Block
from tessella.cells.maps.family import Factor, Family
from tessella.cells.maps.maps import runs
from tessella.cells.maps.pivoted import Fit, Pivoted, fitted, threshold
from tessella.cells.system.kinds import Kind
from tessella.geometry.functions import Orders
from tessella.linalg.lapack import (
    add_gramians,
    cholesky,
    solve_cholesky,
    solve_cholesky_rows,
)
from tessella.machine.arrays import Array
from tessella.machine.threads import in_parallel

WELL = 1e3
"""Condition of a cell's rows up to which its Gramian is used."""

BATCH = 1 << 22
"""Bytes of rows that are made and multiplied together: about what a core has at hand. With less,
many cores wait for Python."""


PIECES = 12
"""About so many at least, lest cores wait for the last one; not by the number of cores, on which no
rounding should depend."""


Known = Factor | Fit | None
"""What an earlier solve found out about a kind."""

Mapped = Family | Pivoted
"""Kinds that are mapped together, or one by itself."""


def map_kinds(
    kinds: Sequence[Kind],
    asked: Sequence[Asked],
    sigma: float,
    known: Sequence[Known],
    waves: bool = False,
    b: Array | None = None,
) -> list[Mapped]:
    """The maps of all kinds, those known already left as they are. If M^T h of all cells (cells, r)
    is given, `b`, they are for no other data."""
    if not kinds:
        return []
    groups: dict[object, list[int]] = {}
    alone: list[int] = []
    for i, kind in enumerate(kinds):
        if _plain(kind) and not isinstance(known[i], Fit):
            apart = b is not None and single(kind)
            groups.setdefault((apart, id(kind.space), *_places(kind)), []).append(i)
        else:
            alone.append(i)
    shared = _Shared(asked)
    shared.prepare([kinds[group[0]] for group in groups.values()])
    families = _families(kinds, groups.values(), b is not None)
    making = [_Making(kinds, group, known, shared, b) for group in families]
    block = Block(sum(own.size for own in making))
    for own in making:
        own.begin(block)
    most = math.ceil(sum(own is None for own in known) / PIECES)
    work = [(own, piece) for own in making for piece in own.pieces(most)]
    in_parallel(_make, work, sum(own.flops for own in making))
    found: list[Mapped] = []
    for own in making:
        family, failed = own.made()
        alone += failed
        if family is not None:
            found.append(family)
    return found + _alone(kinds, alone, asked, sigma, known, waves)


def _places(kind: Kind) -> tuple[object, ...]:
    """Its ports, and the statements that have rows in it."""
    return tuple(p.name for p in kind.ports), tuple(n for n, _ in kind.asked)


def single(kind: Kind) -> bool:
    """Whether it is one cell's alone, so that its factor serves a single right-hand side once."""
    return len(kind.members) == 1


def _families(kinds: Sequence[Kind], groups: Iterable[list[int]], apart: bool) -> list[list[int]]:
    """Groups of kinds with the same places; those that are alone in theirs, with others that take
    and give as much."""
    found: list[list[int]] = []
    lonely: dict[object, list[int]] = {}
    for group in groups:
        if len(group) > 1:
            found.append(group)
        else:
            kind = kinds[group[0]]
            key = apart and single(kind), id(kind.space), tuple(p.widths for p in kind.ports)
            lonely.setdefault(key, []).extend(group)
    return [*found, *lonely.values()]


def factor_bytes(kinds: Sequence[Kind]) -> int:
    """Of factors that serve single cells."""
    return 8 * sum(kind.space.columns**2 for kind in kinds if _plain(kind) and single(kind))


def map_bytes(kinds: Sequence[Kind], asked: Sequence[Asked], once: bool = False) -> int:
    """Of the factors and maps of some kinds, those that are filtered by themselves with their
    rows; a map is there twice where those of a stage are put in order. `once` they serve a single
    right-hand side, and factors of single cells are not kept."""
    size = 0
    for kind in kinds:
        r = kind.space.columns + (0 if kind.own is None else kind.own.shape[1])
        taken, given = (sum(port.widths[k] for port in kind.ports) for k in (0, 1))
        factor = r if once and single(kind) else r * r
        if not _plain(kind):
            factor = r * (2 * r + taken + sum(len(asked[n].slot) for n, _ in kind.asked))
        size += factor + r * (taken + given) + 2 * taken * given
    return 8 * size


def _plain(kind: Kind) -> bool:
    """Whether its features were filtered once for all cells, and are all it has."""
    return kind.own is None and kind.space.filtered


def _make(work: tuple[_Making, slice]) -> None:
    work[0].make(work[1])


def _alone(
    kinds: Sequence[Kind],
    alone: Sequence[int],
    asked: Sequence[Asked],
    sigma: float,
    known: Sequence[Known],
    waves: bool,
) -> list[Pivoted]:
    """Kinds that are like no other, and filtered by themselves."""
    fresh = [i for i in alone if not isinstance(known[i], Fit)]
    flops = sum(
        4.0 * kinds[i].space.columns ** 2 * sum(len(asked[n].slot) for n, _ in kinds[i].asked)
        for i in fresh
    )
    fits = in_parallel(
        lambda i: fitted(kinds[i], asked, max(sigma, threshold(kinds[i], waves))), fresh, flops
    )
    made: dict[int, Known] = dict(zip(fresh, fits, strict=True))
    found = []
    for i in sorted(alone):
        fit = made.get(i, known[i])
        assert isinstance(fit, Fit)
        found.append(Pivoted(i, kinds[i], fit))
    return found


class _Common(NamedTuple):
    """What ports contribute to all kinds that have the same: to M^T M, to M^T h, and what goes
    out."""

    gram: Array
    B: Array
    out: Array


class _Shared:
    """What several families have in common, found once: what a port contributes, the tables of a
    statement, and its part of M^T M in cells with the same coefficients."""

    def __init__(self, asked: Sequence[Asked]) -> None:
        self.asked = asked
        self._ports: dict[object, _Common] = {}
        self._tables: dict[tuple[int, int], Stacked] = {}
        self._grams: dict[object, Array] = {}

    def tables(self, space: Space, number: int) -> Stacked:
        key = (id(space), number)
        if key not in self._tables:
            self._tables[key] = stacked_tables(space, self.asked[number])
        return self._tables[key]

    def gram(self, space: Space, number: int, at: int) -> Array:
        part, numbers = self.asked[number], b""
        if not part.alike:
            numbers = digest(*(table[at].tobytes() for table in part.symbol.values()))
        key = (id(space), number, numbers)
        if key not in self._grams:
            found = np.zeros((1, space.columns, space.columns))
            if part.alike:
                add_gramians(part.common(space)[:, None], found)
            else:
                add_grams(space, [part], [[at]], [self.tables(space, number)], found)
            self._grams[key] = found[0]
        return self._grams[key]

    def together(self, kind: Kind) -> _Common:
        """All ports of a kind as one."""
        r = kind.space.columns
        own = [self._ports[id(kind.space), port.name] for port in kind.ports]
        if not own:
            return _Common(np.zeros((r, r)), np.zeros((r, 0)), np.zeros((0, r)))
        return _Common(
            sum((port.gram for port in own[1:]), start=own[0].gram),
            np.concatenate([port.B for port in own], axis=1),
            np.concatenate([port.out for port in own]),
        )

    def prepare(self, kinds: Sequence[Kind]) -> None:
        """All ports of some kinds: there are many different ones beside cut cells."""
        every = {(id(kind.space), p.name): (kind.space, p) for kind in kinds for p in kind.ports}
        flops = sum(4.0 * len(port.slot) * space.columns**2 for space, port in every.values())
        made = in_parallel(lambda own: _common(*own), list(every.values()), flops)
        self._ports = dict(zip(every, made, strict=True))


def _common(space: Space, port: Port) -> _Common:
    rows, lifted, out = port_rows(space, port)
    return _Common(rows.T @ rows, rows.T @ lifted, out)


class _Making:
    """A family on its way: kinds with the same places, or some of which each has its own."""

    def __init__(
        self,
        kinds: Sequence[Kind],
        group: Sequence[int],
        known: Sequence[Known],
        shared: _Shared,
        b: Array | None,
    ) -> None:
        self.kinds, self.group = [kinds[i] for i in group], group
        self.known, self.shared = [known[i] for i in group], shared
        first, last = self.kinds[0], self.kinds[-1]
        self.alike = _places(first) == _places(last)
        own = self.kinds[:1] if self.alike else self.kinds
        self.common = [shared.together(kind) for kind in own]
        self.out = self.common[0].out if self.alike else np.stack([c.out for c in self.common])
        self.space = first.space
        self.numbers = [n for n, _ in first.asked]
        self.parts = [shared.asked[n] for n in self.numbers]
        self.height = sum(len(part.slot) for part in self.parts)
        self.shape = len(group), *self.common[0].B.shape
        self.condition = np.full(len(group), np.inf)
        self.tables: list[Stacked] = []
        self.by_sums = False
        self.y: Array | None = None
        if b is not None and single(first):
            self.y = b[[int(kind.members[0]) for kind in self.kinds], : self.space.columns]
        self.spare: list[Array] = []
        """Room for factors that are not kept, which nobody uses at the moment."""

    @property
    def size(self) -> int:
        """Of all that is found."""
        n, r, m = self.shape
        return n * (r * (r if self.y is None else 0) + m * (r + self.out.shape[-2]))

    def begin(self, block: Block) -> None:
        n, r, m = self.shape
        sums = [kind.sums for kind in self.kinds if kind.sums is not None]
        self.sums = np.stack(sums) if sums else np.zeros((n, 0, r))
        self.L, self.X = block.array(n if self.y is None else 0, r, r), block.array(n, r, m)
        self.T = block.array(n, self.out.shape[-2], m)
        self.E = np.empty((n, self.sums.shape[1], m))

    @property
    def flops(self) -> float:
        fresh = sum(own is None for own in self.known)
        return 2.0 * fresh * self.height * self.space.columns**2

    def pieces(self, most: int) -> list[slice]:
        """Kinds that are still to be mapped, as many neighbours as fit into a core's own memory,
        at most so many."""
        for i, own in enumerate(self.known):
            if isinstance(own, Factor):
                self.L[i], self.X[i], self.T[i], self.E[i], self.condition[i] = own
        fresh = [i for i, own in enumerate(self.known) if own is None]
        self.by_sums = len(fresh) == 1 or not self.alike
        if fresh and not self.by_sums:
            self.tables = [self.shared.tables(self.space, n) for n in self.numbers]
        step = BATCH // max(1, 8 * self.height * self.space.columns)
        return runs(fresh, max(1, min(step, most)))

    def make(self, own: slice) -> None:
        if self.y is None:
            self._make(own, self.L[own])
            return
        r, count = self.space.columns, own.stop - own.start
        try:
            room = self.spare.pop()
        except IndexError:
            room = np.empty((0, r, r))
        if len(room) < count:
            room = np.empty((count, r, r))
        self._make(own, room[:count])
        self.spare.append(room)

    def _make(self, own: slice, L: Array) -> None:
        if self.by_sums:
            for i, G in enumerate(L, own.start):
                self._from_sum(i, G)
        else:
            self._from_rows(own, L)
        self._solve(own, L)

    def _from_sum(self, i: int, G: Array) -> None:
        """A kind with places of its own, statement by statement: most of these it shares."""
        common = self.common[0 if self.alike else i]
        G[...], self.X[i] = common.gram, common.B
        for number, at in self.kinds[i].asked:
            G += self.shared.gram(self.space, number, at)

    def _from_rows(self, own: slice, G: Array) -> None:
        """Kinds with the same places."""
        kinds, common = self.kinds[own], self.common[0]
        at = [[kind.asked[place][1] for kind in kinds] for place in range(len(self.parts))]
        G[...], self.X[own] = common.gram, common.B
        add_grams(self.space, self.parts, at, self.tables, G)

    def _solve(self, own: slice, L: Array) -> None:
        X = self.X[own]
        regular = cholesky(L)
        size = np.diagonal(L, axis1=1, axis2=2)[regular]
        self.condition[own][regular] = size.max(axis=1) / size.min(axis=1)
        solve_cholesky(L, X)
        if self.y is not None:
            solve_cholesky_rows(L, self.y[own], np.arange(len(L) + 1))
        np.matmul(self.out if self.alike else self.out[own], X, out=self.T[own])
        np.matmul(self.sums[own], X, out=self.E[own])

    def made(self) -> tuple[Family | None, list[int]]:
        """The family, and the kinds whose Gramians are not conditioned well enough."""
        poor = self.condition > WELL
        good, failed = np.flatnonzero(~poor), [self.group[i] for i in np.flatnonzero(poor).tolist()]
        if not len(good):
            return None, failed
        every = (self.X, self.T, self.E, self.sums, self.condition)
        X, T, E, sums, condition = every if not failed else (x[good] for x in every)
        y, L = self.y, self.L
        if failed:
            y, L = (None, L[good]) if y is None else (y[good], L)
        members = [self.kinds[i].members for i in good.tolist()]
        starts = np.concatenate([[0], np.cumsum([len(own) for own in members])])
        return Family(
            np.array(self.group)[good], np.concatenate(members), starts, L, X, T, E,
            self.out[good] if failed and not self.alike else self.out, sums, condition, y,
        ), failed  # fmt: skip


Stacked = list[tuple[int, list[Orders], Array]]


def stacked_tables(space: Space, part: Asked) -> Stacked:
    """Per unknown the derivatives in a statement's rows, and their tables (n, derivatives, r)."""
    tables = space.tables(part.slot, part.symbol)
    found = []
    for f in range(len(space.draws)):
        alphas = [alpha for g, alpha in part.symbol if g == f]
        if alphas:
            found.append((f, alphas, np.stack([tables[f, alpha] for alpha in alphas], axis=1)))
    return found


def add_grams(
    space: Space,
    parts: Sequence[Asked],
    at: Sequence[Sequence[int]],
    tables: Sequence[Stacked],
    G: Array,
) -> None:
    """Add M^T M of the rows that statements ask of some cells to one triangle of G (cells, r, r);
    `at` are their positions in every statement."""
    height = sum(len(part.slot) for part in parts)
    whole = len(space.draws) == 1 and all(tables)
    M = (np.empty if whole else np.zeros)((height, len(at[0]), space.columns))
    start = 0
    for part, positions, own in zip(parts, at, tables, strict=True):
        rows = slice(start, start + len(part.slot))
        start = rows.stop
        for f, alphas, table in own:
            c = np.stack([part.symbol[f, alpha][positions] for alpha in alphas], axis=2)
            c /= space.units[f]
            columns = slice(space.starts[f], space.starts[f + 1])
            np.matmul(c.transpose(1, 0, 2), table, out=M[rows, :, columns])
    add_gramians(M, G)
