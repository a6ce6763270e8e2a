"""Where the equation and each condition are enforced."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tessella.geometry.box import Box
from tessella.geometry.domain import Domain, Surface
from tessella.machine.arguments import is_number, whole_numbers
from tessella.machine.arrays import Array
from tessella.machine.memory import require
from tessella.machine.printing import as_written, counted
from tessella.overlap.basis import AnyBasis
from tessella.overlap.quadrature import quadrature
from tessella.problem.conditions import Condition, IntegralCondition
from tessella.problem.problem import Problem
from tessella.problem.statement import Statement

GRIDDED = 3
"""Dimensions up to which points lie on grids; beyond, grids have too many points, most of them on
the boundary, and points are scattered instead."""


@dataclass(frozen=True, repr=False)
class Rows:
    """One equation or condition and the points where it is enforced.

    With a `measure`, quadrature weights of the points, it is a single row: their weighted sum.
    `shares` are the parts of a mean that the points stand for, if not equal ones.
    """

    source: Statement
    points: Array
    normals: Array | None = None
    measure: Array | None = None
    shares: Array | None = None

    def __repr__(self) -> str:
        return f"Rows of {self.source.name!r} at {counted(len(self.points), 'point')}"

    def mean(self, values: Array) -> float:
        """Of values at the points."""
        return float(np.average(values, weights=self.shares))


@dataclass(frozen=True, repr=False)
class Grid:
    """The paper's regular grid, end points included.

    Along an axis with S subdomains of C columns in d dimensions the paper takes S * ceil(C^(1/d))
    points, which makes the system just square. `oversampling` multiplies the number of points, so
    each axis gets oversampling^(1/d) times as many. At 1 the system interpolates and its exact
    solution is poor; 2 or more gives a genuine least-squares problem (4 costs more and gains
    little). `points_per_axis` overrides the rule. Faces carry the same grid.

    In more than three dimensions there are `oversampling` points per column inside, quasi-random
    ones (Sobol's), and as many again on the boundary, in equal parts for the conditions.

    >>> import tessella as ts
    >>> boxes = ts.Decomposition(ts.Box(x=(0, 1), y=(0, 1)), (8, 2))
    >>> ts.Grid(oversampling=4).counts(ts.Basis(boxes, ts.RandomFeatures(24)))
    (80, 20)
    """

    oversampling: float = 1.0
    points_per_axis: int | Sequence[int] | None = None

    def __post_init__(self) -> None:
        if not (is_number(self.oversampling) and self.oversampling > 0):
            raise ValueError(f"oversampling must be a positive number, got {self.oversampling!r}")
        if self.points_per_axis is not None:
            given = whole_numbers(self.points_per_axis)
            if given is None or np.any(given < 1):
                raise ValueError(
                    f"points_per_axis must be whole numbers >= 1, got {self.points_per_axis!r}"
                )

    def __repr__(self) -> str:
        return as_written(self)

    def counts(self, basis: AnyBasis) -> tuple[int, ...]:
        decomposition = basis.decomposition
        d = decomposition.domain.dimension
        if self.points_per_axis is not None:
            given = np.atleast_1d(self.points_per_axis)
            if given.size not in (1, d):
                raise ValueError(
                    f"points_per_axis must be one number or one per axis, got "
                    f"{self.points_per_axis!r} in {d} dimensions"
                )
            return tuple(int(n) for n in np.broadcast_to(given, (d,)))
        per_subdomain = math.ceil(basis.width ** (1 / d) - 1e-9)
        factor = self.oversampling ** (1 / d)
        return tuple(math.ceil(S * per_subdomain * factor - 1e-9) for S in decomposition.subdomains)

    def rows(self, problem: Problem, basis: AnyBasis) -> list[Rows]:
        """The equations on the whole grid, then each condition on the grids of its parts, at its
        own points, or over the domain.

        A shape leaves holes in the grid, and subdomains at its boundary see fewer points than they
        have columns. The grid is refined until the rows outnumber the columns of all subdomains
        with points by `oversampling`.
        """
        if problem.domain.dimension > GRIDDED and self.points_per_axis is None:
            return _scattered(problem, basis, math.ceil(self.oversampling * basis.columns))
        counts = self.counts(basis)
        found = _rows(problem, basis, counts)
        while self.points_per_axis is None and not isinstance(problem.domain, Box):
            missing = self._missing(found, basis)
            if missing <= 1:
                break
            factor = max(1.05, missing ** (1 / len(counts)))
            counts = tuple(math.ceil(factor * n) for n in counts)
            finer = _rows(problem, basis, counts)
            if _size(finer) <= _size(found):
                break
            found = finer
        return found

    def _missing(self, rows: list[Rows], basis: AnyBasis) -> float:
        """Rows wanted over rows there; at most 1 if there are enough."""
        there = _size(rows)
        points = np.concatenate([part.points for part in rows])
        return self.oversampling * basis.columns_at(points) / max(there, 1)


Sample = Callable[[str], Surface]
"""Points on a part of the boundary, by its name."""


def _rows(problem: Problem, basis: AnyBasis, counts: tuple[int, ...]) -> list[Rows]:
    """On a grid."""
    domain = problem.domain
    check_memory(basis, len(problem.equations) * math.prod(counts))
    on = partial(domain.boundary, counts=counts)
    return _placed(problem, basis, domain.closure(counts), lambda condition: on)


def _scattered(problem: Problem, basis: AnyBasis, count: int) -> list[Rows]:
    """`count` points for each equation, and for the conditions together."""
    domain = problem.domain
    check_memory(basis, (len(problem.equations) + 1) * count)

    def on(condition: Condition) -> Sample:
        each = math.ceil(count / len(problem.conditions) / max(len(condition.faces(domain)), 1))
        return partial(_scattered_on, domain, count=each)

    return _placed(problem, basis, _quasi_random(domain, count), on)


def _placed(
    problem: Problem, basis: AnyBasis, inside: Array, on: Callable[[Condition], Sample]
) -> list[Rows]:
    """The equations at points inside, the conditions where they hold."""
    found = [Rows(e, problem.within(e, inside)) for e in problem.equations]
    for condition in problem.conditions:
        if isinstance(condition, IntegralCondition):
            points, measure = quadrature(basis)
            found.append(Rows(condition, points, measure=measure))
        else:
            found.append(Rows(condition, *condition.places(problem.domain, on(condition))))
    return found


def _quasi_random(domain: Domain, count: int, seed: int = 0) -> Array:
    """Sobol's points of the bounding box that lie inside the domain; other seeds, other points."""
    from scipy.stats import qmc  # a fifth of a second that few need

    wanted = count
    while True:
        power = math.ceil(math.log2(wanted))
        share = qmc.Sobol(domain.dimension, seed=seed).random_base2(power)
        points = domain.lower + (domain.upper - domain.lower) * share
        points = points[domain.contains(points)]
        if len(points) >= count:
            return points[:count]
        wanted = 2 * 2**power


def _scattered_on(domain: Domain, part: str, count: int) -> Surface:
    if isinstance(domain, Box):
        seed = 1 + domain.parts.index(part)
        return domain.on(domain.face(part), _quasi_random(domain, count, seed))
    return domain.scatter_on(part, count, np.random.default_rng(0), domain)


def _size(rows: list[Rows]) -> int:
    return sum(len(part.points) for part in rows)


def check_memory(basis: AnyBasis, n_rows: int) -> None:
    """Refuse a system that would not fit, before anything is allocated.

    The blocks are held twice (M and its orthonormal factor Q), with as much again for working
    copies while they are made (3.8 times in all, `python -m benchmarks memory`).
    """
    entries = n_rows * sum(
        level.decomposition.pairs_per_point() * level.width for level in basis.levels
    )
    require(
        4 * 8 * entries,
        f"a system of {n_rows:,} rows and {basis.columns:,} columns",
        "use fewer features, subdomains or points, or a smaller overlap",
    )
