"""Problems that differ by a parameter, looked at from one of them.

With the factors of one linearised problem another one can be solved too, if what differs between
both is known at a state: it moves to the right-hand side.
"""

from __future__ import annotations

import numpy as np

from tessella.geometry.functions import function_values
from tessella.machine.arrays import Array
from tessella.problem.conditions import IntegralCondition
from tessella.problem.nonlinear import Around, Nonlinear, applied_to, derivatives_of, is_linear
from tessella.problem.operators import Operator, Scaled, Sum
from tessella.problem.problem import Problem
from tessella.problem.statement import Applied, Statement


def data_for(there: Statement, here: Statement, state: Applied, slopes: Around, x: Array) -> Array:
    """Data that lead from a state to Newton's next iterate for the statement `there`, by a problem
    linearised around `slopes`, of which `here` was a statement."""
    if isinstance(there, IntegralCondition) and there.operator != here.operator:
        raise ValueError(
            f"{there.name!r} integrates another operator for every value of the parameter: only "
            f"its number may depend on it"
        )
    return there.values(x) - _moved(there.operator, here.operator, state, slopes, x)


def _moved(there: Operator, here: Operator, state: Applied, slopes: Around, x: Array) -> Array:
    """An operator at a state less the tangent of another one; equal linear parts need not be
    evaluated, so they may contain normals."""
    match there, here:
        case _ if there == here and is_linear(there):
            return np.zeros(len(x))
        case Sum(parts), Sum(others) if len(parts) == len(others):
            each = zip(parts, others, strict=True)
            return np.asarray(sum(_moved(one, other, state, slopes, x) for one, other in each))
        case Scaled(c, inner), Scaled(other, its):
            after, before = (function_values(own, x) for own in (c, other))
            moved = after * _moved(inner, its, state, slopes, x)
            same = np.array_equal(after, before)
            return moved if same else moved + (after - before) * _tangent(its, state, slopes, x)
    return applied_to(there, state, x, None) - _tangent(here, state, slopes, x)


def _tangent(operator: Operator, state: Applied, slopes: Around, x: Array) -> Array:
    """The tangent of an operator applied to a state."""
    match operator:
        case Nonlinear():
            keys = operator.keys(slopes.problem.domain.axes)
            given = derivatives_of(state, slopes.problem, operator, keys, x)
            return np.asarray(np.sum(slopes.at(operator, x).tangent * given, axis=0))
        case Sum(parts):
            return np.asarray(sum(_tangent(part, state, slopes, x) for part in parts))
        case Scaled(c, inner) if not is_linear(inner):
            return function_values(c, x) * _tangent(inner, state, slopes, x)
    return state.apply(operator, x)


def check_alike(one: Problem, other: Problem, name: str) -> None:
    """Refuse a parameter that changes more than coefficients and data."""
    if one.domain != other.domain:
        raise ValueError(
            f"the domain depends on {name}: map it to a fixed one, on which {name} stands in the "
            f"equation"
        )
    if [s.name for s in one.statements] != [s.name for s in other.statements]:
        raise ValueError(
            f"the statements depend on {name}: state as many equations and conditions of the same "
            f"names for every value"
        )
    x = one.domain.scatter(16, np.random.default_rng(0))
    for field in one.fields:
        parts = [(p.ansatz_of(field).offset, p.ansatz_of(field).multiplier) for p in (one, other)]
        for ours, theirs in zip(*parts, strict=True):
            if not np.array_equal(function_values(ours, x), function_values(theirs, x)):
                raise ValueError(
                    f"the ansatz depends on {name}: state that as a condition in its place"
                )
