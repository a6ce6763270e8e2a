"""(Problem, Basis, collocation points) -> the least-squares problem min |M a - h|."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tessella.geometry.box import Box
from tessella.geometry.functions import Orders
from tessella.linalg.block_matrix import BlockMatrix, beside
from tessella.linalg.iterative.iteration import Progress
from tessella.linalg.partial_sums import add_dense_rows, block_places, partial_sums
from tessella.linalg.preconditioners import Preconditioner
from tessella.linalg.rrqr import RRQR, Unfiltered
from tessella.machine import processes
from tessella.machine.arrays import Array, on_device
from tessella.machine.printing import counted
from tessella.overlap.basis import AnyBasis, Basis, Multilevel, per_field
from tessella.overlap.enriched import scales
from tessella.overlap.factored import Data
from tessella.overlap.matrices import evaluate_at, evaluate_matrix
from tessella.overlap.points import Rows, check_memory
from tessella.overlap.shares import Share
from tessella.problem.conditions import IntegralCondition
from tessella.problem.problem import Problem

SLIVER = 0.5
"""On a shape, a subdomain with fewer rows than this part of its columns is left to its neighbours:
so few points say little about what its features do between them."""


class Total(NamedTuple):
    """A condition on the solution as a whole: row . a = value."""

    name: str
    row: Array
    value: float
    weight: float | None
    lift: float


@dataclass(frozen=True, repr=False)
class LeastSquares:
    """min |M a - h|, with the rows of each equation and condition and their weights.

    The rows of `totals` are written as partial sums, which are unknowns too: the last columns of M.
    `scales` are the units in which the filter compares columns, if not their own. Rows at `points`
    have h = scale * (data - lift); `normals` are those of conditions on the boundary.
    """

    M: BlockMatrix
    h: Array
    parts: dict[str, slice]
    weights: dict[str, float]
    points: Array
    scale: Array
    lift: Array
    normals: dict[str, Array]
    totals: tuple[Total, ...] = ()
    scales: Array | None = None

    def __repr__(self) -> str:
        rows = {name: own.stop - own.start for name, own in self.parts.items()}
        rows |= {total.name: 1 for total in self.totals}
        parts = ", ".join(
            f"{name} {counted(number, 'row')} of weight {self.weights[name]:.3g}"
            for name, number in rows.items()
        )
        size = " and ".join(map(counted, self.M.shape, ("row", "column")))
        return f"LeastSquares of {size}, {self.M.contents}: {parts}"

    @property
    def rows(self) -> int:
        return self.M.shape[0]

    @property
    def right(self) -> Array:
        return self.h

    def data(self) -> list[Data]:
        """Where the data of every statement enter `right`."""
        found = []
        for name, at in self.parts.items():
            own = (self.points[at], at, self.scale[at], self.lift[at])
            found.append(Data(name, *own, normals=self.normals.get(name)))
        rows = len(self.h) - len(self.points)
        for number, total in enumerate(self.totals, 1):
            n = rows // len(self.totals)
            end = len(self.points) + number * n
            scale = np.array([math.sqrt(n * self.weights[total.name])])
            nowhere, lift = np.zeros((1, self.points.shape[1])), np.array([total.lift])
            found.append(Data(total.name, nowhere, slice(end - 1, end), scale, lift))
        return found

    @property
    def data_size(self) -> float:
        """The norm of h."""
        return float(np.linalg.norm(self.h))

    def with_right(self, h: Array) -> LeastSquares:
        """The same with another right-hand side."""
        ends = {own.name: (h[own.at] / own.scale).item() for own in self.data()[len(self.parts) :]}
        totals = tuple(own._replace(value=ends[own.name]) for own in self.totals)
        return dataclasses.replace(self, h=h, totals=totals)

    def residuals(self, a: Array) -> dict[str, float]:
        """Root mean square residual of each part, in the units of its equation."""
        padded = np.pad(a, (0, self.M.shape[1] - len(a)))
        residual = np.asarray(self.M.matvec(on_device(padded))) - self.h
        pointwise = {
            name: float(np.linalg.norm(residual[rows]) / np.sqrt(self.weights[name]))
            for name, rows in self.parts.items()
        }
        return pointwise | {t.name: abs(float(t.row @ a) - t.value) for t in self.totals}

    def has_matrix_of(self, other: LeastSquares) -> bool:
        """Whether only right-hand sides differ, up to rounding of the points."""
        return self.M.acts_like(other.M)

    def with_matrix_of(self, other: LeastSquares) -> LeastSquares:
        """This system holding on to the other's blocks, so that its own are freed."""
        return dataclasses.replace(self, M=other.M)

    def reduce(
        self, rule: RRQR | Unfiltered, progress: Progress | None = None, keep: bool = False
    ) -> Reduced:
        """Filter the blocks; the unknowns that are left are all the features kept.

        There is nothing to `keep` for another right-hand side, which stays as it is.
        """
        filtered = rule.apply(self.M, self.scales)
        parts = (filtered.Q, self.h, filtered.kept, filtered.preconditioner)
        return Bordered(*parts, len(self.totals[0].row)) if self.totals else Reduced(*parts)


@dataclass(frozen=True, repr=False)
class Reduced:
    """What a solver gets, min |Q y - h|, and how its unknowns y give the coefficients."""

    Q: Any
    h: Array
    kept: np.ndarray
    preconditioner: Preconditioner

    def __repr__(self) -> str:
        return f"{type(self).__name__}: {len(self.kept):,} columns kept of {self.Q!r}"

    @property
    def columns_kept(self) -> int:
        return len(self.kept)

    def coefficients(self, y: Array) -> Array:
        return np.asarray(self.preconditioner.apply(y))

    def renewed(self, system: LeastSquares) -> Reduced:
        """The right-hand side of another system with the same matrix."""
        return dataclasses.replace(self, h=system.h)

    def preconditioned(self) -> Reduced:
        """The form for iterative solvers: this one."""
        return self


@dataclass(frozen=True, repr=False)
class Bordered(Reduced):
    """A system whose unknowns beyond the first `columns` are partial sums."""

    columns: int

    def coefficients(self, y: Array) -> Array:
        return super().coefficients(y)[: self.columns]


@dataclass(frozen=True)
class Weighed:
    """The rows of a system before any basis: sum_alpha symbol[alpha] D^alpha v = h at the points,
    with a symbol for every unknown, in the problem's order, and h = scale * (data - lift).

    Weights are folded in, except those left open: such parts have weight None and count as 1.
    """

    points: Array
    symbols: tuple[dict[Orders, Array], ...]
    scale: Array
    given: Array
    lift: Array
    parts: dict[str, slice]
    weights: dict[str, float | None]

    @property
    def h(self) -> Array:
        return self.scale * (self.given - self.lift)

    @property
    def symbol(self) -> dict[Orders, Array]:
        """The only unknown's."""
        (only,) = self.symbols
        return only

    def balance(self, norms: Array) -> tuple[dict[str, float], Array]:
        """All weights and the factors of the rows, given the squared length of every row.

        A part without a weight gets the one that makes its rows as long, on average, as the first
        equation's.
        """
        own = [
            float(norms[rows].mean()) * (rows.stop - rows.start) if rows.stop > rows.start else 0.0
            for rows in self.parts.values()
        ]
        mean = dict(
            zip(self.parts, processes.total("balance", np.array(own)).tolist(), strict=True)
        )
        target = mean[next(iter(self.parts))]
        weights = {
            name: (target / mean[name] if mean[name] > 0 else 1.0) if w is None else float(w)
            for name, w in self.weights.items()
        }
        factors = np.ones(len(self.scale))
        for name, rows in self.parts.items():
            if self.weights[name] is None:
                factors[rows] = np.sqrt(weights[name])
        return weights, factors


def weigh(problem: Problem, rows: Sequence[Rows], counts: dict[str, int] | None = None) -> Weighed:
    """Rows scaled as in the paper's loss: 1/sqrt(N_I) and sqrt(lambda_l/N_B). `counts` are the N of
    all, where these are the rows of one process."""
    sizes = [len(part.points) for part in rows]
    symbols: list[list[dict[Orders, Array]]] = [[] for _ in problem.fields]
    scales, given, lifts, weights = [], [], [], {}
    for part in rows:
        source, name = part.source, part.source.name
        count = len(part.points) if counts is None else counts[name]
        if not count:
            raise ValueError(
                f"{name!r} has no collocation points, so it would not be enforced: place points "
                f"on its faces, or drop it from the problem"
            )
        weight = source.weight
        if weight is None and source is problem.equations[0]:
            weight = 1.0
        scale = np.sqrt((1.0 if weight is None else weight) / count)
        weights[name] = weight
        for own, field in zip(symbols, problem.fields, strict=True):
            symbol = problem.symbol(source.operator, part.points, part.normals, field)
            own.append({alpha: scale * c for alpha, c in symbol.items()})
        scales.append(np.full(len(part.points), scale))
        given.append(source.values(part.points, part.normals))
        lifts.append(problem.lift(source.operator, part.points, part.normals))
    ends = np.cumsum(sizes)
    return Weighed(
        np.concatenate([part.points for part in rows]),
        tuple(_stack(own, sizes) for own in symbols),
        np.concatenate(scales),
        np.concatenate(given),
        np.concatenate(lifts),
        {
            name: slice(int(end - size), int(end))
            for name, end, size in zip(weights, ends, sizes, strict=True)
        },
        weights,
    )


def assemble(
    problem: Problem, basis: AnyBasis, rows: Sequence[Rows], share: Share | None = None
) -> LeastSquares:
    """The system of the paper's loss; conditions without a weight are balanced. With a `share`,
    what this process has of it, at its own rows."""
    totals = tuple(_total(problem, basis, part) for part in rows if part.measure is not None)
    rows = [part for part in rows if part.measure is None]
    n_rows = sum(len(part.points) for part in rows)
    if share is None:
        check_determined(basis, rows)
    bases = per_field(basis, problem.fields)
    check_memory(basis, n_rows)
    with processes.in_unison("blocks"):
        weighed = weigh(problem, rows, None if share is None else share.sizes)
        matrices = [
            evaluate_matrix(own, weighed.points, symbol, share)
            for own, symbol in zip(bases, weighed.symbols, strict=True)
        ]
    M = beside(matrices)
    if share is not None:
        M = share.localised(M)
    if not isinstance(problem.domain, Box):
        M = M.without_low_blocks(SLIVER)
    scale = weighed.scale
    if None in weighed.weights.values():
        weights, factors = weighed.balance(M.row_norms_squared(_drawn(bases)))
        M, scale = M.scale_rows(factors), factors * scale
    else:
        weights = {name: float(w) for name, w in weighed.weights.items() if w is not None}
    h = scale * (weighed.given - weighed.lift)
    normals = {part.source.name: part.normals for part in rows if part.normals is not None}
    asked = (weighed.points, scale, weighed.lift, normals)
    system = LeastSquares(M, h, weighed.parts, weights, *asked, scales=_scales(bases, M))
    return _with_totals(system, totals) if totals else system


def check_determined(basis: AnyBasis, rows: Sequence[Rows]) -> None:
    """Refuse fewer rows than columns."""
    n_rows, columns = sum(len(part.points) for part in rows), basis.columns
    if n_rows < columns:
        columns = basis.columns_at(np.concatenate([part.points for part in rows]))
    if n_rows < columns:
        raise ValueError(
            f"the system has fewer rows than columns ({n_rows} < {columns}): raise "
            f"oversampling (or points_per_axis), or use fewer features or subdomains"
        )


def _total(problem: Problem, basis: AnyBasis, part: Rows) -> Total:
    """The integral of every basis function, by the quadrature of the rows."""
    assert isinstance(part.source, IntegralCondition) and part.measure is not None
    check_memory(basis, len(part.points))
    E, e = evaluate_at(problem, basis, part.source.operator, part.points)
    row = np.asarray(E.rmatvec(on_device(part.measure)))
    if not np.any(row):
        raise ValueError(
            f"{part.source.name!r} is zero whatever the solution is: drop it, or change `of`"
        )
    lift = float(part.measure @ e)
    return Total(part.source.name, row, part.source.number - lift, part.source.weight, lift)


def _with_totals(system: LeastSquares, totals: tuple[Total, ...]) -> LeastSquares:
    """Their rows below the system. Without a weight, the partial sums of a block weigh as much as
    its rows of the first equation."""
    equation = next(iter(system.parts.values()))
    target = float(system.M.row_norms_squared()[equation].sum())
    n = partial_sums(block_places(system.M)).rows
    weights = [
        target / (n * float(t.row @ t.row)) if t.weight is None else t.weight for t in totals
    ]
    scales = [math.sqrt(n * w) for w in weights]
    M = add_dense_rows(system.M, [t.row for t in totals], scales)
    ends = np.zeros((len(totals), n))
    ends[:, -1] = [s * t.value for s, t in zip(scales, totals, strict=True)]
    named = dict(zip((t.name for t in totals), weights, strict=True))
    h = np.concatenate([system.h, ends.ravel()])
    units = None
    if system.scales is not None:
        units = np.concatenate([system.scales, np.ones(M.shape[1] - len(system.scales))])
    weighted = system.weights | named
    return dataclasses.replace(system, M=M, h=h, weights=weighted, totals=totals, scales=units)


def _drawn(bases: Sequence[Basis | Multilevel]) -> np.ndarray | None:
    """Which columns are random features, if not all: conditions are balanced by what these make of
    them, as the size of a function handed in says nothing about an equation."""
    levels = [level for basis in bases for level in basis.levels]
    if not any(level.enrichment for level in levels):
        return None
    return np.concatenate(
        [
            np.tile(np.arange(level.width) < level.features.columns, level.decomposition.count)
            for level in levels
        ]
    )


def _scales(bases: Sequence[Basis | Multilevel], M: BlockMatrix) -> Array | None:
    """Units for the filter in which enrichment is as long as features; None without any."""
    levels = [level for basis in bases for level in basis.levels]
    if not any(level.enrichment for level in levels):
        return None
    norms = np.sqrt(M.column_norms_squared())
    found, offset = [], 0
    for level in levels:
        own = norms[offset : offset + level.columns].reshape(-1, level.width)
        found.append(scales(own, len(level.enrichment)).ravel())
        offset += level.columns
    return np.concatenate(found)


def _stack(symbols: list[dict[Orders, Array]], sizes: list[int]) -> dict[Orders, Array]:
    """One table of coefficients for all rows; operators a part does not use are zero there."""
    alphas = sorted({alpha for symbol in symbols for alpha in symbol})
    return {
        alpha: np.concatenate(
            [s.get(alpha, np.zeros(n)) for s, n in zip(symbols, sizes, strict=True)]
        )
        for alpha in alphas
    }
