"""The front door: a problem and a few choices in, a solution out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from pathlib import Path
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
from tessella.solving.checkpoint import Checkpoint, opened
from tessella.solving.doors import check_problem, with_choices
from tessella.solving.method import Method
from tessella.solving.nonlinear.continuation import (
    Continuation,
    ProblemOf,
    check_family,
    check_values,
)
from tessella.solving.nonlinear.iterating import iterate
from tessella.solving.nonlinear.newton import GIVEN_UP, LostError
from tessella.solving.nonlinear.starts import started
from tessella.solving.time.stepping import in_slabs, step_to
from tessella.solving.tolerance import check, solve_to


@with_choices()
def solve(
    problem: Problem | ProblemOf,
    method: Method | None = None,
    *,
    start: Any = None,
    continuation: tuple[str, Sequence[float]] | None = None,
    progress: Shown = None,
    checkpoint: str | Path | None = None,
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
    mapping from their names. Which of several solutions is found depends on it. Where damping does
    not help, time is added to the equations until they come to rest. What is out of reach even then
    may be reached by way of easier problems: with a function of a parameter in
    place of the problem, `solve(problem_of, continuation=("Re", [100, 400, 1000]), tol=1e-6)`
    solves for these values in turn, each from the last solution, inserts others where that fails,
    and returns the solution for the last. How it came there is in `report.continuation`.

    What takes more than two seconds shows how far it is on stderr if a terminal or a notebook is
    there (`progress=False`: never, True: always). A `progress` of your own is called with
    (iterations, limit, relative residual), with (parts done, parts, 1) during a set-up, and with
    (steps, 0, estimated error) on the way to a tolerance. Side by side the unknowns of an iteration
    are what is exchanged, so no error is tracked while it runs.

    With a folder as `checkpoint` every finished step on the way to a tolerance is kept there, and
    the same call goes on from the last of them, whatever ended it: a kill, a full disk, patience.
    Seconds that earlier runs have spent on these steps count as spent. A folder of another problem
    or of other choices is refused.

    >>> import tessella as ts
    >>> line = ts.Box(x=(0, 1))
    >>> problem = ts.Problem(line, ts.Equation(-ts.D(x=2), 2.0), [ts.Dirichlet(0.0)])
    >>> solution = ts.solve(problem, tol=1e-8)
    >>> solution.report.stop_reason
    'tolerance met'
    >>> round(float(solution(0.5)[0]), 8)
    0.25
    """
    chosen = Method.of(choices, "solve", method)
    if checkpoint is not None and (chosen.tol is None or continuation is not None):
        raise ValueError(
            f"checkpoint={str(checkpoint)!r} keeps the steps to a tolerance, and there are none: "
            f"leave it out, or name tol without continuation; march() keeps slabs"
        )
    if continuation is not None:
        name, values = check_values(continuation)
        check_family(problem, name, "solve(..., continuation=...)")
        with attended(progress) as show:
            each = partial(_one_of_several, chosen, show)
            return Continuation(problem, name, values, each, start).go()  # type: ignore[arg-type]
    check_problem(problem, "solve", nonlinear=True)
    assert isinstance(problem, Problem)
    if start is not None and problem.linear:
        raise ValueError("start is for nonlinear problems, and this one is linear: leave it out")
    with attended(progress) as show:
        return _solved(problem, chosen, start, show, checkpoint)


def _solved(
    problem: Problem,
    method: Method,
    start: Any,
    progress: Progress | None,
    checkpoint: str | Path | None = None,
) -> Solution | Marched:
    first = None if problem.linear else started(problem, start)
    if first is not None and method.tol is None:
        return iterate(problem, method, first, progress)
    if method.tol is not None:
        check(problem, method.tol)
        kept = opened(checkpoint, "solve", problem, method, first)
        soft = in_slabs(problem)
        if soft is not None:
            return _march_to(problem, soft, method, progress, kept)
        try:
            return solve_to(problem, method, progress, first, kept)
        except LostError as error:
            return _kept(problem, method, error)
    return run(
        problem,
        method.parts(problem),
        test_grid=method.test_grid,
        condition=bool(method.condition),
        estimate=method.estimate,
        progress=progress,
    )


def _kept(problem: Problem, method: Method, error: LostError) -> Solution:
    """The last good iterate where Newton's method fails on the first discretisation already."""
    assert error.last is not None
    report = dataclasses.replace(
        error.last.report, tolerance=method.tol, stop_reason=GIVEN_UP, advice=str(error)
    )
    return dataclasses.replace(error.last, problem=problem, report=report)


LOOSE = 1e-3
"""Tolerance of solutions on the way to another one."""


def _one_of_several(
    method: Method, progress: Progress | None, problem: Problem, start: Any, last: bool
) -> Solution:
    """What a continuation asks for; all but the last is no more exact than it need be."""
    if not last and method.tol is None:
        method = dataclasses.replace(method, estimate=False)
    elif not last:
        method = dataclasses.replace(method, tol=max(LOOSE, method.tol or 0.0))
    found = _solved(problem, method, start, progress)
    if not isinstance(found, Solution):
        raise ValueError(
            "continuation is for problems that are solved at once, and this one is marched in "
            "time: choose subdomains and features yourself, or continue in time instead"
        )
    return found


def _march_to(
    problem: Problem,
    soft: Problem,
    method: Method,
    progress: Progress | None,
    checkpoint: Checkpoint | None,
) -> Marched:
    """Slab by slab to a tolerance; `soft` is the problem without an ansatz."""
    watch = Stopwatch()
    with on_the_cpu(True), single_threaded_blas():
        marched, met, reason = step_to(soft, method, progress, checkpoint)
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
