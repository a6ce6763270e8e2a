"""Branches of solutions by pseudo-arclength: round folds, where the parameter turns back.

Points are a step apart that is measured along the branch, in u and in the parameter together (see
`bordered`). Between two of them a fold shows in the direction of the parameter, a bifurcation in
the sign of an eigenvalue; secants along the branch find the place.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np

from tessella.accuracy.held_out import SEED
from tessella.machine.progress import Progress, Shown, attended
from tessella.machine.stopwatch import Stopwatch
from tessella.problem.problem import Problem
from tessella.problem.tangents import NotDifferentiableError
from tessella.solution.branch import CROSSING, FOLD, Branch, BranchPoint, Singular
from tessella.solution.solution import Solution
from tessella.solving.doors import with_choices
from tessella.solving.method import Method
from tessella.solving.nonlinear.bordered import Bordered, Spot
from tessella.solving.nonlinear.continuation import ProblemOf, check_family, stated
from tessella.solving.nonlinear.iterating import iterate
from tessella.solving.nonlinear.newton import GIVEN_UP, LostError, Newton
from tessella.solving.nonlinear.starts import started
from tessella.solving.plan import on_basis
from tessella.solving.tolerance import solve_to
from tessella.solving.ways import Parts

FIRST, LONGEST, SHORTEST = 0.05, 0.15, 1e-4
"""Lengths of steps, in parts of the solution and of the parameter's range."""

BEND = 0.9
"""Cosine between two steps; one that bends more is taken again at half its length."""

TURNS = 8
"""Solves at most for the place of a fold or bifurcation."""

NEAR, ROUGHLY = 1e-5, 0.2
"""How far the direction, or the eigenvalue, must fall: to be done, and to be zero somewhere at all.
At a fold the parameter's error is about the square of that."""

SPREAD = 400
"""Points of a solution's root mean square."""


@with_choices()
def branch(
    problem_of: ProblemOf,
    parameter: str,
    values: tuple[float, float],
    method: Method | None = None,
    *,
    start: Any = None,
    measure: Any = None,
    points: int = 60,
    progress: Shown = None,
    **choices: Any,
) -> Branch:
    """Solutions of a nonlinear problem along a parameter, also round folds.

    `problem_of` is a function of the parameter, called by its name, that returns a Problem. The
    branch begins with the solution that Newton's method finds from `start` (see `solve`) at the
    first of the two values, goes towards the second one, and ends where the parameter leaves the
    range between both, or after so many `points`. `start` decides which branch it is.

    `measure` is what a diagram shows of a solution: its root mean square, or the value at a point
    (`measure=0.5`, `measure=(0.5, 0.5)`), or a function of the solution.

    The choices are those of `solve`. All points have the same discretisation; `tol` finds one at
    the first value, and again at the last point, from where the branch is then walked once more.

    Folds and bifurcations are found between points, and named. To change over to another branch,
    give a `start` on it.

    >>> import tessella as ts, jax.numpy as jnp
    >>> def buckled(load):
    ...     equation = ts.Equation(lambda d, x: d(x=2) + load * jnp.sin(d()))
    ...     return ts.Problem(ts.Box(x=(0, 1)), equation, [ts.Dirichlet(0.0)])
    >>> straight = ts.branch(buckled, "load", (5, 15), subdomains=4, features=20,
    ...     coupling="interfaces")
    >>> [(one.kind, round(one.parameter, 3)) for one in straight.singular]
    [('bifurcation', 9.87)]
    """
    first, last = _checked(problem_of, parameter, values, points)
    chosen = Method.of(choices, "branch", method)
    problem = stated(problem_of, parameter, first)
    watch = Stopwatch()
    with attended(progress) as show, watch.phase("branch"):
        found, parts = _first(problem, chosen, start, show)

        def walk(parts: Parts, start: Solution) -> Branch:
            measured = _measure(problem, measure)
            bordered = Bordered(problem_of, parameter, (first, last), parts, start)
            return Walk(bordered, parameter, (first, last), measured, points, show).go(start)

        whole = walk(parts, found)
        if chosen.tol is not None and (finer := _refined(whole[-1], chosen, parts, show)):
            again = iterate(problem, Method(basis=finer.basis, estimate=False), found, show)
            whole = walk(finer, again)
    return dataclasses.replace(whole, seconds=watch.total())


def _checked(
    problem_of: object, parameter: object, values: object, points: object
) -> tuple[float, float]:
    check_family(problem_of, parameter, "branch()")
    given = list(values) if isinstance(values, Sequence | np.ndarray) else []
    if len(given) != 2 or not all(isinstance(v, Real) and math.isfinite(v) for v in given):
        raise ValueError(f"values must be the first and the last of {parameter}, got {values!r}")
    first, last = map(float, given)
    if first == last:
        raise ValueError(f"values must differ, got {values!r}: use solve() for a single one")
    if not (isinstance(points, Integral) and int(points) >= 3):
        raise ValueError(f"points must be a whole number >= 3, got {points!r}")
    return first, last


def _first(
    problem: Problem, method: Method, start: Any, progress: Progress | None
) -> tuple[Solution, Parts]:
    """The solution at the first value, and what the branch is solved with."""
    state = started(problem, start)
    if method.tol is not None:
        try:
            found = solve_to(problem, method, progress, state)
        except LostError as error:
            raise LostError(f"the branch has no first point: {error}") from error
        return found, on_basis(found.basis)
    found = iterate(problem, dataclasses.replace(method, estimate=False), state, progress)
    if found.report.stop_reason == GIVEN_UP:
        raise LostError(f"the branch has no first point: {found.report.advice}")
    return found, method.parts(problem)


def _refined(
    end: BranchPoint, method: Method, parts: Parts, progress: Progress | None
) -> Parts | None:
    """What meets the tolerance at the end of a branch, if it is finer than what there is."""
    try:
        found = solve_to(end.solution.problem, method, progress, end.solution)
    except LostError:
        return None
    return on_basis(found.basis) if found.basis.columns > parts.basis.columns else None


def _eigenvalue(number: int, spot: Spot) -> float:
    return float(spot.spectrum[number]) if number < len(spot.spectrum) else math.inf


Measure = tuple[str, Callable[[Solution], float]]


def _measure(problem: Problem, given: Any) -> Measure:
    """What a diagram shows, in words and as a function."""
    if callable(given):
        return getattr(given, "__name__", "measure").replace("<lambda>", "measure"), given
    if given is None:
        x = problem.domain.scatter(SPREAD, np.random.default_rng(SEED))
        return "root mean square", lambda u: math.sqrt(np.mean(np.square(u(x))))
    place = np.atleast_1d(np.asarray(given, dtype=float))
    if place.shape != (problem.domain.dimension,):
        raise ValueError(
            f"measure must be a point with {problem.domain.dimension} coordinates, a function of "
            f"the solution, or left out, got {given!r}"
        )
    name = f"{problem.unknowns[0]}({', '.join(f'{c:g}' for c in place)})"
    return name, lambda u: float(np.ravel(u(place[None]))[0])


@dataclass
class Walk:
    """A branch, point by point, in one basis."""

    bordered: Bordered
    name: str
    values: tuple[float, float]
    measure: Measure
    most: int
    progress: Progress | None = None

    def go(self, start: Solution) -> Branch:
        """All points, and what lies between them."""
        onward = math.copysign(1.0, self.values[1] - self.values[0])
        nowhere = self.bordered.flat(0 * start.coefficients)
        spots = [self.bordered.spot(start.coefficients, self.values[0], (nowhere, onward))]
        points, singular = [self._point(spots[0], 0)], []
        step, reason, ended = FIRST, f"{self.most} points are enough", False
        while len(points) < self.most and not ended:
            try:
                following = self._followed(spots[-1], step)
                if ended := not self._within(following.parameter):
                    following = self._end(spots[-1], following.parameter)
                    reason = f"{self.name} = {following.parameter:g} is reached"
            except (LostError, NotDifferentiableError) as error:
                step, ended = step / 2, False
                if step < SHORTEST:
                    reason = f"no way on from {self.name} = {spots[-1].parameter:.6g}: {error}"
                    break
                continue
            spots.append(following)
            new = self._between(*spots[-2:])
            singular += new
            points.append(self._point(following, points[-1].crossings + len(new)))
            step = min(LONGEST, 1.4 * step)
            if self.progress is not None:
                self.progress(len(points), self.most, 1.0)
        return Branch(self.name, self.measure[0], tuple(points), tuple(singular), reason, {})

    def _followed(self, here: Spot, length: float) -> Spot:
        """The point after a step of a given length."""
        own = self.bordered
        t, pace = own.direction(here)
        t = own.flat(t)
        a, parameter = own.corrected(here, length)
        found = own.spot(a, parameter, (t, pace))
        after, quick = own.direction(found)
        if t @ own.flat(after) + pace * quick < BEND:
            raise LostError("the branch bends too much")
        own.grown(a)
        return found

    def _within(self, parameter: float) -> bool:
        return min(self.values) <= parameter <= max(self.values)

    def _end(self, here: Spot, beyond: float) -> Spot:
        """The point at the end of the range."""
        low, high = sorted(self.values)
        end, own = high if beyond > high else low, self.bordered
        problem = own.stated(end)
        guess = own.solution(here.a + (end - here.parameter) * here.slope, problem)
        found = Newton(problem, own.parts, progress=self.progress).go(guess)
        if not found.converged:
            raise LostError(found.reason)
        t, pace = own.direction(here)
        return own.spot(found.solution.coefficients, end, (own.flat(t), pace))

    def _point(self, spot: Spot, crossings: int) -> BranchPoint:
        solution = self.bordered.solution(spot.a, self.bordered.stated(spot.parameter))
        return BranchPoint(spot.parameter, self.measure[1](solution), solution, crossings)

    # --- folds and bifurcations

    def _between(self, before: Spot, after: Spot) -> list[Singular]:
        """What is singular between two points: a fold where the parameter turns back, else what
        changes the sign of an eigenvalue."""
        if before.sign != after.sign:
            pace = self._found(before, after, lambda spot: self.bordered.direction(spot)[1], FOLD)
            return [pace] if pace else []
        crossed = range(*sorted((before.negative, after.negative)))
        each = [self._found(before, after, partial(_eigenvalue, k), CROSSING) for k in crossed]
        return [one for one in each if one]

    def _found(
        self, before: Spot, after: Spot, function: Callable[[Spot], float], kind: str
    ) -> Singular | None:
        """The place where a function of the points vanishes, by secants along the branch; none if
        it does not, as where two eigenvalues turn from complex to negative ones."""
        whole = self.bordered.distance(before, after.a, after.parameter)
        near, far = (0.0, before), (whole, after)
        size = max(abs(function(before)), abs(function(after)))
        for _ in range(TURNS):
            (s, one), (other, two) = near, far
            p, q = function(one), function(two)
            length = s - p * (other - s) / (q - p) if p != q else math.nan
            if not 0 < length < 2 * whole:
                break
            try:
                here = self._followed(before, length)
            except (LostError, NotDifferentiableError):
                break
            near, far = min(near, far, key=lambda own: abs(function(own[1]))), (length, here)
            if abs(function(here)) < NEAR * size:
                break
        best = min(near[1], far[1], key=lambda spot: abs(function(spot)))
        if not abs(function(best)) < ROUGHLY * size:
            return None
        point = self._point(best, 0)
        return Singular(kind, best.parameter, point.measure, point.solution)
