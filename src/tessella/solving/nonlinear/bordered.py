"""A nonlinear problem with a parameter as an unknown beside the solution.

At a point the problem is linearised and factored once. Two substitutions then give Newton's next
iterate for a fixed parameter, and how the solution moves with the parameter; the length of a step
along the branch says by how much (Keller's bordering).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np

from tessella.accuracy.held_out import SEED, sampler
from tessella.geometry.functions import Function
from tessella.machine.arrays import Array
from tessella.machine.stopwatch import Stopwatch
from tessella.problem.family import Moved, check_alike
from tessella.problem.linearised import Around, linearised
from tessella.problem.problem import Problem
from tessella.problem.statement import Applied, Statement
from tessella.solution.solution import Solution
from tessella.solving.nonlinear.continuation import ProblemOf, stated
from tessella.solving.nonlinear.newton import LostError
from tessella.solving.places import OnBoundary, Places, places_of, right_of, right_with
from tessella.solving.ways import Factors, Parts, way

POINTS = 400
"""Points at which solutions are compared."""

TOLERANCE = 1e-10
"""Error of a point of the branch, in parts of the solution and of the parameter's range."""

FLOOR = 1e-7
"""Corrections below this that fall no more are what rounding leaves."""

CORRECTIONS, FACTORINGS, SLOW = 8, 3, 0.3
"""So many corrections with the same factors, and so often new ones; a ratio of corrections that
asks for new ones."""

DIFFERENCE = 1e-5
"""Of the parameter, in parts of its range, for derivatives by it."""

DEGREES = {1: 7, 2: 4}
"""Of the polynomial loads by which singular problems are noticed; 2 in higher dimensions."""


class Spot(NamedTuple):
    """Coefficients and parameter of a point, how the coefficients change with the parameter, which
    way it goes, and about which real eigenvalues the linearised problem has near zero, ordered."""

    a: Array
    parameter: float
    slope: Array
    sign: float
    spectrum: Array

    @property
    def negative(self) -> int:
        return int(np.count_nonzero(self.spectrum < 0))


class Local(NamedTuple):
    """The problem linearised around a point, with its factors."""

    parameter: float
    problem: Problem
    around: Around
    factors: Factors
    places: dict[str, Places]

    def many(self, right: Array) -> Array:
        """Coefficients for right-hand sides, one in every line."""
        return self.factors.many(right).a


class Bordered:
    """Points near a branch, in one basis; `range` is the unit of the parameter, `unit` that of
    every unknown."""

    def __init__(
        self,
        problem_of: ProblemOf,
        name: str,
        values: tuple[float, float],
        parts: Parts,
        start: Solution,
    ) -> None:
        self.stated = lru_cache(maxsize=16)(lambda value: stated(problem_of, name, value))
        self.parts, self.template, self.watch = parts, start, Stopwatch()
        self.range = abs(values[1] - values[0])
        problem = self.stated(values[0])
        check_alike(problem, self.stated(values[1]), name)
        draw = np.random.default_rng(SEED)
        self.points = sampler(problem, parts.basis).scatter(POINTS, draw)
        self.loads = _loads(problem, self.points)
        self.unit = np.ones(len(problem.unknowns))
        self.zero = self.values(0 * start.coefficients)
        slope = self.slope(self.local(start.coefficients, values[0]))
        self.unit = np.maximum(_rms(self.values(start.coefficients)),
                               self.range * _rms(self._change(slope)))  # fmt: skip
        self.unit[self.unit == 0] = 1.0

    # --- functions at points

    def solution(self, a: Array, problem: Problem) -> Solution:
        return dataclasses.replace(self.template, problem=problem, coefficients=a)

    def values(self, a: Array) -> Array:
        """At the points, (n, unknowns)."""
        problem = self.template.problem
        own = self.solution(a, problem)
        return np.stack([own.apply(problem.unknown(u), self.points) for u in problem.unknowns], 1)

    def _change(self, a: Array) -> Array:
        """What differences of coefficients change."""
        return self.values(a) - self.zero

    def flat(self, a: Array) -> Array:
        """The same as one vector, whose length is the root mean square in units."""
        found = self._change(a) / self.unit
        return found.ravel() / math.sqrt(found.size)

    def grown(self, a: Array) -> None:
        """Units as large as the solution has become."""
        self.unit = np.maximum(self.unit, _rms(self.values(a)))

    # --- points of the branch

    def spot(self, a: Array, parameter: float, before: tuple[Array, float]) -> Spot:
        """A point that was come to in a direction, of coefficients at points and parameter."""
        local = self.local(a, parameter)
        slope = self.slope(local)
        t, pace = before
        sign = math.copysign(1.0, float(t @ self.flat(slope * self.range)) + pace)
        return Spot(a, parameter, slope, sign, self._spectrum(local))

    def direction(self, spot: Spot) -> tuple[Array, float]:
        """The branch's direction, of length one: of the coefficients, and of the parameter in parts
        of its range."""
        slope = spot.slope * self.range
        length = math.sqrt(float(np.sum(self.flat(slope) ** 2)) + 1)
        return spot.sign / length * slope, spot.sign / length

    def distance(self, here: Spot, a: Array, parameter: float) -> float:
        """How far a point is from another one along the direction there."""
        t, pace = self.direction(here)
        along = float(self.flat(t) @ self.flat(a - here.a))
        return along + pace * (parameter - here.parameter) / self.range

    def corrected(self, here: Spot, length: float) -> tuple[Array, float]:
        """The point of the branch in the plane at a given length along the direction."""
        t, pace = self.direction(here)
        a, parameter = here.a + length * t, here.parameter + length * pace * self.range
        along, last = self.flat(t), math.inf
        for _ in range(FACTORINGS):
            local = self.local(a, parameter)
            slope = self.slope(local) * self.range
            moved = self.flat(slope)
            for _ in range(CORRECTIONS):
                delta = self._next(local, a, parameter) - a
                change, left = self.flat(delta), length - self.distance(here, a, parameter)
                by = float((left - along @ change) / (along @ moved + pace))
                a, parameter = a + delta + by * slope, parameter + by * self.range
                size = math.hypot(float(np.linalg.norm(change + by * moved)), by)
                if not size < 10 * length:
                    raise LostError("corrections are larger than the step")
                ratio, last = size / last, size
                if size < TOLERANCE or (size < FLOOR and ratio > SLOW):
                    return a, parameter
                if ratio > SLOW:
                    break
        raise LostError(f"corrections do not fall below {last:.1e}")

    # --- linear algebra

    def local(self, a: Array, parameter: float) -> Local:
        problem = self.stated(parameter)
        around = Around(problem, self.solution(a, problem))
        system = way(self.parts.basis).assemble(linearised(problem, around), self.parts)
        ready = way(self.parts.basis).factor(system, self.parts, self.watch, None)
        return Local(parameter, problem, around, ready, places_of(ready))

    def _next(self, local: Local, a: Array, parameter: float) -> Array:
        """Newton's next iterate after a point near the one that was factored."""
        problem = self.stated(parameter)
        data = _data(local, problem, self.solution(a, problem))
        return local.many(right_with(local.factors, local.places, data)[None])[0]

    def slope(self, local: Local) -> Array:
        """How coefficients change with the parameter, by a central difference of the data."""
        h, state = DIFFERENCE * self.range, local.around.state
        up, down = (_data(local, self.stated(local.parameter + s), state) for s in (h, -h))

        def difference(name: str, x: Array, normals: Array | None) -> Array:
            return (up[name](x, normals) - down[name](x, normals)) / (2 * h)

        data = {name: partial(difference, name) for name in up}
        return local.many(right_of(local.factors, local.places, data)[None])[0]

    def _spectrum(self, local: Local) -> Array:
        """Eigenvalues that are zero where the linearised problem is singular: those of its inverse
        between a few smooth functions, inverted. Without as many equations as unknowns none."""
        equations, unknowns = local.problem.equations, local.problem.unknowns
        if len(equations) != len(unknowns):
            return np.zeros(0)

        def alone(load: Function) -> OnBoundary:
            return lambda x, normals: load(x)

        right = [
            right_of(local.factors, local.places, {equation.name: alone(load)})
            for equation in equations
            for load in self.loads
        ]
        answers = np.stack([self._change(a) for a in local.many(np.stack(right))])
        tests = np.stack([load(self.points) for load in self.loads]) / len(self.points)
        inverse = np.einsum("in,jnu->uij", tests, answers)
        found = np.linalg.eigvals(inverse.reshape(len(right), len(right)))
        real = found.real[np.abs(found.imag) < 1e-6 * np.abs(found)]
        return np.sort(1 / real[real != 0])


def _rms(values: Array) -> Array:
    return np.asarray(np.sqrt(np.mean(values**2, axis=0)))


def _data(local: Local, problem: Problem, state: Applied) -> dict[str, OnBoundary]:
    """What every statement has on its right, by the factors of another problem."""

    def data(there: Statement, here: Statement, x: Array, normals: Array | None) -> Array:
        return Moved(state, local.around, x, normals).data(there, here)

    pairs = zip(problem.statements, local.problem.statements, strict=True)
    return {there.name: partial(data, there, here) for there, here in pairs}


def _loads(problem: Problem, points: Array) -> list[Function]:
    """Polynomials of low degree that are orthonormal at the points."""
    domain, d = problem.domain, problem.domain.dimension
    most = DEGREES.get(d, 2)
    powers = [p for p in itertools.product(range(most + 1), repeat=d) if sum(p) <= most]

    def monomials(x: Array) -> Array:
        z = (2 * x - domain.lower - domain.upper) / (domain.upper - domain.lower)
        return np.stack([np.prod(z ** np.array(p), axis=1) for p in powers], axis=1)

    R = np.linalg.qr(monomials(points) / math.sqrt(len(points)))[1]

    def load(column: Array, x: Array) -> Array:
        return monomials(x) @ column

    return [partial(load, column) for column in np.linalg.inv(R).T]
