"""Where Newton's method fails from a start: time added to the equations, until they stand still.

F(u) = 0 becomes r (u - u_old) + F(u) = 0 with a rate r that falls as fast as u comes to rest, so
that the last steps are Newton's own. This leads to solutions that are stable in time, along a way
that no damping finds. The rate stands in equations that are elliptic in an unknown, with the sign
that makes them parabolic; others hold at all times.
"""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tessella.cells.cell.sizes import operator_sizes
from tessella.machine.arrays import Array
from tessella.problem.linearised import Around, linearised
from tessella.problem.operators import Operator, Scaled, Sum
from tessella.problem.problem import Equation, Problem
from tessella.problem.statement import Applied, TooLargeError
from tessella.problem.tangents import NotDifferentiableError

if TYPE_CHECKING:
    from tessella.solving.nonlinear.newton import Newton

STEPS = 40

SHORT, STILL = 1e-3, 0.3
"""Rates, in parts of the first one, and changes, in parts of the solution, from which Newton's
method takes over."""

FASTEST, SLOWEST = 0.2, 0.7
"""Factors by which the rate falls in a step while changes do."""

WAVES = 8
"""Half waves along every axis, on which the sign of an operator is looked at."""

Rates = dict[str, tuple[str, float]]
"""By the names of equations: the unknown that changes in time, and how fast."""


def relaxed(newton: Newton, start: Applied) -> Applied | None:
    """A state that hardly changes in time any more; none where there is no time to add, or where
    the solution runs away."""
    problem = newton.problem
    try:
        rates = _rates(problem, linearised(problem, Around(problem, start)))
        state, rate, last = start, 1.0, math.inf
        for _ in range(STEPS if rates else 0):
            here = Around(problem, state)
            state, size = newton.step_in_time(here, _in_time(problem, here, rates, rate))
            if not math.isfinite(size):
                return None
            if rate < SHORT and size < STILL:
                return state
            speed = rate * size
            rate *= float(np.clip(speed / last, FASTEST, SLOWEST)) if speed < last else 1.0
            last = speed
    except (NotDifferentiableError, TooLargeError):
        pass
    return None


def _rates(problem: Problem, linear: Problem) -> Rates:
    """Which unknown every equation moves, and the rate that a half wave as long as the domain
    asks for. None if two equations would move the same one."""
    domain = problem.domain
    if "t" in domain.axes or domain.regions:
        return {}
    x = domain.scatter(64, np.random.default_rng(0))
    k = np.pi / (domain.upper - domain.lower)
    found: Rates = {}
    for equation in linear.equations:
        signs = {u: _real(problem, equation.operator, x, WAVES * k, u) for u in problem.unknowns}
        name = max(signs, key=lambda u: abs(signs[u]))
        if signs[name]:
            size = float(operator_sizes(problem, equation.operator, x, None, k).sum())
            found[equation.name] = name, math.copysign(size, signs[name])
    moved = [name for name, _ in found.values()]
    return found if len(set(moved)) == len(moved) else {}


def _real(problem: Problem, operator: Operator, x: Array, k: Array, field: str) -> float:
    """The real part that an operator has on a wave, if it has the same sign at most points."""
    symbol = problem.symbol(operator, x, None, field)
    found = np.zeros(len(x))
    for alpha, c in symbol.items():
        if any(alpha):
            found += c * np.real(np.prod((1j * k) ** np.array(alpha)))
    agree = abs(float(np.mean(np.sign(found))))
    return float(np.median(found)) if agree > 0.8 else 0.0


def _in_time(problem: Problem, here: Around, rates: Rates, rate: float) -> Problem:
    """The problem linearised around a state, with a step in time from there."""
    new = linearised(problem, here)
    equations = tuple(
        _moving(e, problem.unknown(rates[e.name][0]), rate * rates[e.name][1], here.state)
        if e.name in rates
        else e
        for e in new.equations
    )
    object.__setattr__(new, "equation", equations)
    return new


def _moving(equation: Equation, unknown: Operator, rate: float, state: Applied) -> Equation:
    def rhs(given: Any, x: Array) -> Array:
        return np.asarray(given.values(x) + rate * state.apply(unknown, x))

    operator = Sum((equation.operator, Scaled(rate, unknown)))
    return dataclasses.replace(equation, operator=operator, rhs=partial(rhs, equation))
