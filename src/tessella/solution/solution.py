"""The solution as a function: call it, differentiate it, measure it, plot it, keep it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from tessella.cells.boxes.basis import on_cells
from tessella.cells.system.shaped import integral_points
from tessella.geometry.box import Box
from tessella.geometry.domain import real_numbers
from tessella.geometry.functions import Orders
from tessella.geometry.lattice import Gridded
from tessella.linalg.iterative.iteration import History
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.machine.memory import require
from tessella.machine.printing import times
from tessella.overlap.basis import AnyBasis, Basis, per_field
from tessella.overlap.parted import CALLED, Parted
from tessella.overlap.points import Grid
from tessella.overlap.quadrature import quadrature
from tessella.problem.linearised import applied_to, derivative
from tessella.problem.nonlinear import classified, is_linear
from tessella.problem.operator_function import from_function
from tessella.problem.operators import Identity, Operator
from tessella.problem.problem import Ansatz, Problem
from tessella.problem.reference import Reference
from tessella.problem.statement import check_operator
from tessella.solution.export import Sampled
from tessella.solution.places import Extremum, extremum, missed_on, over_boundary
from tessella.solution.report import Report, error_norms
from tessella.solution.superposition import each_derivative, superposed

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNKNOWN = "unknown equation"
"""Name of the equation of a solution that was loaded without its problem."""


@dataclass(frozen=True, repr=False)
class Solution(Sampled):
    """u = offset + multiplier * sum_jk a_jk omega_j phi_jk, and the report of how it was found.

    With several unknowns the values have a column for each, in the order of `problem.fields`, and
    `solution["p"]` is the function p alone.

    Of several processes that share the subdomains each has the `coefficients` of its own, and
    `parted` says whose the others are. Then all processes call it together, or draw, export or
    save it, with the same points or each with its own; whoever is to call it alone needs `whole()`.

    >>> import tessella as ts
    >>> line = ts.Box(x=(0, 1))
    >>> problem = ts.Problem(line, ts.Equation(-ts.D(x=2), 2.0), [ts.Dirichlet(0.0)])
    >>> solution = ts.solve(problem, subdomains=2, features=16)
    >>> solution([0.25, 0.5]).round(6)
    array([0.1875, 0.25  ])
    >>> round(solution.integral(), 6), solution.apply(ts.D(x=1), [0.0]).round(6)
    (0.166667, array([1.]))
    >>> highest = solution.max()
    >>> round(highest.value, 6), highest.at.round(6)
    (0.25, array([0.5]))
    """

    problem: Problem
    basis: AnyBasis
    coefficients: Array
    report: Report
    history: History
    parted: Parted | None = None

    def __call__(self, points: ArrayLike) -> Array:
        """Values at an (n, d) array of points of the domain."""
        names = self.problem.unknowns
        columns = [self.apply(self.problem.unknown(name), points) for name in names]
        return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)

    def __getitem__(self, field: str) -> Component:
        """One unknown of a system as a function."""
        return component(self, field)

    def apply(self, operator: Operator, points: ArrayLike, normals: Array | None = None) -> Array:
        """Any operator applied to the solution, e.g. `apply(D(x=1), points)`; of a system
        `apply(D(x=1) @ Field("u"), points)`.

        `normals` are the outward unit normals at the points, for operators that use them.
        """
        operator = as_operator(operator, "apply()")
        with together_if(self.parted):
            x = self.problem.domain.points(points)
            check_inside(self.problem, x)
            normals = as_normals(normals, x)
        operator = classified(operator, self.problem.domain)
        if not is_linear(operator):
            return applied_to(operator, self, x, normals)
        x = self.problem.domain.wrapped(x)
        if isinstance(points, Gridded) and not self.problem.domain.periodic:
            x = points
        own = partial(self._superposed, operator)
        values = own(x, normals) if self.parted is None else self.parted.added(own, x, normals)
        return self.problem.lift(operator, x, normals) + values

    def _superposed(self, operator: Operator, x: Array, normals: Array | None) -> Array:
        """What the coefficients that are here add up to."""
        values, problem = np.zeros(len(x)), self.problem
        symbols = {f: problem.symbol(operator, x, normals, f) for f in problem.fields}
        for field, level, own, mine in self._levels():
            if symbols[field]:
                values += superposed(level, own, x, symbols[field], mine)
        return values

    def _levels(self) -> Iterator[tuple[str, Basis, Array, np.ndarray | None]]:
        """Every level of every unknown: the coefficients that are here, and whose they are."""
        fields, offset, number = self.problem.fields, 0, 0
        for field, basis in zip(fields, per_field(self.basis, fields), strict=True):
            for level in basis.levels:
                mine = None if self.parted is None else self.parted.mine[number]
                size = level.columns if mine is None else level.width * int(mine.sum())
                yield field, level, self.coefficients[offset : offset + size], mine
                offset, number = offset + size, number + 1

    def whole(self) -> Solution:
        """The solution with the coefficients of all processes in each, who all call this."""
        if self.parted is None:
            return self
        a = self.parted.whole(self.coefficients)
        return dataclasses.replace(self, coefficients=a, parted=None)

    @property
    def largest_coefficient(self) -> float:
        """By size, of all."""
        with processes.together():
            own = float(np.max(np.abs(self.coefficients), initial=0.0))
            return own if self.parted is None else processes.largest("coefficients", own)

    def derivatives(
        self, alphas: Sequence[Orders], points: Array, field: str | None = None
    ) -> Array:
        """Several derivatives of an unknown at points of the domain, (derivatives, n); cheaper than
        one by one."""
        problem, x = self.problem, self.problem.domain.wrapped(points)
        own = field or problem.unknowns[0]
        if problem.domain.regions or problem.ansatz_of(own) != Ansatz():
            each = [self.apply(derivative(problem, alpha, own), points) for alpha in alphas]
            return np.stack(each)

        def here(x: Array, _: Array | None) -> Array:
            found = np.zeros((len(alphas), len(x)))
            for name, level, a, mine in self._levels():
                if name == own:
                    found += each_derivative(level, a, x, alphas, mine)
            return found

        return here(x, None) if self.parted is None else self.parted.added(here, x, None)

    def integral(
        self, operator: Operator | None = None, on: str | Sequence[str] | None = None
    ) -> float:
        """The integral over the domain of an operator applied to the solution, by default of the
        solution itself; by Gauss points between the edges of all subdomains.

        `on` names a part of the boundary, or several, to integrate over instead: a flux is
        `integral(NormalDerivative(), on="rim")`, a drag has `Normal("x") @ ...`. Two rules are
        made finer until they agree; a warning says so if they do not, as at a singular corner.
        """
        operator = as_operator(Identity() if operator is None else operator, "integral()")
        if on is not None:
            return over_boundary(self, operator, on)
        if on_cells(self.basis) and not isinstance(self.problem.domain, Box):
            points, weights = integral_points(self.problem, self.basis)
        else:
            points, weights = quadrature(self.basis)
        return float(weights @ self.apply(operator, points))

    def max(self, operator: Operator | None = None) -> Extremum:
        """The largest value of the solution, or of an operator applied to it, and where it is:
        the best of many points, polished. A peak far narrower than a subdomain may be missed."""
        return extremum(self, as_operator(self._asked(operator), "max()"), 1.0)

    def min(self, operator: Operator | None = None) -> Extremum:
        """The smallest value, and where it is; see `max`."""
        return extremum(self, as_operator(self._asked(operator), "min()"), -1.0)

    def _asked(self, operator: Operator | None) -> Operator:
        names = self.problem.unknowns
        if operator is None and len(names) > 1:
            raise ValueError(
                f"the solution has the unknowns {', '.join(names)}: ask for one of them, e.g. "
                f"solution[{names[0]!r}].max()"
            )
        return self.problem.unknown(names[0]) if operator is None else operator

    def energy(self, times: ArrayLike) -> Array:
        """Of a wave, at the given times: half the integral over space of u_t^2 + c^2 |grad u|^2,
        with the coefficients that the equation has (see `tessella.solution.energy`)."""
        from tessella.solution.energy import energy

        return energy(self, self.basis, times)

    def errors(self, points: ArrayLike | None = None) -> dict[str, float]:
        """Normalised L1, relative L2 and maximum error against the exact solution."""
        given = self.problem.domain.points(points) if points is not None else None
        at = test_points(self.problem, self.basis, None) if given is None else given
        if at is None:
            self.problem.exact_values(np.zeros((0, self.problem.domain.dimension)))
        assert at is not None
        return error_norms(self(at), self.problem.exact_values(at))

    def residual(self, points: ArrayLike | None = None, on: str | None = None) -> Array:
        """What is missed of the equations at the points: left side minus right side.

        (n,) values where one equation holds at every point, else a column for each equation, NaN
        where it does not hold. `on` names a single statement instead, or a part of the boundary
        with all its conditions, a column for each; then points may be left out, and are spread
        evenly.
        """
        if on is None and points is not None:
            return missed_of_equations(self, points)
        knows_equations(self)
        if on is None:
            raise TypeError("residual() needs points, or on=... with the name of a statement")
        return missed_on(self, on, points)

    def plot(self, path: str | Path | None = None) -> Figure:
        """A picture of the solution, beside the exact one if known; saved if a path is given."""
        from tessella.solution.pictures import plot_solution

        return plot_solution(self, path)

    def plot_history(self, path: str | Path | None = None) -> Figure:
        """A picture of how it was found: an iteration, or the refinement to a tolerance."""
        from tessella.solution.pictures import plot_history

        return plot_history(self, path)

    def save(self, path: str | Path) -> Path:
        """Write the solution to a file that `tessella.load` reads."""
        from tessella.solution.files import save

        return save(self, path)

    def __repr__(self) -> str:
        return f"<Solution of {self.report.problem!r}: {self.basis.columns:,} coefficients>"


def together_if(parted: Parted | None) -> AbstractContextManager[None]:
    """What one process refuses inside, all refuse, if each has a part of the solution."""
    return nullcontext() if parted is None else processes.in_unison(CALLED)


def as_operator(operator: object, door: str) -> Operator:
    """An operator, or a function of the derivatives and the points as one."""
    found = from_function(operator)
    check_operator(found, door)
    assert isinstance(found, Operator)
    return found


def knows_equations(solution: Sampled) -> None:
    """Refuse a solution that was loaded without its problem."""
    if solution.problem.equations[0].name.startswith(UNKNOWN):
        raise ValueError(
            "this solution was loaded without its problem and knows no equation: "
            "load(path, problem=...)"
        )


def missed_of_equations(solution: Sampled, points: ArrayLike) -> Array:
    """What a solution misses of its equations (see `Solution.residual`)."""
    knows_equations(solution)
    x, equations = solution.problem.domain.points(points), solution.problem.equations
    found = np.full((len(x), len(equations)), np.nan)
    for column, equation in enumerate(equations):
        here = equation.holds(solution.problem.domain, x)
        found[here, column] = equation.defect(solution, x[here])
    alone = np.count_nonzero(~np.isnan(found), axis=1) == 1
    return np.nansum(found, axis=1) if alone.all() else found


@dataclass(frozen=True)
class Component:
    """One unknown of a solved system."""

    solution: Sampled
    field: str

    def __call__(self, points: ArrayLike) -> Array:
        return self.apply(Identity(), points)

    def apply(self, operator: Operator, points: ArrayLike, normals: Array | None = None) -> Array:
        """A linear operator applied to this unknown, e.g. `solution["u"].apply(D(x=1), points)`."""
        unknown = self.solution.problem.unknown(self.field)
        return self.solution.apply(operator @ unknown, points, normals)

    def max(self) -> Extremum:
        """The largest value, and where it is; see `Solution.max`."""
        return self._whole().max(self.solution.problem.unknown(self.field))

    def min(self) -> Extremum:
        """The smallest value, and where it is."""
        return self._whole().min(self.solution.problem.unknown(self.field))

    def _whole(self) -> Solution:
        if not isinstance(self.solution, Solution):
            raise TypeError("max() and min() are those of a single solution: ask every slab")
        return self.solution


def component(solution: Sampled, field: str) -> Component:
    """One unknown, or one region's part of it, by its name."""
    known = dict.fromkeys((*solution.problem.unknowns, *solution.problem.fields))
    if not isinstance(field, str) or field not in known:
        raise ValueError(f"unknown field {field!r}: this solution has {', '.join(known)}")
    return Component(solution, field)


def as_normals(normals: ArrayLike | None, x: Array) -> Array | None:
    """A vector for every point, or none."""
    if normals is None:
        return None
    array = real_numbers(normals, "normals")
    if array.shape != x.shape:
        raise ValueError(
            f"normals must have a line for each of the points, {x.shape}, got {array.shape}"
        )
    return array


def check_inside(problem: Problem, x: Array) -> None:
    domain = problem.domain
    if not np.all(np.isfinite(x)):
        raise ValueError("points contain NaN or infinity: leave those points out")
    outside = np.flatnonzero(~domain.contains(x))
    if outside.size:
        place = ", ".join(f"{c:.6g}" for c in x[outside[0]])
        raise ValueError(
            f"{outside.size} of {len(x)} points lie outside {domain!r}, the first at ({place}): "
            f"the solution is defined inside the domain only"
        )


def test_points(problem: Problem, basis: AnyBasis, grid: Grid | None) -> Array | None:
    """Where the error is measured: where a reference is known, else on the given grid or at about
    10,000 points; None if there is no exact solution."""
    if problem.exact is None:
        return None
    if isinstance(problem.exact, Reference):
        return problem.exact.points
    if grid is None:
        d = problem.domain.dimension
        per_axis = {1: 1_000, 2: 100, 3: 22}.get(d, max(2, round(10_000 ** (1 / d))))
        return problem.domain.closure((per_axis,) * d)
    counts = grid.counts(basis)
    each = 4 + 5 * problem.domain.dimension + 8 * pairs_per_point(basis)
    require(
        8 * math.prod(counts) * each,
        f"measuring the error at {times(counts)} points",
        "use a coarser test_grid, e.g. Grid(points_per_axis=200)",
    )
    return problem.domain.closure(counts)


def pairs_per_point(basis: AnyBasis) -> int:
    """Most subdomains of all levels that a point lies in."""
    return sum(level.decomposition.pairs_per_point() for level in basis.levels)
