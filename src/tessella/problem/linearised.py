"""The linear problems that Newton's method makes of a nonlinear one.

Around a state u a nonlinear function N is replaced by its tangent, sum_k dN/d(d_k) d_k with
coefficients at u, and what is left of it, N(u) - N'(u) u, moves to the right-hand side. So the
linearised problem is a `Problem` like any other; its solution is the next iterate, and what u
itself misses of it is what u misses of the nonlinear one. Where a condition asks for the normal
derivative, coefficients and data depend on the normals as well as on the points.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tessella.geometry.functions import Function, Orders, function_values
from tessella.machine.arrays import Array
from tessella.problem.nonlinear import Nonlinear, is_linear
from tessella.problem.normal_form import Term, symbol
from tessella.problem.operator_function import NORMAL, Key, times
from tessella.problem.operators import (
    Composition,
    D,
    Identity,
    Normal,
    NormalDerivative,
    Operator,
    Scaled,
    Sum,
)
from tessella.problem.statement import Applied
from tessella.problem.states import Smooth
from tessella.problem.tangents import tangents

if TYPE_CHECKING:
    from tessella.problem.problem import Problem

KEPT = 24
"""Sets of points whose values a state remembers."""


@dataclass(frozen=True)
class Values:
    """A leaf at points: the derivatives it asked for (k, n), its values and its tangent (k, n)."""

    derivatives: Array
    values: Array
    tangent: Array

    @property
    def rest(self) -> Array:
        """N(u) - N'(u) u."""
        return np.asarray(self.values - np.sum(self.tangent * self.derivatives, axis=0))


@dataclass(eq=False)
class Around:
    """A state that nonlinear operators are looked at from; what was asked for is remembered."""

    problem: Problem
    state: Applied

    def __post_init__(self) -> None:
        self.known: dict[tuple[Nonlinear, bytes, bytes], Values] = {}

    def at(self, leaf: Nonlinear, points: Array, normals: Array | None = None) -> Values:
        """A leaf and its tangent at points."""
        turned = b"" if normals is None else np.ascontiguousarray(normals).tobytes()
        key = leaf, np.ascontiguousarray(points).tobytes(), turned
        if key not in self.known:
            if len(self.known) >= KEPT:
                del self.known[next(iter(self.known))]
            self.known[key] = self._evaluated(leaf, points, normals)
        return self.known[key]

    def _evaluated(self, leaf: Nonlinear, points: Array, normals: Array | None) -> Values:
        axes = self.problem.domain.axes
        keys = leaf.keys(axes)
        found = derivatives_of(self.state, self.problem, leaf, keys, points, normals)
        values, tangent = tangents(leaf, axes, keys, found, points)
        return Values(found, values, tangent)


def derivatives_of(
    state: Applied,
    problem: Problem,
    leaf: Nonlinear,
    keys: Sequence[Key],
    points: Array,
    normals: Array | None = None,
) -> Array:
    """What a leaf asks of a state, (k, n)."""
    only, found = problem.unknowns[0], np.empty((len(keys), len(points)))
    owners = [field or leaf.field or only for field, _ in keys]
    at_once = getattr(state, "derivatives", None)
    for name in dict.fromkeys(owners):
        rows = [k for k, owner in enumerate(owners) if owner == name]
        inner = [k for k in rows if keys[k][1] != NORMAL]
        if at_once is not None and inner:
            found[inner] = at_once([keys[k][1] for k in inner], points, name)
        for k in rows:
            if at_once is None or k not in inner:
                found[k] = state.apply(derivative(problem, keys[k][1], name), points, normals)
    return found


def derivative(problem: Problem, alpha: Orders, name: str) -> Operator:
    """The operator that makes a derivative of an unknown."""
    if alpha == NORMAL:
        return NormalDerivative() @ problem.unknown(name)
    orders = {axis: n for axis, n in zip(problem.domain.axes, alpha, strict=True) if n}
    return (D(**orders) if orders else Identity()) @ problem.unknown(name)


@dataclass(frozen=True, eq=False, repr=False)
class Slope:
    """dN/d(d_k) around a state, as a function of the points and the normals there."""

    leaf: Nonlinear
    around: Around
    number: int
    takes_normals: ClassVar[bool] = True

    @property
    def __name__(self) -> str:
        return f"a coefficient of the linearised {self.leaf.name}"

    def __call__(self, points: Array, normals: Array | None = None) -> Array:
        return self.around.at(self.leaf, points, normals).tangent[self.number]


@dataclass(frozen=True, eq=False)
class Tangent(Operator):
    """The linear operator that a nonlinear one is near a state."""

    leaf: Nonlinear
    around: Around

    def __post_init__(self) -> None:
        axes = self.around.problem.domain.axes
        terms = tuple(
            term
            for number, (field, alpha) in enumerate(self.leaf.keys(axes))
            for term in times(
                Slope(self.leaf, self.around, number), (field or self.leaf.field, alpha), len(axes)
            )
        )
        object.__setattr__(self, "terms", terms)

    def __repr__(self) -> str:
        return f"{self.leaf!r}'"

    def expand(self, axes: Sequence[str]) -> tuple[Term, ...]:
        return self.terms  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False, repr=False)
class Remaining:
    """The right-hand side of a linearised statement, as a function of points and normals."""

    given: float | Function
    operator: Operator
    around: Around
    what: str
    takes_normals: ClassVar[bool] = True

    @property
    def __name__(self) -> str:
        return self.what

    def __call__(self, points: Array, normals: Array | None = None) -> Array:
        given = function_values(self.given, points, self.what)
        return given - rest(self.operator, self.around, points, normals)


def rest(
    operator: Operator,
    around: Around,
    points: Array,
    normals: Array | None = None,
    slopes: Around | None = None,
) -> Array:
    """What a tangent leaves of an operator at a state; the tangent is that at the state too, unless
    it is taken elsewhere."""
    match operator:
        case Nonlinear():
            found = around.at(operator, points, normals)
            if slopes is not None:
                tangent = slopes.at(operator, points, normals).tangent
                found = dataclasses.replace(found, tangent=tangent)
            return found.rest
        case Sum(parts):
            each = [rest(p, around, points, normals, slopes) for p in parts if not is_linear(p)]
            return np.asarray(sum(each, np.zeros(len(points))))
        case Scaled(_, inner) | Composition(_, inner) if not is_linear(inner):
            return in_front(operator, around.problem, points, normals) * rest(
                inner, around, points, normals, slopes
            )
    return np.zeros(len(points))


def in_front(operator: Operator, problem: Problem, points: Array, normals: Array | None) -> Array:
    """What multiplies a nonlinear part: a coefficient, or a component of the normal."""
    if isinstance(operator, Scaled):
        return function_values(operator.coefficient, points)
    assert isinstance(operator, Composition) and isinstance(operator.left, Normal)
    (value,) = symbol(operator.left.expand(problem.domain.axes), points, normals).values()
    return value


def _tangent(operator: Operator, around: Around) -> Operator:
    match operator:
        case Nonlinear():
            return Tangent(operator, around)
        case Sum(parts):
            return Sum(tuple(_tangent(part, around) for part in parts))
        case Scaled(coefficient, inner):
            return Scaled(coefficient, _tangent(inner, around))
        case Composition(left, right) if not is_linear(right):
            return Composition(left, _tangent(right, around))
    return operator


def applied_to(operator: Operator, state: Applied, points: Array, normals: Array | None) -> Array:
    """A nonlinear operator applied to a function that linear ones can be applied to."""
    match operator:
        case Nonlinear():
            problem = state.problem
            axes = problem.domain.axes
            keys = operator.keys(axes)
            given = derivatives_of(state, problem, operator, keys, points, normals)
            return tangents(operator, axes, keys, given, points)[0]
        case Sum(parts):
            return np.asarray(sum(applied_to(p, state, points, normals) for p in parts))
        case Scaled(_, inner) | Composition(_, inner) if not is_linear(inner):
            front = in_front(operator, state.problem, points, normals)
            return front * applied_to(inner, state, points, normals)
    return state.apply(operator, points, normals)


def linearised(problem: Problem, around: Around) -> Problem:
    """The linear problem whose solution is Newton's next iterate after a state. It was checked when
    the nonlinear one was stated, and knows no exact solution."""
    new = copy.copy(problem)
    object.__setattr__(new, "equation", _linear(problem.equations, "rhs", around))
    object.__setattr__(new, "conditions", _linear(problem.conditions, "value", around))
    object.__setattr__(new, "exact", None)
    object.__setattr__(new, "_original", problem)
    return new


def original(problem: Problem) -> Problem:
    """The nonlinear problem that a linearised one was made of; any other as it is."""
    found: Problem = getattr(problem, "_original", problem)
    return found


def _linear(statements: Sequence[Any], data: str, around: Around) -> tuple[Any, ...]:
    return tuple(
        own if is_linear(own.operator) else dataclasses.replace(
            own,
            operator=_tangent(own.operator, around),
            **{data: Remaining(own.given, own.operator, around, f"{own.name} {own.word}")},
        )
        for own in statements
    )  # fmt: skip


def typical(problem: Problem) -> Problem:
    """A linear problem of the same kind: a nonlinear one linearised around a smooth function none
    of whose derivatives vanishes."""
    return problem if problem.linear else linearised(problem, Around(problem, Smooth(problem)))
