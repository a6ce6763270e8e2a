"""A space-time problem solved slab by slab: the end of one slab is the start of the next.

A slab is an ordinary problem on a part of the time axis. Its initial conditions take their values
from the slab before, evaluated at the slab's own collocation points; nothing is fitted in between.
Where coefficients do not depend on time all slabs have one matrix, which is recognised by its
numbers and factored once.

The error is estimated by a second, coarser discretisation: what it says of each slab from the same
start is what that slab loses, and marched from its own ends it shows how such losses grow or fade.
"""

from __future__ import annotations

import dataclasses
import math
import time
from numbers import Integral
from typing import Any

import numpy as np

from tessella.accuracy import tuning
from tessella.accuracy.estimate import (
    Errors,
    Look,
    apart,
    at_end,
    compare,
    largest_error,
    look,
    own_error,
)
from tessella.accuracy.held_out import held_out, where_it_is_peaked
from tessella.geometry.box import Box
from tessella.geometry.combinations import Extrusion
from tessella.geometry.functions import function_values
from tessella.linalg.iterative.iteration import Progress
from tessella.machine.arrays import Array
from tessella.machine.memory import peak_mib
from tessella.machine.stopwatch import Stopwatch
from tessella.overlap.basis import Multilevel
from tessella.overlap.points import Grid
from tessella.problem.problem import Problem, Reference
from tessella.problem.slabs import END, START, TIME, slab_problem, starts, until
from tessella.solution.marched import Marched, MarchReport, Slab
from tessella.solution.report import error_norms, unit
from tessella.solution.solution import Solution, test_points
from tessella.solving.algorithm import exact_samples, substitute
from tessella.solving.method import Method, check_problem, with_choices
from tessella.solving.plan import on_basis
from tessella.solving.tolerance import solve_to
from tessella.solving.ways import Factors, Parts, way

SAMPLES = {1: 200, 2: 45, 3: 13}
"""Points per axis at which the error of a slab is measured, by dimension."""


BLOWN_UP = 1e8
"""Growth from which a march has lost its solution."""


class UnstableError(ArithmeticError):
    """A march whose errors feed on themselves."""


@with_choices()
def march(
    problem: Problem,
    slabs: int = 20,
    method: Method | None = None,
    *,
    progress: Progress | None = None,
    **choices: Any,
) -> Marched:
    """Solve a problem with a time axis `t` in `slabs` equal steps of time.

    The choices are those of `solve` and describe one slab: `march(problem, 20, subdomains=(4, 2),
    features=150, coupling="interfaces")` has 4 x 2 subdomains in each. A `basis` is given on the
    whole domain and moved to every slab. `tol` chooses the discretisation on the first slab and
    keeps it for all; errors add up, so ask each slab for a fraction of what the end may have. The
    report says whether the end has it.

    Choose slabs about as long as the solution takes to cross a subdomain: shorter ones add up more
    jumps, longer ones are larger systems. Time and memory grow with the slab, not with T, and
    nothing but the right-hand side is computed anew where the coefficients do not depend on time.

    The initial conditions must be stated as such (`Initial`, `InitialVelocity`, or any condition
    on tmin), as many as the equation's order in time.

    `test_grid` is where the error of one slab is measured (about 2,000 points unless given);
    `estimate` marches a second, coarser discretisation beside this one (the default where the
    solver is direct). `progress` is called with (slabs done, slabs, residual) after each of them,
    and as in `solve` while one is being set up or iterated on. An interrupt keeps the slabs that
    are finished.

    >>> import tessella as ts
    >>> domain = ts.Box(x=(0, 1), t=(0, 1))
    >>> decay = ts.Equation(ts.D(t=1) - ts.D(x=2), rhs=1.0)
    >>> problem = ts.Problem(domain, decay, [ts.Dirichlet(0.0), ts.Initial(0.0)])
    >>> solution = ts.march(problem, 2, subdomains=(2, 1), features=60, coupling="interfaces")
    >>> round(float(solution([0.5, 1.0])[0]), 4)
    0.125
    """
    check_problem(problem, "march")
    _check(problem, slabs)
    chosen = Method.of(choices, "march", method)
    low, high = problem.domain.bounds[problem.domain.axis_index(TIME)]
    ends = np.linspace(low, high, slabs + 1)
    first = slab_problem(problem, (low, float(ends[1])))
    parts, found = _first_parts(problem, first, chosen, progress)
    marched = march_with(problem, ends, parts, chosen, progress)
    if found is None:
        return marched
    report = dataclasses.replace(
        marched.report, tolerance=chosen.tol, refinement=found.report.refinement
    )
    if found.report.stop_reason != "tolerance met":
        told = f"first slab: {found.report.stop_reason}, {found.report.advice}"
        report = dataclasses.replace(report, advice="; ".join(filter(None, (told, report.advice))))
    return dataclasses.replace(marched, report=_verdict(report, chosen.tol, chosen.norm))


def march_with(
    problem: Problem,
    ends: Array,
    parts: Parts,
    method: Method,
    progress: Progress | None = None,
    deadline: float = math.inf,
) -> Marched:
    """Slab after slab between these times, each with the same parts, until a time of the clock."""
    watch, slabs = Stopwatch(), len(ends) - 1
    walk = _Walk(problem, parts, method, progress)
    reason, advice = f"reached t = {ends[-1]:g}", ""
    for k in range(slabs):
        try:
            walk.step((float(ends[k]), float(ends[k + 1])))
        except UnstableError as error:
            walk.figures.pop()
            walk.solutions.pop()
            reason = f"unstable in slab {k + 1} of {slabs}"
            advice = f"{error}: take shorter slabs or more of the cells, or check the conditions"
            break
        except (KeyboardInterrupt, MemoryError) as error:
            if not walk.figures:
                raise
            what = "interrupted" if isinstance(error, KeyboardInterrupt) else "no memory"
            reason, advice = f"{what} in slab {k + 1} of {slabs}", f"kept until t = {ends[k]:g}"
            break
        if progress is not None:
            progress(k + 1, slabs, walk.figures[-1].residual)
        if time.perf_counter() > deadline and k + 1 < slabs:
            reason = f"out of patience after slab {k + 1} of {slabs}"
            advice = f"kept until t = {ends[k + 1]:g}; raise `patience`"
            break
    reached = until(problem, walk.figures[-1].end)
    report = MarchReport(walk.solutions[0].report, tuple(walk.figures), slabs, reason, advice)
    return _measured(Marched(reached, tuple(walk.solutions), report), watch)


def _first_parts(
    problem: Problem, first: Problem, method: Method, progress: Progress | None
) -> tuple[Parts, Solution | None]:
    """What every slab is solved with: as chosen, or as a solve of the first slab to the tolerance
    finds it."""
    if method.tol is not None:
        found = solve_to(dataclasses.replace(first, exact=None), method, progress)
        return on_basis(found.basis), found
    if method.basis is None:
        return method.parts(first), None
    if method.basis.decomposition.domain != problem.domain:
        raise ValueError(
            f"the basis lives on {method.basis.decomposition.domain!r}, but the problem on "
            f"{problem.domain!r}: decompose the problem's domain, it is moved to every slab"
        )
    moved = dataclasses.replace(method, basis=method.basis.moved(first.domain))
    return moved.parts(first), None


def _verdict(report: MarchReport, tol: float | None, norm: str | None) -> MarchReport:
    """Whether everything that has accumulated is below the tolerance, and what to do if not."""
    estimate = report.estimate_in(norm)
    if report.stopped_early or estimate is None or tol is None:
        return report
    if estimate <= tol:
        return dataclasses.replace(report, stop_reason=f"{report.stop_reason}, tolerance met")
    grown = (
        f"the estimated error is {estimate:.1e} at the end, tol = {tol:.1e} was asked of one slab: "
        f"ask for {tol * tol / estimate:.0e}, or march fewer slabs"
    )
    return dataclasses.replace(
        report,
        stop_reason=f"{report.stop_reason}, tolerance not met",
        advice="; ".join(filter(None, (report.advice, grown))),
    )


class _Track:
    """One discretisation on its way through the slabs."""

    def __init__(self, chosen: Parts) -> None:
        self.parts = chosen
        self.ready: Factors | None = None
        self.last: Solution | None = None
        self.reused = False

    def step(
        self,
        problem: Problem,
        bounds: tuple[float, float],
        test_grid: Grid | None = None,
        progress: Progress | None = None,
    ) -> Solution:
        """Solve the next slab, with the factors of the last one if its matrix is the same."""
        watch, chosen = Stopwatch(), self.parts
        slab = slab_problem(problem, bounds, self.last)
        basis = chosen.basis.moved(slab.domain)
        with watch.phase("assemble"):
            system = way(basis).assemble(slab, dataclasses.replace(chosen, basis=basis))
        samples = exact_samples(slab, basis, test_grid)
        known = None
        if self.ready is not None:
            with watch.phase("compare"):
                known = self.ready.renewed(system)
        self.reused = known is not None
        if known is None:
            if self.ready is not None:
                chosen = dataclasses.replace(chosen, solver=self.ready.solver)
            known = way(basis).factor(system, chosen, watch, progress)
        solution = substitute(slab, basis, known, samples, watch, progress)
        report = dataclasses.replace(
            solution.report, seconds=watch.total(), peak_memory_mib=peak_mib()
        )
        self.ready, self.last = known, dataclasses.replace(solution, report=report)
        return self.last


class _Walk:
    """The state of a march: all slabs, their figures, and the coarser march beside it."""

    def __init__(
        self,
        problem: Problem,
        parts: Parts,
        method: Method,
        progress: Progress | None,
    ) -> None:
        self.blind = dataclasses.replace(problem, exact=None)
        self.problem = self.blind if isinstance(problem.exact, Reference) else problem
        per_axis = SAMPLES.get(problem.domain.dimension, 6)
        self.test_grid = method.test_grid or Grid(points_per_axis=per_axis)
        self.estimate, self.progress = method.estimate, progress
        self.fine = _Track(parts)
        self.coarse: _Track | None = None
        self.solutions: list[Solution] = []
        self.figures: list[Slab] = []
        self.moments = np.zeros((4, len(problem.unknowns)))
        """Over all slabs: time, and integrals of u, of its square and of the estimated error."""
        self.largest, self.worst = np.zeros((2, len(problem.unknowns)))
        """Of all slabs, the largest value and the largest estimated error."""
        self.first_size = 0.0
        self.lost = self.strayed = self.missed = 0.0
        """What all slabs so far have lost at their ends, what poorer ones have, and the largest
        part of some data that a slab misses."""

    def step(self, bounds: tuple[float, float]) -> None:
        start = time.perf_counter()
        solution = self.fine.step(self.problem, bounds, self.test_grid, self.progress)
        rows = held_out(solution.problem, share=tuning.IN_A_SLAB)
        seen = look(solution, where_it_is_peaked(rows, solution))
        guess = self._estimated(seen, bounds)
        overall = self._overall(seen, guess, bounds)
        report = dataclasses.replace(
            solution.report,
            error_estimate=guess and guess.mean,
            largest_error_estimate=guess and guess.largest,
        )
        self.solutions.append(dataclasses.replace(solution, report=report))
        misfits = {defect.rows.source.name: defect.missed for defect in seen.defects}
        self.figures.append(
            Slab(
                bounds[1],
                seen.loss,
                {c.name: misfits[c.name] for c in starts(solution.problem)},
                guess and guess.mean,
                report.error,
                self.fine.reused,
                time.perf_counter() - start,
                overall and overall.mean,
                overall and overall.largest,
            )
        )
        self._check_size(seen, bounds)

    def _check_size(self, seen: Look, bounds: tuple[float, float]) -> None:
        """Stop a march whose solution grows beyond all measure."""
        size = float(np.max(np.abs(np.concatenate([seen.inside, seen.edge]))))
        if len(self.figures) == 1:
            self.first_size = size
        elif not size <= BLOWN_UP * max(self.first_size, 1e-300):
            raise UnstableError(f"the solution has grown {size / self.first_size:.0e} times")

    def _overall(
        self, seen: Look, guess: Errors | None, bounds: tuple[float, float]
    ) -> Errors | None:
        """The estimate for all slabs so far together, in parts of the spread of the whole: what is
        left of an error in the last slab says little of those before."""
        u, shares, length = seen.inside, seen.rows[0].shares, bounds[1] - bounds[0]
        mean, square = (np.average(v, axis=0, weights=shares) for v in (u, u**2))
        own = unit(np.sqrt(np.maximum(square - mean**2, 0.0)), np.max(np.abs(u), axis=0))
        lost, worst = guess or (0.0, 0.0)
        self.moments += length * np.stack([np.ones_like(mean), mean, square, lost * own])
        self.largest = np.maximum(self.largest, np.max(np.abs(u), axis=0))
        self.worst = np.maximum(self.worst, worst * own)
        if guess is None:
            return None
        time_, mean, square, error = self.moments
        spread = np.sqrt(np.maximum(square / time_ - (mean / time_) ** 2, 0.0))
        parts = (error / time_, self.worst) / unit(spread, self.largest)
        return Errors(*map(float, np.max(parts, axis=1)))

    def _estimated(self, seen: Look, bounds: tuple[float, float]) -> Errors | None:
        """Of everything so far. A slab loses what separates it from a poorer one with the same
        start, times the ratio of their residuals; what it loses at its end is carried on, and grows
        or fades as the errors of a poorer march do that goes its own way."""
        coarse = self._second()
        if coarse is None:
            return None
        stray = coarse.step(self.blind, bounds)
        fresh = stray
        if self.solutions:
            again = _Track(coarse.parts)
            again.ready, again.last = coarse.ready, self.solutions[-1]
            fresh = again.step(self.blind, bounds)
        found = compare(seen, look(fresh, seen.rows))
        self.missed = max(self.missed, found.missed)
        astray = stray(seen.rows[0].points).reshape(seen.inside.shape)
        far = apart(seen, astray)
        error = own_error(found)
        estimate = max(error + self.growth(far, found.difference) * self.lost, self.missed)
        end = at_end(seen, fresh)
        self.strayed += end
        self.lost += end * error / max(found.difference, error)
        return Errors(estimate, largest_error(seen, stray, astray, estimate))

    def growth(self, far: float, fresh: float) -> float:
        """By which factor errors of earlier slabs have grown, as the poorer march shows: at least 1
        once that one has lost its way."""
        if not self.strayed:
            return 1.0
        found = max(far - fresh, 0.0) / self.strayed
        return max(found, 1.0) if far > tuning.ASTRAY else found

    def _second(self) -> _Track | None:
        """The coarser march, if one is wanted; known once the first slab has chosen a solver."""
        basis, ready = self.fine.parts.basis, self.fine.ready
        assert ready is not None
        wanted = not ready.iterative if self.estimate is None else self.estimate
        if not wanted or isinstance(basis, Multilevel) or basis.features.count < 2:
            return None
        if self.coarse is None:
            half = dataclasses.replace(self.fine.parts, basis=basis.coarser(), solver=ready.solver)
            self.coarse = _Track(half)
        return self.coarse


def _measured(made: Marched, watch: Stopwatch) -> Marched:
    at = test_points(made.problem, made.slabs[0].basis, None)
    error = None if at is None else error_norms(made(at), made.problem.exact_values(at))
    report = dataclasses.replace(
        made.report, error=error, seconds=watch.total(), peak_memory_mib=peak_mib()
    )
    return dataclasses.replace(made, report=report)


def marches(problem: Problem) -> bool:
    """Whether a problem can be solved slab by slab."""
    try:
        _check(problem, 1)
        slab_problem(problem, problem.domain.bounds[problem.domain.axis_index(TIME)])
    except ValueError:
        return False
    return True


def _check(problem: Problem, slabs: int) -> None:
    """Refuse what has no start to continue from."""
    if not (isinstance(slabs, Integral) and slabs >= 1):
        raise ValueError(f"slabs must be a whole number >= 1, got {slabs!r}")
    domain = problem.domain
    if TIME not in domain.axes:
        raise ValueError(
            f"march() needs a time axis called 't', but the domain has {', '.join(domain.axes)}: "
            f"use solve()"
        )
    if not (isinstance(domain, Box) or (isinstance(domain, Extrusion) and domain.axis == TIME)):
        raise ValueError(
            f"march() cuts the time axis, so the domain must be a Box or a shape.over(t=...), got "
            f"{domain!r}"
        )
    for condition in problem.conditions:
        faces = condition.faces(domain)
        if END in faces:
            raise ValueError(
                f"{condition.name!r} holds on tmax, but a march knows only the past: use solve() "
                f"for the whole domain"
            )
        if START in faces and len(faces) > 1:
            raise ValueError(
                f"{condition.name!r} holds on {', '.join(faces)} at once, but every slab replaces "
                f"what holds on tmin: state that as a condition of its own, e.g. Initial(...)"
            )
    _check_ansatz(problem)
    axis, first = domain.axis_index(TIME), starts(problem)
    orders = {name: _order(problem, name, axis) for name in problem.fields}
    order = sum(orders.values())
    if order == 0:
        raise ValueError("the equation has no derivative in t, so nothing marches: use solve()")
    if len(first) < order:
        names = ", ".join(c.name for c in first) or "none"
        of = ", ".join(f"{n} for {name}" for name, n in orders.items() if n)
        raise ValueError(
            f"a slab needs as many conditions on tmin to start from as the equations have orders "
            f"in t, {order} ({of}), but has {len(first)} ({names}): add Initial(...)"
            + (" and InitialVelocity(...)" if max(orders.values()) > 1 else "")
        )


def _order(problem: Problem, field: str, axis: int) -> int:
    """How often the equations differentiate an unknown along an axis."""
    terms = [t for e in problem.equations for t in problem.terms(e.operator, field)]
    return max((term.orders[axis] for term in terms), default=0)


def _check_ansatz(problem: Problem) -> None:
    """A multiplier that vanishes at the start holds the initial data of the first slab only."""
    domain = problem.domain
    inside = held_out(problem)[0].points
    start = inside.copy()
    axis = domain.axis_index(TIME)
    start[:, axis] = domain.lower[axis]
    for name in problem.fields:
        multiplier = problem.multiplier(name)
        size, there = (np.max(np.abs(function_values(multiplier, x))) for x in (inside, start))
        if there <= 1e-10 * size:
            raise ValueError(
                "the ansatz's multiplier vanishes at tmin, so it builds in the initial data, which "
                "only the first slab starts from: leave the factor of t and the data out of the "
                "ansatz and state them as conditions, e.g. Initial(...), InitialVelocity(...)"
            )
