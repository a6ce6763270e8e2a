"""The front door: a problem and a few choices in, a solution out."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from typing import Any

import numpy as np

from tessella.accuracy import tuning
from tessella.accuracy.estimate import disagreement
from tessella.cells.shelf import Shelf
from tessella.linalg.iterative.iteration import Progress
from tessella.machine.arrays import on_the_cpu
from tessella.machine.memory import peak_mib
from tessella.machine.stopwatch import Stopwatch
from tessella.machine.threads import single_threaded_blas
from tessella.problem.determined import contradictions, leaves_open, missing_conditions
from tessella.problem.problem import Problem
from tessella.solution.report import error_norms
from tessella.solution.solution import Solution, test_points
from tessella.solving.algorithm import run
from tessella.solving.method import PATIENCE, Method, with_choices
from tessella.solving.plan import Plan, overdetermined, planned
from tessella.solving.tolerance import refine


@with_choices()
def solve(
    problem: Problem,
    method: Method | None = None,
    *,
    progress: Progress | None = None,
    **choices: Any,
) -> Solution:
    """Solve a linear PDE with filtered random features.

    Name a tolerance, `solve(problem, tol=1e-6)`, and everything is chosen: the discretisation is
    refined until the estimated normalised L1 error is below it, for about `patience` seconds at
    most. The report shows the way there, and says so if the tolerance is out of reach.

    Or choose yourself, `solve(problem, subdomains=8, features=100)`. All choices are the fields of
    `Method`, which tells what they mean: keywords here, a whole `Method`, or one with some changed.

    `progress` is called with (iterations, limit, relative residual), and with (parts done, parts,
    1) during a set-up. Side by side the unknowns of an iteration are what is exchanged, so no error
    is tracked while it runs.

    >>> import tessella as ts
    >>> line = ts.Box(x=(0, 1))
    >>> problem = ts.Problem(line, ts.Equation(-ts.D(x=2), 2.0), [ts.Dirichlet(0.0)])
    >>> solution = ts.solve(problem, tol=1e-8)
    >>> solution.report.stop_reason
    'tolerance met'
    >>> round(float(solution(0.5)[0]), 8)
    0.25
    """
    check_problem(problem, "solve")
    chosen = Method.of(choices, "solve", method)
    if chosen.tol is not None:
        return _solve_to(problem, chosen, progress)
    return run(
        problem,
        chosen.parts(problem),
        test_grid=chosen.test_grid,
        condition=bool(chosen.condition),
        estimate=chosen.estimate,
        progress=progress,
    )


def check_problem(problem: object, door: str) -> None:
    if not isinstance(problem, Problem):
        raise TypeError(
            f"{door}() needs a Problem(domain, equation, conditions) first, got {problem!r}"
        )


def _solve_to(problem: Problem, method: Method, progress: Progress | None) -> Solution:
    """Refine to a tolerance; only then is the exact solution, if any, looked at."""
    assert method.tol is not None
    patience = PATIENCE if method.patience is None else method.patience
    watch = Stopwatch()
    with on_the_cpu(True):
        shelf = Shelf()

    def engine(blind: Problem, plan: Plan) -> Solution:
        with on_the_cpu(plan.work() < tuning.GPU_WORK):
            return run(blind, planned(blind, plan, method), shelf=shelf)

    if problem.exact_function is not None:
        few = problem.domain.scatter(2, np.random.default_rng(method.seed or 0))
        problem.exact_values(few)  # shows a bad one before the work
    quiet = nullcontext() if overdetermined(problem) else single_threaded_blas()
    with watch.phase("solve"), on_the_cpu(True), quiet:
        found = refine(problem, method.tol, engine, patience, progress)
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
        "" if missing else disagreement(error, found.estimate),
    )
    report = dataclasses.replace(
        solution.report,
        error=error,
        error_estimate=found.estimate,
        tolerance=method.tol,
        refinement=found.steps,
        stop_reason="tolerance met" if met else "tolerance not met",
        advice="; ".join(filter(None, remarks)),
        seconds=watch.total(),
        peak_memory_mib=peak_mib(),
    )
    return dataclasses.replace(solution, report=report)
