"""`solve(problem, tol=...)`: what may be asked, what finds it (`refinement`), what is told."""

from __future__ import annotations

import dataclasses
import math
from contextlib import nullcontext
from numbers import Real

import numpy as np

from tessella.accuracy import tuning
from tessella.accuracy.estimate import disagreement, spreads
from tessella.accuracy.held_out import held_out
from tessella.cells.maps.shelf import Shelf
from tessella.linalg.iterative.iteration import Progress
from tessella.machine.device import on_the_cpu
from tessella.machine.memory import peak_mib
from tessella.machine.stopwatch import Stopwatch
from tessella.machine.threads import single_threaded_blas
from tessella.overlap.basis import AnyBasis
from tessella.overlap.points import GRIDDED, Rows
from tessella.problem.determined import contradictions, leaves_open, missing_conditions
from tessella.problem.linearised import Around, linearised, typical
from tessella.problem.problem import Problem
from tessella.problem.statement import Applied
from tessella.solution.report import error_norms
from tessella.solution.solution import Solution, test_points
from tessella.solving.algorithm import run
from tessella.solving.checkpoint import Checkpoint, Engine, Keeping
from tessella.solving.method import MEAN, PATIENCE, Method
from tessella.solving.nonlinear.iterating import Iterating, around_itself
from tessella.solving.plan import Plan, overdetermined, planned
from tessella.solving.refinement import refine


def check(problem: Problem, tol: float) -> None:
    """Refuse tolerances no one can meet and problems that do not determine their solution."""
    if not (isinstance(tol, Real) and math.isfinite(tol) and tol > 0):
        raise ValueError(f"tol must be a positive number, e.g. 1e-6, got {tol!r}")
    if tol >= 1:
        raise ValueError(
            f"tol={tol!r} is no tolerance: it is relative to the spread of the solution, e.g. 1e-2"
        )
    if tol < tuning.SMALLEST_TOLERANCE:
        raise ValueError(
            f"tol={tol!r} is below what double precision allows: use "
            f"{tuning.SMALLEST_TOLERANCE:g} or more"
        )
    problem = typical(problem)
    axes = problem.domain.axes
    order = max(sum(t.orders) for e in problem.equations for t in e.operator.expand(axes))
    open_fields = [f for f in problem.fields if not callable(problem.multiplier(f))]
    closed = problem.domain.periodic == axes
    if order and not problem.conditions and open_fields and not closed:
        raise ValueError(
            "the problem has no conditions, so its solution is not unique: add conditions=[...] "
            "or an ansatz"
        )
    for field in open_fields:
        if _constants_are_free(problem, field):
            what = "the solution" if len(problem.fields) == 1 else f"the unknown {field!r}"
            raise ValueError(
                f"equation and conditions fix derivatives only, so {what} is determined up to a "
                f"constant: add a condition on its value, e.g. Dirichlet on one face, "
                f"or MeanZero()"
            )
    if problem.domain.dimension > GRIDDED and problem.domain.periodic:
        raise ValueError(
            f"tol works with periodic axes in 1, 2 and 3 dimensions (time counts), got "
            f"{problem.domain.dimension}: choose subdomains and features yourself"
        )


def _constants_are_free(problem: Problem, field: str) -> bool:
    """Whether no equation and no condition notices a constant added to this unknown."""
    origin = (0,) * problem.domain.dimension

    def noticed(part: Rows) -> bool:
        symbol = problem.symbol(part.source.operator, part.points, part.normals, field)
        return bool(np.any(symbol.get(origin, 0.0)))

    return not any(noticed(part) for part in held_out(problem, peaked=False))


def solve_to(
    problem: Problem,
    method: Method,
    progress: Progress | None,
    start: Applied | None = None,
    checkpoint: Checkpoint | None = None,
) -> Solution:
    """Refine to a tolerance; only then is the exact solution, if any, looked at. A nonlinear
    problem is solved from a start. Steps that are finished are kept in a checkpoint, and found
    there by another run."""
    assert method.tol is not None
    check(problem, method.tol)
    patience = PATIENCE if method.patience is None else method.patience
    watch = Stopwatch()
    with on_the_cpu(True):
        shelf = Shelf()

    iterating = None if start is None else Iterating(method, start)

    def engine(blind: Problem, plan: Plan) -> Solution:
        with on_the_cpu(plan.work() < tuning.GPU_WORK):
            if iterating is not None:
                return iterating(blind, plan)
            return run(blind, planned(blind, plan, method), shelf=shelf)

    def again(blind: Problem, solution: Solution) -> Solution:
        if iterating is None:
            return solution
        iterating.state = solution
        return around_itself(blind, solution)

    def basis_of(blind: Problem, plan: Plan) -> AnyBasis:
        return planned(blind, plan, method).basis

    solver: Engine = engine
    if checkpoint is not None:
        solver = Keeping(engine, checkpoint, basis_of, again)

    if problem.exact_function is not None:
        few = problem.domain.scatter(2, np.random.default_rng(method.seed or 0))
        problem.exact_values(few)  # shows a bad one before the work
    whole = overdetermined(problem) or problem.domain.dimension > GRIDDED
    quiet = nullcontext() if whole else single_threaded_blas()
    with watch.phase("solve"), on_the_cpu(True), quiet:
        sample = None if start is None else linearised(problem, Around(problem, start))
        found = refine(problem, method.tol, solver, patience, progress, method.norm or MEAN, sample)
    solution = dataclasses.replace(found.solution, problem=problem)
    with watch.phase("measure"):
        at = test_points(problem, solution.basis, method.test_grid)
        error = None if at is None else error_norms(solution(at), problem.exact_values(at))
    met = found.met and not leaves_open(problem)
    missing = missing_conditions(problem)
    remarks = (
        found.reason if met or not missing else "",
        missing,
        contradictions(problem),
        "" if missing else disagreement(error, found.errors and found.errors.mean),
    )
    report = dataclasses.replace(
        solution.report,
        error=error,
        error_estimate=found.errors and found.errors.mean,
        largest_error_estimate=found.errors and found.errors.largest,
        spreads=spreads(found.solution, found.zero) if found.errors else {},
        tolerance=method.tol,
        refinement=found.steps,
        stop_reason="tolerance met" if met else "tolerance not met",
        advice="; ".join(filter(None, remarks)),
        seconds=watch.total(),
        peak_memory_mib=peak_mib(),
    )
    return dataclasses.replace(solution, report=report)
