"""Factor once, solve for many data: only data are evaluated, at points that are known."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import Any, overload

import numpy as np

from tessella.geometry.domain import Domain
from tessella.geometry.functions import Function, check_values, explained, function_values
from tessella.linalg.iterative.iteration import History, Progress
from tessella.machine.arrays import Array
from tessella.machine.memory import peak_mib
from tessella.machine.stopwatch import Stopwatch
from tessella.problem.conditions import IntegralCondition, PointCondition, Readings
from tessella.problem.operators import Operator
from tessella.problem.problem import Equation, Problem
from tessella.problem.statement import Statement
from tessella.solution.report import Report
from tessella.solution.solution import Solution
from tessella.solving.algorithm import exact_samples, report_of, substitute
from tessella.solving.doors import check_problem, with_choices
from tessella.solving.method import Method, unknown
from tessella.solving.places import Places, places_of, together
from tessella.solving.plan import on_basis
from tessella.solving.stored_factors import StoredStatement, packed, save
from tessella.solving.tolerance import solve_to
from tessella.solving.ways import Factors, Found, Parts, way

BATCH = 32
"""Right-hand sides solved for at once: what a core has at hand."""

Given = Any
"""Data of a statement: a number, a function of the points, or several of them in a list; a function
may also return (n, k) values."""


@with_choices()
def factor(
    problem: Problem,
    method: Method | None = None,
    *,
    progress: Progress | None = None,
    **choices: Any,
) -> FactoredProblem:
    """Filter and factor a problem once, to solve it for other right-hand sides and boundary values.

    The choices are those of `solve`. `tol` first finds a discretisation that meets it for the data
    of the problem, and keeps its factors: other data of the same kind are then met about as well,
    rougher ones are not (the residual of every solution shows it).

    >>> import tessella as ts
    >>> line = ts.Box(x=(0, 1))
    >>> problem = ts.Problem(line, ts.Equation(-ts.D(x=2), 2.0), [ts.Dirichlet(0.0, on="xmin"),
    ...     ts.Dirichlet(0.0, on="xmax", name="right")])
    >>> factored = ts.factor(problem, subdomains=2, features=16, coupling="interfaces")
    >>> round(float(factored.solve(rhs=4.0)(0.5)[0]), 8)
    0.5
    >>> [round(float(u(0.5)[0]), 8) for u in factored.solve(values={"right": [1.0, 2.0]})]
    [0.75, 1.25]
    """
    check_problem(problem, "factor")
    chosen = Method.of(choices, "factor", method).for_any_data()
    refined: Report | None = None
    if chosen.tol is not None:
        found = solve_to(problem, chosen, progress)
        parts, refined = on_basis(found.basis), found.report
    else:
        parts = chosen.parts(problem)
    watch = Stopwatch()
    with watch.phase("assemble"):
        system = way(parts.basis).assemble(problem, parts)
    ready = way(parts.basis).factor(system, parts, watch, progress)
    return FactoredProblem(problem, parts, ready, watch.total(), refined, statements(problem))


def statements(problem: Problem) -> tuple[StoredStatement, ...]:
    """What may be given as data of a problem."""
    found = []
    for own in problem.statements:
        kind = "readings" if isinstance(own, PointCondition) else "function"
        kind = "integral" if isinstance(own, IntegralCondition) else kind
        found.append(StoredStatement(own.name, own.word, kind, isinstance(own, Equation)))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Values of a statement's data (n, k), and for how many right-hand sides; 0 is one for all."""

    found: Array
    count: int

    def values(self, here: slice) -> Array:
        """Those of some right-hand sides."""
        return self.found[:, here] if self.count else self.found


@dataclass(frozen=True, eq=False)
class Listed(Prepared):
    """Data that are evaluated when they are needed."""

    data: Sequence[Given]
    points: Array
    what: str

    def values(self, here: slice) -> Array:
        each = [_evaluated(one, self.points, self.what) for one in self.data[here]]
        return np.stack(each, axis=1)


@dataclass(frozen=True, repr=False, eq=False)
class FactoredProblem:
    """A problem with its factors, ready for other data (see `factor`).

    >>> import tessella as ts
    >>> problem = ts.Problem(ts.Box(x=(0, 1)), ts.Equation(-ts.D(x=2), 2.0), [ts.Dirichlet(0.0)])
    >>> ts.factor(problem, subdomains=2, features=16, coupling="interfaces").data
    ('equation', 'dirichlet')
    """

    problem: Problem
    parts: Parts
    ready: Factors
    seconds: dict[str, float]
    refined: Report | None
    """Of the solve that found the discretisation, if a tolerance was asked."""
    asked: tuple[StoredStatement, ...]
    """Whose data may be others."""

    def __repr__(self) -> str:
        system, basis = self.ready.system, self.parts.basis
        return (
            f"<FactoredProblem {self.problem.name!r}: {system.rows:,} rows, {basis.columns:,} "
            f"columns in {basis.decomposition.count:,} subdomains, {self.ready.name}, factored in "
            f"{self.seconds['total']:.2g} s{self._told_size}; data of {', '.join(self.data)}>"
        )

    @property
    def _told_size(self) -> str:
        with suppress(ValueError):
            return f", {self.bytes / 2**20:.1f} MiB in a file"
        return ""

    def save(self, path: str | Path) -> Path:
        """Write the factors to a file of about `bytes` that `tessella.load` reads: that costs one
        solve, not factoring.

        What is loaded solves for any data, and for those that were stated. The functions of the
        problem are not in the file: `load(path, problem=...)` where solutions are to know their
        equations (for their residual, say), and where an ansatz is made of functions.
        """
        return save(self, path)

    @cached_property
    def bytes(self) -> int:
        """Of all factors in a file."""
        return packed(self).bytes

    @property
    def data(self) -> tuple[str, ...]:
        """The names of all statements, whose data may be others."""
        return tuple(own.name for own in self.asked)

    def as_factored(self) -> Solution:
        """The solution for the data that the problem was factored with, and nothing measured but
        its residual."""
        return self._solved({}, {}, slice(0, 1))[0]

    @overload
    def solve(self) -> Solution: ...

    @overload
    def solve(
        self, rhs: Given = None, values: Mapping[str, Given] | None = None
    ) -> Solution | list[Solution]: ...

    def solve(
        self, rhs: Given = None, values: Mapping[str, Given] | None = None
    ) -> Solution | list[Solution]:
        """The solution for other data; what is not given stays as the problem has it.

        rhs     of the equation: a number, a function of the points, or a list of these; a function
                may return (n, k) values for k right-hand sides. Of several equations a mapping from
                their names
        values  the same for conditions (and equations), by the names in `data`; of `Measured` an
                array of its n values, or (n, k); of `Integral` a number or several

        Several data at once give a list of solutions, and cost much less than one by one. They are
        as many everywhere, or one. Without any data the problem is solved as stated, with the
        error against its exact solution if that is known.
        """
        if rhs is None and not values:
            watch = Stopwatch()
            samples = exact_samples(self.problem, self.parts.basis, None)
            known = statements(self.problem) == self.asked
            solved = substitute(
                self.problem, self.parts.basis, self.ready, samples, watch, remarks=known
            )
            told = dataclasses.replace(
                solved.report, seconds=watch.total(), peak_memory_mib=peak_mib()
            )
            return dataclasses.replace(solved, report=told)
        given = self._by_name(rhs, values or {})
        with together(self.ready):
            prepared = {name: self._prepared(name, data) for name, data in given.items()}
        count = _common({name: own.count for name, own in prepared.items() if own.count})
        found: list[Solution] = []
        for start in range(0, count or 1, BATCH):
            here = slice(start, min(start + BATCH, count or 1))
            found += self._solved(given, prepared, here)
        return found if count else found[0]

    def _solved(
        self, given: Mapping[str, Given], prepared: Mapping[str, Prepared], here: slice
    ) -> list[Solution]:
        """Some of all right-hand sides."""
        watch, basis = Stopwatch(), self.parts.basis
        with watch.phase("assemble"), together(self.ready):
            right = np.tile(self.ready.system.right, (here.stop - here.start, 1))
            for name, own in prepared.items():
                places = self._places[name]
                each = own.values(here)[places.which]
                right[:, places.at] = (each.T - places.lift) * places.scale
        with watch.phase("solve"):
            a, result, residual = self.ready.many(right)
        seconds = {key: s / len(a) for key, s in watch.total().items()}
        report = dataclasses.replace(
            report_of(self.problem, basis, self.ready, Found(a, result, {})),
            seconds=seconds,
            peak_memory_mib=peak_mib(),
        )
        found = []
        for i, one in enumerate(a):
            missed = {name: float(own[i]) for name, own in residual.items()}
            stated = self._stated(given, here.start + i)
            told = dataclasses.replace(report, residual=missed)
            found.append(Solution(stated, basis, one, told, History()))
        return found

    @cached_property
    def _places(self) -> dict[str, Places]:
        return places_of(self.ready)

    def _statement(self, name: str) -> StoredStatement:
        return next(own for own in self.asked if own.name == name)

    def _by_name(self, rhs: Given, values: Mapping[str, Given]) -> dict[str, Given]:
        """All data by the names of their statements, checked."""
        if not isinstance(values, Mapping):
            raise TypeError(
                f"values must be a mapping from names of conditions to data, got {values!r}: there "
                f"are {', '.join(self.data)}"
            )
        equations, given = [own.name for own in self.asked if own.equation], dict(values)
        if rhs is not None and not isinstance(rhs, Mapping):
            if len(equations) > 1:
                raise ValueError(
                    f"the problem has {len(equations)} equations: give rhs={{name: data}} with the "
                    f"names {', '.join(equations)}"
                )
            rhs = {equations[0]: rhs}
        for name, data in (rhs or {}).items():
            if name not in equations:
                raise ValueError(f"rhs has no equation {unknown(name, equations)}")
            given[name] = data
        for name, data in given.items():
            if name not in self.data:
                raise ValueError(f"values has no statement {unknown(name, self.data)}")
            _refuse_matrix(name, data)
        return given

    def _prepared(self, name: str, data: Given) -> Prepared:
        """A statement's data, evaluated at its points unless they are many."""
        statement, points = self._statement(name), self._places[name].points
        what = f"{name} {statement.word}"
        if statement.kind == "integral":
            numbers = np.asarray(data, dtype=np.float64)
            if numbers.ndim > 1 or not np.all(np.isfinite(numbers)):
                raise ValueError(f"{what} must be a number or a list of numbers, got {data!r}")
            return Prepared(numbers.reshape(1, -1), numbers.size if numbers.ndim else 0)
        if statement.kind == "readings":
            return _measured(data, len(points), what)
        if isinstance(data, Sequence) and not isinstance(data, str):
            if not data:
                raise ValueError(f"{what} is an empty list: give at least one right-hand side")
            return Listed(np.zeros((0, 0)), len(data), data, points, what)
        found = _evaluated(data, points, what, several=True)
        return Prepared(found.reshape(len(points), -1), found.shape[1] if found.ndim == 2 else 0)

    def _stated(self, given: Mapping[str, Given], number: int) -> Problem:
        """The problem with these data; it was checked when it was stated."""
        stated = copy.copy(self.problem)
        equations, conditions = (
            tuple(self._restated(own, given[own.name], number) if own.name in given else own
                  for own in every)
            for every in (self.problem.equations, self.problem.conditions)
        )  # fmt: skip
        for name, value in (("equation", equations), ("conditions", conditions), ("exact", None)):
            object.__setattr__(stated, name, value)
        return stated

    def _restated(self, statement: Any, data: Given, number: int) -> Any:
        if isinstance(statement, PointCondition):
            values = np.asarray(data, dtype=np.float64)
            own = values if values.ndim == 1 else values[:, number]
            one: Any = Readings(statement.points, own)
        elif isinstance(statement, IntegralCondition):
            numbers = np.ravel(np.asarray(data, dtype=np.float64))
            one = float(numbers[min(number, numbers.size - 1)])
        else:
            one = data[number] if isinstance(data, Sequence) else data
            one = Column(one, number) if callable(one) else one
        name = "rhs" if isinstance(statement, Equation) else "value"
        return dataclasses.replace(statement, **{name: one})


@dataclass(frozen=True)
class Column:
    """One of the functions that a function with several columns stands for."""

    function: Function
    number: int

    def __call__(self, points: Array) -> Array:
        found = self.function(points)
        return found[:, self.number] if found.ndim == 2 else found


def _common(sizes: Mapping[str, int]) -> int | None:
    """How many right-hand sides there are; None is a single one."""
    found = set(sizes.values())
    if len(found) > 1:
        told = ", ".join(f"{name} has {size}" for name, size in sizes.items())
        raise ValueError(f"data of different numbers of right-hand sides: {told}; give as many")
    return found.pop() if found else None


def _refuse_matrix(name: str, data: Given) -> None:
    """Refuse what would change the matrix, by its name."""
    for one in data if isinstance(data, Sequence) and not isinstance(data, str) else (data,):
        if isinstance(one, Operator | Statement | Domain | Problem):
            raise ValueError(
                f"{name!r} got {one!r}, which would change the matrix: data are numbers or "
                f"functions of the points; for other operators or domains factor another problem"
            )


def _evaluated(data: Given, points: Array, what: str, several: bool = False) -> Array:
    if not (isinstance(data, Real) or callable(data)):
        raise TypeError(f"{what} must be a number or a function of the points, got {data!r}")
    if not (several and callable(data)):
        return function_values(data, points, what)
    with explained(data, points, what):
        found = np.asarray(data(points))
    if found.ndim != 2:
        return check_values(found, points, what)
    if len(found) != len(points):
        raise ValueError(
            f"{what} returned shape {found.shape} for {len(points)} points: it must return (n,) "
            f"values, or (n, k) for k right-hand sides"
        )
    for column in found.T:
        check_values(column, points, what)
    return found


def _measured(data: Given, n: int, what: str) -> Prepared:
    found = np.asarray(data, dtype=np.float64)
    if found.ndim not in (1, 2) or len(found) != n or not np.all(np.isfinite(found)):
        raise ValueError(
            f"{what} must be {n} finite numbers, or ({n}, k) of them, got shape {found.shape}"
        )
    return Prepared(found.reshape(n, -1), found.shape[1] if found.ndim == 2 else 0)
