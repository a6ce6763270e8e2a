"""Newton's method as the doors ask for it: in a basis that is chosen, or plan after plan."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from tessella.accuracy.estimate import judge, spreads
from tessella.machine.memory import peak_mib
from tessella.machine.progress import Progress
from tessella.machine.stopwatch import Stopwatch
from tessella.overlap.basis import Multilevel
from tessella.problem.determined import contradictions, missing_conditions
from tessella.problem.linearised import Around, linearised
from tessella.problem.problem import Problem
from tessella.problem.statement import Applied
from tessella.problem.states import Guess
from tessella.solution.report import error_norms
from tessella.solution.solution import Solution
from tessella.solving.algorithm import exact_samples
from tessella.solving.method import Method
from tessella.solving.nonlinear.newton import (
    BALANCE,
    CHORDS,
    FOUND,
    GIVEN_UP,
    TOLERANCE,
    LostError,
    Newton,
)
from tessella.solving.plan import Plan, planned
from tessella.solving.ways import Parts


def iterate(
    problem: Problem, method: Method, start: Applied, progress: Progress | None
) -> Solution:
    """A nonlinear problem in the basis that is chosen; its error by a second, coarser solve."""
    watch, parts = Stopwatch(), dataclasses.replace(method.parts(problem), right_sides=CHORDS)
    blind = dataclasses.replace(problem, exact=None)
    samples = exact_samples(problem, parts.basis, method.test_grid)
    relaxes = isinstance(start, Guess)
    newton = Newton(blind, parts, relaxes=relaxes, progress=progress, watch=watch)
    found = newton.go(start)
    own = found.solution
    told: dict[str, Any] = {}
    if method.condition:
        with watch.phase("condition"):
            told["condition"] = newton.ready.factors.conditions()
    direct = not newton.ready.factors.iterative
    if found.converged and (direct if method.estimate is None else method.estimate):
        with watch.phase("estimate"):
            told |= _second_opinion(own, parts)
    if samples is not None:
        told["error"] = error_norms(own(samples[0]), samples[1])
    remark = missing_conditions(problem) or contradictions(problem)
    told |= {
        "stop_reason": FOUND if found.converged else GIVEN_UP,
        "advice": "; ".join(filter(None, (found.reason, remark))),
        "seconds": watch.total(),
        "peak_memory_mib": peak_mib(),
    }
    return dataclasses.replace(own, problem=problem, report=dataclasses.replace(own.report, **told))


def _second_opinion(solution: Solution, parts: Parts) -> dict[str, Any]:
    """The errors as judged by a solution with half the features, which starts from this one."""
    basis, problem = solution.basis, solution.problem
    if isinstance(basis, Multilevel) or basis.features.count < 2:
        return {}
    coarse = Newton(problem, dataclasses.replace(parts, basis=basis.coarser())).go(solution)
    if not coarse.converged:
        return {}
    own, other = (around_itself(problem, one) for one in (solution, coarse.solution))
    judged = judge(own, other)
    return {
        "error_estimate": judged.errors.mean,
        "largest_error_estimate": judged.errors.largest,
        "spreads": spreads(own, judged.zero),
    }


def around_itself(problem: Problem, solution: Solution) -> Solution:
    """A solution of the problem linearised around it, so that it is judged like one of a linear
    problem: it misses the same of both."""
    return dataclasses.replace(solution, problem=linearised(problem, Around(problem, solution)))


@dataclass
class Iterating:
    """Newton's method as a refinement asks for it: plan after plan, each from the last solution.

    The solutions it returns have the problem linearised around themselves, so that they are judged
    like those of linear problems.
    """

    method: Method
    state: Applied
    reason: str = ""

    def __call__(self, problem: Problem, plan: Plan) -> Solution:
        assert self.method.tol is not None
        parts = dataclasses.replace(planned(problem, plan, self.method), right_sides=CHORDS)
        tolerance = max(BALANCE * self.method.tol, TOLERANCE / 10)
        newton = Newton(problem, parts, tolerance, relaxes=isinstance(self.state, Guess))
        found = newton.go(self.state)
        self.reason = found.reason
        if not found.converged:
            error = LostError(found.reason)
            error.last = dataclasses.replace(found.solution, problem=problem)
            raise error
        self.state = found.solution
        return around_itself(problem, found.solution)
