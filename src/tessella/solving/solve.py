"""The front door: a problem and a few choices in, a solution out."""

from __future__ import annotations

import dataclasses
from typing import Any

from tessella.accuracy.estimate import disagreement
from tessella.machine.device import on_the_cpu
from tessella.machine.progress import Progress, Shown, attended
from tessella.machine.stopwatch import Stopwatch
from tessella.machine.threads import single_threaded_blas
from tessella.problem.determined import contradictions, leaves_open, missing_conditions
from tessella.problem.problem import Problem
from tessella.solution.marched import Marched
from tessella.solution.solution import Solution
from tessella.solving.algorithm import run
from tessella.solving.method import Method, check_problem, with_choices
from tessella.solving.newton import iterate, started
from tessella.solving.stepping import in_slabs, step_to
from tessella.solving.tolerance import check, solve_to


@with_choices()
def solve(
    problem: Problem,
    method: Method | None = None,
    *,
    start: Any = None,
    progress: Shown = None,
    **choices: Any,
) -> Solution | Marched:
    """Solve a PDE with filtered random features.

    Name a tolerance, `solve(problem, tol=1e-6)`, and everything is chosen: the discretisation is
    refined until the estimated normalised L1 error is below it, for about `patience` seconds at
    most. The report shows the way there, and says so if the tolerance is out of reach. Where waves
    travel for long, time is cut in slabs that are solved one after the other, and the solution is a
    `Marched` one.

    Or choose yourself, `solve(problem, subdomains=8, features=100)`. All choices are the fields of
    `Method`, which tells what they mean: keywords here, a whole `Method`, or one with some changed.

    A nonlinear problem is solved by Newton's method from a `start`: a number or a function of the
    points (0), written with `jax.numpy`, or a solution of a problem like it; of several unknowns a
    mapping from their names. Which of several solutions is found depends on it.

    What takes more than two seconds shows how far it is on stderr if a terminal or a notebook is
    there (`progress=False`: never, True: always). A `progress` of your own is called with
    (iterations, limit, relative residual), with (parts done, parts, 1) during a set-up, and with
    (steps, 0, estimated error) on the way to a tolerance. Side by side the unknowns of an iteration
    are what is exchanged, so no error is tracked while it runs.

    >>> import tessella as ts
    >>> line = ts.Box(x=(0, 1))
    >>> problem = ts.Problem(line, ts.Equation(-ts.D(x=2), 2.0), [ts.Dirichlet(0.0)])
    >>> solution = ts.solve(problem, tol=1e-8)
    >>> solution.report.stop_reason
    'tolerance met'
    >>> round(float(solution(0.5)[0]), 8)
    0.25
    """
    check_problem(problem, "solve", nonlinear=True)
    chosen = Method.of(choices, "solve", method)
    if start is not None and problem.linear:
        raise ValueError("start is for nonlinear problems, and this one is linear: leave it out")
    first = None if problem.linear else started(problem, start)
    with attended(progress) as show:
        if first is not None and chosen.tol is None:
            return iterate(problem, chosen, first, show)
        if chosen.tol is not None:
            check(problem, chosen.tol)
            soft = in_slabs(problem)
            if soft is not None:
                return _march_to(problem, soft, chosen, show)
            return solve_to(problem, chosen, show, first)
        return run(
            problem,
            chosen.parts(problem),
            test_grid=chosen.test_grid,
            condition=bool(chosen.condition),
            estimate=chosen.estimate,
            progress=show,
        )


def _march_to(
    problem: Problem, soft: Problem, method: Method, progress: Progress | None
) -> Marched:
    """Slab by slab to a tolerance; `soft` is the problem without an ansatz."""
    watch = Stopwatch()
    with on_the_cpu(True), single_threaded_blas():
        marched, met, reason = step_to(soft, method, progress)
    met = met and not leaves_open(soft)
    remarks = (
        missing_conditions(soft),
        reason,
        contradictions(problem),
        disagreement(marched.report.error, marched.report.error_estimate),
    )
    report = dataclasses.replace(
        marched.report,
        stop_reason="tolerance met" if met else "tolerance not met",
        advice="; ".join(filter(None, remarks)),
        seconds=watch.total(),
    )
    return dataclasses.replace(marched, report=report)
