"""The slabs of a march in one discretisation, one after the other; factors are kept as long as the
matrix stays the same."""

from __future__ import annotations

import dataclasses

from tessella.cells.solvers import Exchange
from tessella.linalg.iterative.iteration import Progress
from tessella.machine.memory import peak_mib, refusals_with_remedy
from tessella.machine.stopwatch import Stopwatch
from tessella.overlap.points import Grid
from tessella.problem.problem import Problem
from tessella.problem.slabs import AtEnd, at_start, slab_problem
from tessella.problem.statement import Applied
from tessella.solution.report import error_norms
from tessella.solution.solution import Solution
from tessella.solving.algorithm import exact_samples, substitute
from tessella.solving.nonlinear.iterating import around_itself
from tessella.solving.nonlinear.newton import TOLERANCE, LostError, Newton
from tessella.solving.ways import Factors, Parts, way

Bounds = tuple[float, float]


class Track:
    """One discretisation after the other, with the factors of the last one at hand."""

    def __init__(self, tolerance: float = TOLERANCE, judged: bool = True) -> None:
        self.tolerance, self.judged = tolerance, judged
        """Of Newton's method, where slabs are nonlinear; whether every slab is judged, or only the
        first one is looked at closely."""
        self.ready: Factors | None = None
        self.parts: Parts | None = None
        self.length = 0.0
        self.made: Bounds | None = None
        """Of the slab whose matrix the factors are of."""

    @refusals_with_remedy()
    def solve(
        self,
        problem: Problem,
        bounds: Bounds,
        parts: Parts,
        before: Solution | None,
        test_grid: Grid | None = None,
        progress: Progress | None = None,
        near: Solution | None = None,
    ) -> tuple[Solution, bool]:
        """The slab that follows `before`, and whether the last factors were those of its matrix. A
        nonlinear one is iterated on from a solution `near` it, if there is any."""
        watch, length = Stopwatch(), bounds[1] - bounds[0]
        slab = slab_problem(problem, bounds, before)
        basis = parts.basis.moved(slab.domain)
        if not slab.linear:
            first = near or (at_start(slab) if before is None else AtEnd(before))
            found = self._iterated(slab, dataclasses.replace(parts, basis=basis), first, progress)
            samples = exact_samples(slab, basis, test_grid)
            if samples is not None:
                error = error_norms(found(samples[0]), samples[1])
                found = dataclasses.replace(
                    found, report=dataclasses.replace(found.report, error=error)
                )
            self.parts, self.length = parts, length
            return found, False
        samples = exact_samples(slab, basis, test_grid)
        known, chosen, last = None, parts, None
        if self.ready is not None and self.parts is parts:
            chosen = dataclasses.replace(parts, solver=self.ready.solver)
            last = self.ready if abs(length - self.length) <= 1e-9 * length else None
        with watch.phase("assemble"):
            known = last and last.later(slab, basis)
            if known is None:
                system = way(basis).assemble(slab, dataclasses.replace(parts, basis=basis))
        if last is not None and known is None:
            with watch.phase("compare"):
                known = last.renewed(system)
        reused = known is not None
        self.made = self.made if reused else bounds
        known = known or way(basis).factor(system, chosen, watch, progress)
        begins = before is None
        found = substitute(
            slab, basis, known, samples, watch, progress, begins, begins or self.judged
        )
        self.ready, self.parts, self.length = known, parts, length
        report = dataclasses.replace(
            found.report, seconds=watch.total(), peak_memory_mib=peak_mib()
        )
        return dataclasses.replace(found, report=report), reused

    def remake(
        self, problem: Problem, bounds: Bounds, parts: Parts, before: Solution | None
    ) -> None:
        """Factors as an earlier run has made them in this slab: those of another slab with the same
        matrix differ by rounding, which nearly dependent features make much of."""
        slab = slab_problem(problem, bounds, before)
        basis = parts.basis.moved(slab.domain)
        system = way(basis).assemble(slab, dataclasses.replace(parts, basis=basis))
        self.ready = way(basis).factor(system, parts, Stopwatch(), None)
        self.parts, self.made = parts, bounds

    def _iterated(
        self, slab: Problem, parts: Parts, first: Applied, progress: Progress | None
    ) -> Solution:
        # An iteration that ends early leaves no smaller corrections.
        left = parts.solver.tolerance if isinstance(parts.solver, Exchange) else 0.0
        newton = Newton(slab, parts, max(self.tolerance, left), progress=progress)
        found = newton.go(first)
        if not found.converged:
            raise LostError(found.reason)
        self.ready = newton.ready.factors
        report = dataclasses.replace(
            found.solution.report, seconds=newton.watch.total(), peak_memory_mib=peak_mib()
        )
        return around_itself(slab, dataclasses.replace(found.solution, report=report))
