"""Problems that differ by a parameter, looked at from one of them.

With the factors of one linearised problem another one can be solved too, if what differs between
both is known at a state: it moves to the right-hand side.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tessella.geometry.functions import function_values
from tessella.machine.arrays import Array
from tessella.problem.conditions import IntegralCondition
from tessella.problem.linearised import Around, applied_to, derivatives_of, in_front
from tessella.problem.nonlinear import Nonlinear, is_linear
from tessella.problem.operators import Composition, Operator, Scaled, Sum
from tessella.problem.problem import Problem
from tessella.problem.statement import Applied, Statement


class Moved(NamedTuple):
    """A state at points, looked at by a problem linearised around `slopes`."""

    state: Applied
    slopes: Around
    x: Array
    normals: Array | None = None

    def data(self, there: Statement, here: Statement) -> Array:
        """Data that lead from the state to Newton's next iterate for the statement `there`, if
        `here` is that of the linearised problem."""
        if isinstance(there, IntegralCondition) and there.operator != here.operator:
            raise ValueError(
                f"{there.name!r} integrates another operator for every value of the parameter: "
                f"only its number may depend on it"
            )
        return there.values(self.x) - self._between(there.operator, here.operator)

    def _between(self, there: Operator, here: Operator) -> Array:
        """An operator at the state less the tangent of another one; equal linear parts need not be
        evaluated."""
        match there, here:
            case _ if there == here and is_linear(there):
                return np.zeros(len(self.x))
            case Sum(parts), Sum(others) if len(parts) == len(others):
                each = zip(parts, others, strict=True)
                return np.asarray(sum(self._between(one, other) for one, other in each))
            case Scaled(c, inner), Scaled(other, its):
                after, before = (function_values(own, self.x) for own in (c, other))
                moved = after * self._between(inner, its)
                same = np.array_equal(after, before)
                return moved if same else moved + (after - before) * self._tangent(its)
        return applied_to(there, self.state, self.x, self.normals) - self._tangent(here)

    def _tangent(self, operator: Operator) -> Array:
        """The tangent of an operator applied to the state."""
        match operator:
            case Nonlinear():
                problem = self.slopes.problem
                keys = operator.keys(problem.domain.axes)
                given = derivatives_of(self.state, problem, operator, keys, self.x, self.normals)
                slopes = self.slopes.at(operator, self.x, self.normals).tangent
                return np.asarray(np.sum(slopes * given, axis=0))
            case Sum(parts):
                return np.asarray(sum(self._tangent(part) for part in parts))
            case Scaled(_, inner) | Composition(_, inner) if not is_linear(inner):
                front = in_front(operator, self.slopes.problem, self.x, self.normals)
                return front * self._tangent(inner)
        return self.state.apply(operator, self.x, self.normals)


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
