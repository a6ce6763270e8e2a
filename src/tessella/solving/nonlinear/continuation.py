"""A nonlinear problem that Newton's method does not reach from far away, by way of easier ones.

The problem is a function of a parameter. Values are taken in turn, each from the solution of the
last, or from where the last two point to. A step that fails is halved, so values are inserted where
the solution changes fast; one that cannot be halved any more is the end, and the last solution is
what is returned.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from tessella.problem.problem import Problem
from tessella.problem.states import Mixed
from tessella.problem.tangents import NotDifferentiableError
from tessella.solution.report import Reached
from tessella.solution.solution import Solution
from tessella.solving.nonlinear.newton import GIVEN_UP, REMEDY

HALVINGS = 6
"""Of a step between two values that were asked for."""

REACH = 2.0
"""Two solutions point no further than to their distance beyond the second."""

Solve = Callable[[Problem, Any, bool], Solution]
"""(problem, start, whether it is the last one) to a solution."""

ProblemOf = Callable[..., Problem]


@dataclass
class Continuation:
    """Values of a parameter, one after the other; `start` is that of the first."""

    problem_of: ProblemOf
    name: str
    values: Sequence[float]
    solve: Solve
    start: Any = None
    known: list[tuple[float, Solution]] = field(default_factory=list)
    """The last two values and their solutions."""
    path: list[Reached] = field(default_factory=list)

    def go(self) -> Solution:
        """The solution at the last value, or at the last that was reached."""
        for number, wanted in enumerate(self.values):
            last = number == len(self.values) - 1
            if reason := self._reach(wanted, last):
                return self._stuck(reason)
        return self._told(self.known[-1][1])

    def _reach(self, wanted: float, last: bool) -> str:
        """Come to a value by as many steps as it takes; the reason if that fails."""
        if not self.known:
            return self._take(wanted, last, False)
        step = wanted - self.known[-1][0]
        smallest = abs(step) * 2.0**-HALVINGS
        while (left := wanted - self.known[-1][0]) != 0:
            whole = abs(step) >= abs(left) * (1 - 1e-9)
            value = wanted if whole else self.known[-1][0] + step
            if not (reason := self._take(value, last and whole, not whole)):
                step *= 2
            elif abs(step) <= smallest:
                return reason
            else:
                step = left / 2 if whole else step / 2
        return ""

    def _take(self, value: float, last: bool, inserted: bool) -> str:
        """Solve for one value; the reason if there is no solution."""
        problem, start = stated(self.problem_of, self.name, value), self._guess(value)
        reason, count = "", 0
        try:
            found = self.solve(problem, start, last)
            count = sum(step.kind == "newton" for step in found.report.newton)
            if found.report.stop_reason == GIVEN_UP:
                reason = found.report.advice.removesuffix(f"; {REMEDY}")
                if not self.known:
                    self.known.append((value, found))
        except NotDifferentiableError as error:
            if not self.known:
                raise
            reason = str(error)
        self.path.append(Reached(self.name, value, count, inserted, not reason))
        if not reason:
            self.known = [*self.known[-1:], (value, found)]
        return reason

    def _guess(self, value: float) -> Any:
        """The start for a value: where the last two solutions point to, as far as they are apart;
        else the last one."""
        if not self.known:
            return self.start
        after, second = self.known[-1]
        before, first = self.known[0]
        share = (value - before) / (after - before) if after != before else math.inf
        return Mixed(first, second, share) if 1 < share <= REACH else second

    def _stuck(self, reason: str) -> Solution:
        """What was reached, and why not more."""
        value, solution = self.known[-1]
        failed = self.path[-1].value
        if len(self.path) == 1:
            said = f"the first value, {self.name} = {value:g}, is not solved: {reason}"
        else:
            said = (
                f"{self.name} = {value:g} is the last value that was reached, {failed:g} was not: "
                f"{reason}"
            )
        told = dataclasses.replace(solution.report, stop_reason=GIVEN_UP, advice=said)
        return self._told(dataclasses.replace(solution, report=told))

    def _told(self, solution: Solution) -> Solution:
        report = dataclasses.replace(solution.report, continuation=tuple(self.path))
        return dataclasses.replace(solution, report=report)


def stated(problem_of: ProblemOf, name: str, value: float) -> Problem:
    """The problem for a value of the parameter, checked."""
    problem = problem_of(**{name: value})
    if not isinstance(problem, Problem):
        raise TypeError(f"problem_of({name}={value:g}) must return a Problem, got {problem!r}")
    return problem


def check_family(problem_of: object, name: object, door: str) -> None:
    """Refuse what is no function of a parameter to problems."""
    if isinstance(problem_of, Problem) or not callable(problem_of):
        raise TypeError(
            f"{door} needs a function of the parameter that returns a Problem, e.g. "
            f"lambda Re: Problem(...), got {problem_of!r}"
        )
    if not isinstance(name, str):
        raise TypeError(f"the parameter must be named, e.g. 'Re', got {name!r}")


def check_values(continuation: object) -> tuple[str, list[float]]:
    """A parameter's name and its values."""
    if not (isinstance(continuation, tuple | list) and len(continuation) == 2):
        raise TypeError(
            f"continuation must be a name and values, e.g. ('Re', [100, 400, 1000]), got "
            f"{continuation!r}"
        )
    name, values = continuation
    if not isinstance(values, Sequence | np.ndarray) or isinstance(values, str) or not len(values):
        raise TypeError(f"continuation values of {name!r} must be a list, got {values!r}")
    for value in values:
        if not (isinstance(value, Real) and np.isfinite(float(value))):
            raise ValueError(f"continuation has the value {value!r} of {name!r}: it must be finite")
    return name, [float(value) for value in values]
