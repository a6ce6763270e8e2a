"""One cell's map: its features fitted to the equation, its conditions and what comes in.

The rows of a cell are [equation; conditions; w (taken data)], its unknowns the filtered features of
its draw. With G = M^T M,

    a = G^-1 (M^T h + B in),     out = O a,     T = O G^-1 B,     c = O G^-1 M^T h

In the basis that the draw was filtered to, M is so well conditioned that its Gramian loses nothing;
that is checked, and cells for which it does not hold (cut ones, those with functions of their own)
are factored by a QR that is pivoted again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from tessella.cells.draw import Draw, Slot, digest
from tessella.cells.exchange import Datum
from tessella.cells.rows import Asked
from tessella.geometry.functions import Orders
from tessella.linalg.lapack import cholesky, solve_cholesky
from tessella.machine.arrays import Array
from tessella.machine.threads import in_parallel

WELL = 1e3
"""Condition of a cell's rows up to which its Gramian is used."""

CUT_SIGMA = 1e-13
"""Least threshold of the filter of single cells, whose columns have unit length or less."""


@dataclass(frozen=True, eq=False)
class Space:
    """The filtered features of all unknowns in cells of one shape, and their columns' units."""

    draws: tuple[Draw, ...]
    units: tuple[float, ...]

    @cached_property
    def starts(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum([d.columns for d in self.draws])]).astype(int)

    @property
    def columns(self) -> int:
        return int(self.starts[-1])

    @property
    def filtered(self) -> bool:
        return all(draw.R is not None for draw in self.draws)

    def table(self, field: int, slot: Slot, alpha: Orders) -> Array:
        return self.draws[field].table(slot, alpha)

    def tables(
        self, slot: Slot, wanted: Iterable[tuple[int, Orders]]
    ) -> dict[tuple[int, Orders], Array]:
        """Derivatives (unknown, alpha) of all features at a slot's points."""
        by_field: dict[int, list[Orders]] = {}
        for f, alpha in dict.fromkeys(wanted):
            by_field.setdefault(f, []).append(alpha)
        return {
            (f, alpha): table
            for f, alphas in by_field.items()
            for alpha, table in self.draws[f].tables(slot, alphas).items()
        }


class Port(NamedTuple):
    """A part of a cell's face with a neighbour beyond.

    modes   per datum taken, and per datum given, the functions on the face, (n, p) each
    kappa   the face's wavenumber
    pulls   weights of the rows of the data taken
    name    tells ports with the same numbers from others
    """

    axis: int
    side: int
    slot: Slot
    taken: tuple[Datum, ...]
    given: tuple[Datum, ...]
    modes_taken: tuple[Array, ...]
    modes_given: tuple[Array, ...]
    kappa: float
    pulls: tuple[float, ...]
    half_width: float
    name: tuple[object, ...]


class Rowed(NamedTuple):
    """A port's part of a cell's system: rows of the data taken, how they follow from what comes in,
    and what goes out."""

    rows: Array
    lifted: Array
    out: Array


def port_rows(space: Space, port: Port) -> Rowed:
    """Rows (n, r) of every datum, their right-hand sides (n, in), and out (given, r)."""
    n, rows, lifted, out = len(port.slot), [], [], []
    tables = space.tables(port.slot, _needed(port, port.slot))
    widths = [m.shape[1] for m in port.modes_taken]
    for i, (datum, pull, P) in enumerate(
        zip(port.taken, port.pulls, port.modes_taken, strict=True)
    ):
        rows.append(pull * _datum_rows(space, port, datum, tables))
        block = np.zeros((n, sum(widths)))
        block[:, sum(widths[:i]) : sum(widths[: i + 1])] = pull * P
        lifted.append(block)
    for datum, P in zip(port.given, port.modes_given, strict=True):
        out.append(P.T @ _datum_rows(space, port, datum, tables))
    r = space.columns
    return Rowed(
        np.concatenate(rows) if rows else np.zeros((0, r)),
        np.concatenate(lifted) if lifted else np.zeros((0, 0)),
        np.concatenate(out) if out else np.zeros((0, r)),
    )


def _needed(port: Port, slot: Slot) -> list[tuple[int, Orders]]:
    d = slot.points.shape[1]
    return [
        (term.field, _along(port.axis, term.order, d))
        for datum in (*port.taken, *port.given)
        for term in datum.terms
    ]


def _along(axis: int, order: int, dimension: int) -> Orders:
    return tuple(order if i == axis else 0 for i in range(dimension))


def _datum_rows(
    space: Space, port: Port, datum: Datum, tables: dict[tuple[int, Orders], Array]
) -> Array:
    """A datum of all features at a port's points, times the roots of their weights."""
    slot, starts = port.slot, space.starts
    rows = np.zeros((len(slot), space.columns))
    for term in datum.terms:
        alpha = _along(port.axis, term.order, slot.points.shape[1])
        factor = term.factor * port.kappa**-term.power / port.half_width**term.order
        own = slice(starts[term.field], starts[term.field + 1])
        rows[:, own] += factor / space.units[term.field] * tables[term.field, alpha]
    whole = float(slot.weights.sum()) or 1.0
    return rows * np.sqrt(slot.weights / whole)[:, None]


@dataclass(frozen=True)
class Kind:
    """Cells with the same numbers, their ports, and the statements that have rows in them."""

    members: np.ndarray
    space: Space
    ports: tuple[Port, ...]
    asked: tuple[tuple[int, int], ...]
    """Numbers of statements' rows, and the first member's position there."""
    own: Array | None = None
    """Further columns of all its rows (asked, ports) and outputs: functions of its own."""
    own_units: Array | None = None
    sums: Array | None = None
    """Rows of the sums, (sums, r)."""
    name: bytes = b""


class Mapped(NamedTuple):
    """A kind's map: T (out, in), E (sums, in), X (r, in) from what comes in to its unknowns y, its
    outputs and sums of these, and the factor that solves for right-hand sides and takes y to the
    features' own unknowns."""

    T: Array
    E: Array
    X: Array
    out: Array
    sums: Array
    factor: Any
    condition: float


class Gram(NamedTuple):
    """Cholesky factor of M^T M; asks for M^T h."""

    L: Array

    def solve(self, b: Array) -> Array:
        return solve_cholesky(self.L, b)

    def unknowns(self, y: Array) -> Array:
        return y


class Pivoted(NamedTuple):
    """M[:, kept] = Q R, with Q as far as the rows are asked for; asks for h.

    R may be as badly conditioned as the threshold allows, and its unknowns as large. So maps are
    made of y = R a, which is as small as the data: O R^-1 is solved for from the left, where
    nothing cancels.
    """

    Q: Array
    R: Array
    kept: np.ndarray
    columns: int

    def solve(self, h: Array) -> Array:
        return np.asarray(self.Q.T @ h)

    def unknowns(self, y: Array) -> Array:
        found = np.zeros((self.columns, y.shape[1]))
        if len(self.kept):
            found[self.kept] = lapack.dtrtrs(self.R, y)[0]
        return found


def rows_of(kind: Kind, asked: Sequence[Asked]) -> Array:
    """All rows that statements ask of a kind."""
    space, blocks = kind.space, []
    starts = space.starts
    for number, at in kind.asked:
        part = asked[number]
        block = np.zeros((len(part.slot), space.columns))
        fresh = [True] * len(space.draws)
        tables = space.tables(part.slot, part.symbol)
        for (f, alpha), c in part.symbol.items():
            table = tables[f, alpha]
            own = block[:, starts[f] : starts[f + 1]]
            column = (c[at] / space.units[f])[:, None]
            if fresh[f]:
                np.multiply(table, column, out=own)
                fresh[f] = False
            else:
                own += table * column
        blocks.append(block)
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


class _Common(NamedTuple):
    """What ports contribute to all kinds that have the same."""

    gram: Array
    B: Array
    out: Array


def map_kinds(
    kinds: Sequence[Kind], asked: Sequence[Asked], sigma: float, known: Sequence[Mapped | None]
) -> list[Mapped]:
    """The maps of all kinds, those known already left as they are."""
    found = list(known)
    groups: dict[object, list[int]] = {}
    alone = []
    for i, kind in enumerate(kinds):
        if found[i] is not None:
            continue
        if kind.own is None and kind.space.filtered:
            ports = tuple(p.name for p in kind.ports)
            groups.setdefault((id(kind.space), ports, tuple(n for n, _ in kind.asked)), []).append(
                i
            )
        else:
            alone.append(i)
    ports_made: dict[object, _Common] = {}
    grams: dict[object, Array] = {}
    for group in groups.values():
        first = kinds[group[0]]
        for port in first.ports:
            key = (id(first.space), port.name)
            if key not in ports_made:
                ports_made[key] = _common(port_rows(first.space, port))
        common = _together(
            first.space.columns, [ports_made[id(first.space), port.name] for port in first.ports]
        )
        if len(group) == 1:
            made = [_from_gram(first, common, _sum_of_grams(first, asked, grams) + common.gram)]
        else:
            made = _by_gramian(kinds, group, common, asked)
        for i, mapped in zip(group, made, strict=True):
            found[i] = mapped
            if mapped is None:
                alone.append(i)

    def one(number: int) -> Mapped:
        return _by_pivoting(kinds[number], asked, max(sigma, CUT_SIGMA))

    work = sum(
        4.0 * kinds[i].space.columns ** 2 * sum(len(asked[n].slot) for n, _ in kinds[i].asked)
        for i in alone
    )
    for i, mapped in zip(alone, in_parallel(one, alone, work), strict=True):
        found[i] = mapped
    return [one for one in found if one is not None]


def _common(port: Rowed) -> _Common:
    rows, lifted, out = port
    return _Common(rows.T @ rows, rows.T @ lifted, out)


def _together(r: int, ports: Sequence[_Common]) -> _Common:
    """Several ports as one."""
    if not ports:
        return _Common(np.zeros((r, r)), np.zeros((r, 0)), np.zeros((0, r)))
    return _Common(
        sum((port.gram for port in ports[1:]), start=ports[0].gram),
        np.asfortranarray(np.concatenate([port.B for port in ports], axis=1)),
        np.concatenate([port.out for port in ports]),
    )


def _sum_of_grams(kind: Kind, asked: Sequence[Asked], known: dict[object, Array]) -> Array:
    """M^T M of a kind that is like no other, statement by statement: most of these it shares."""
    total: Array | None = None
    for number, at in kind.asked:
        part = asked[number]
        numbers = digest(*(table[at].tobytes() for table in part.symbol.values()))
        key = (id(kind.space), number, numbers)
        if key not in known:
            tables = [_stacked(kind.space, part)]
            known[key] = _grams(kind.space, [part], [[at]], tables)[0]
        total = known[key] if total is None else total + known[key]
    assert total is not None
    return total


BATCH = 1 << 23
"""Bytes of rows that are made and multiplied together."""


def _by_gramian(
    kinds: Sequence[Kind], group: Sequence[int], common: _Common, asked: Sequence[Asked]
) -> list[Mapped | None]:
    """The maps of kinds with the same places by normal equations; None if these are not
    conditioned well enough.
    """
    space = kinds[group[0]].space
    parts = [asked[n] for n, _ in kinds[group[0]].asked]
    height, r = sum(len(part.slot) for part in parts), space.columns
    step = max(1, BATCH // (8 * height * r))
    if len(group) > 1:
        step = min(step, -(-len(group) // 2))
    pieces = [group[i : i + step] for i in range(0, len(group), step)]
    tables = [_stacked(space, part) for part in parts]

    def mapped(piece: Sequence[int]) -> list[Mapped | None]:
        own = [kinds[i] for i in piece]
        at = [[kind.asked[place][1] for kind in own] for place in range(len(parts))]
        grams = _grams(space, parts, at, tables)
        grams += common.gram
        return [_from_gram(kind, common, G) for kind, G in zip(own, grams, strict=True)]

    made = in_parallel(mapped, pieces, 2.0 * len(group) * height * r * r)
    return [one for piece in made for one in piece]


Stacked = list[tuple[int, list[Orders], Array]]


def _stacked(space: Space, part: Asked) -> Stacked:
    """Per unknown the derivatives in a statement's rows, and their tables (n, derivatives, r)."""
    tables = space.tables(part.slot, part.symbol)
    found = []
    for f in range(len(space.draws)):
        alphas = [alpha for g, alpha in part.symbol if g == f]
        if alphas:
            stacked = np.stack([tables[f, alpha] for alpha in alphas], axis=1)
            found.append((f, alphas, stacked / space.units[f]))
    return found


def _grams(
    space: Space, parts: Sequence[Asked], at: Sequence[Sequence[int]], tables: Sequence[Stacked]
) -> Array:
    """M^T M of the rows that statements ask of some cells, (cells, r, r); `at` are their positions
    in every statement."""
    height = sum(len(part.slot) for part in parts)
    whole = len(space.draws) == 1 and all(tables)
    M = (np.empty if whole else np.zeros)((height, len(at[0]), space.columns))
    start = 0
    for part, positions, own in zip(parts, at, tables, strict=True):
        rows = slice(start, start + len(part.slot))
        start = rows.stop
        for f, alphas, table in own:
            c = np.stack([part.symbol[f, alpha][positions] for alpha in alphas], axis=2)
            columns = slice(space.starts[f], space.starts[f + 1])
            np.matmul(c.transpose(1, 0, 2), table, out=M[rows, :, columns])
    return np.matmul(M.transpose(1, 2, 0), M.transpose(1, 0, 2))


def _from_gram(kind: Kind, common: _Common, G: Array) -> Mapped | None:
    if not cholesky(G):
        return None
    size = np.diagonal(G)
    condition = float(size.max() / size.min())
    if condition > WELL:
        return None
    factor = Gram(G)
    X = factor.solve(common.B)
    sums = np.zeros((0, kind.space.columns)) if kind.sums is None else kind.sums
    return Mapped(common.out @ X, sums @ X, X, common.out, sums, factor, condition)


def _by_pivoting(kind: Kind, asked: Sequence[Asked], sigma: float) -> Mapped:
    """The map by a QR of all rows and a pivoted one of its triangle."""
    made = [port_rows(kind.space, port) for port in kind.ports]
    top = rows_of(kind, asked)
    r = kind.space.columns
    M = np.concatenate([top, *(rows for rows, _, _ in made)])
    out = np.concatenate([o for _, _, o in made]) if made else np.zeros((0, r))
    if kind.own is not None:
        out = np.concatenate([out, kind.own[len(M) :]], axis=1)
        M = np.concatenate([M, kind.own[: len(M)]], axis=1)
    Q, R = np.linalg.qr(M)
    packed, pivots, tau, _, _ = lapack.dgeqp3(np.asfortranarray(R))
    size = np.abs(np.diag(packed))
    rank = int(np.count_nonzero(size > sigma * size[0])) if len(size) and size[0] > 0 else 0
    kept = pivots[:rank] - 1
    R = np.asfortranarray(np.triu(packed[:rank, :rank]))
    turned = (
        lapack.dorgqr(np.asfortranarray(packed[:, :rank]), tau[:rank])[0] if rank else packed[:, :0]
    )
    Q = Q @ turned
    lifted = np.zeros((len(M) - len(top), sum(one.lifted.shape[1] for one in made)))
    row = column = 0
    for one in made:
        n, m = one.lifted.shape
        lifted[row : row + n, column : column + m] = one.lifted
        row, column = row + n, column + m
    X = Q[len(top) :].T @ lifted
    sums = np.zeros((0, M.shape[1])) if kind.sums is None else kind.sums
    out, sums = (_divided(x[:, kept], R) for x in (out, sums))
    factor = Pivoted(Q[: len(top)], R, kept, M.shape[1])
    condition = float(size[0] / size[rank - 1]) if rank else np.inf
    return Mapped(out @ X, sums @ X, X, out, sums, factor, condition)


def _divided(rows: Array, R: Array) -> Array:
    """rows R^-1."""
    if not rows.size:
        return np.zeros((len(rows), len(R)))
    return np.ascontiguousarray(lapack.dtrtrs(R, np.asfortranarray(rows.T), trans=1)[0].T)
