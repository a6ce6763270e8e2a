"""Operators that are not linear, and the linear problems that Newton's method makes of them.

A function N(d, x) that is not linear in the derivatives d is a leaf of an operator, `Nonlinear`.
Around a state u it is replaced by its tangent, sum_k dN/d(d_k) d_k with coefficients at u, and what
is left of it, N(u) - N'(u) u, moves to the right-hand side. So the linearised problem is a
`Problem` like any other; its solution is the next iterate, and what u itself misses of it is what u
misses of the nonlinear one.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tessella.geometry.domain import Domain
from tessella.geometry.functions import Function, Orders, function_values
from tessella.machine.arrays import Array
from tessella.problem.operator_function import Given, Key, OperatorFunction, nonlinearity
from tessella.problem.operators import (
    Composition,
    D,
    Field,
    Identity,
    Operator,
    Scaled,
    Sum,
    Term,
)
from tessella.problem.statement import Applied, Statement
from tessella.problem.states import Smooth
from tessella.problem.tangents import tangents

if TYPE_CHECKING:
    from tessella.problem.problem import Problem

KEPT = 24
"""Sets of points whose values a state remembers."""


@dataclass(frozen=True, repr=False)
class Nonlinear(OperatorFunction):
    """A function f(d, x) that is not linear in d; `why` is what gave it away.

    `field` is the unknown that d() stands for, if the function was composed with one.
    """

    why: str = ""
    field: str | None = None

    def term(self, axes: tuple[str, ...], keys: tuple[Key, ...], key: Key) -> Term:
        own = key[0] or self.field, key[1]
        return Term(own[1], functions=((Unknown(self), (0,) * len(axes)),), field=own[0])

    def keys(self, axes: Sequence[str]) -> tuple[Key, ...]:
        """The derivatives it uses, as it asks for them."""
        plain = OperatorFunction(self.function).expand(axes)
        return tuple((term.field, term.orders) for term in plain)


@dataclass(frozen=True)
class Unknown:
    """The coefficient of a derivative in a nonlinear operator: there is none before a state is."""

    operator: Nonlinear

    def __call__(self, points: Array) -> Array:
        raise TypeError(
            f"{self.operator!r} is not linear in the derivatives, so that it has no coefficients: "
            f"{self.operator.why}"
        )

    def tried(self, points: Array) -> Array:
        """The operator's values where all derivatives are 1."""
        axes = tuple(f"{i}" for i in range(points.shape[1]))
        return self.operator.function(Ones(axes, self.operator.name, {}), points)


class Ones(Given):
    """Hands out ones, whatever is asked."""

    def __call__(self, *unknown: object, **orders: int) -> Array:
        return np.ones(())


def classified(operator: Operator, domain: Domain) -> Operator:
    """The operator with those of its functions marked that are not linear."""
    match operator:
        case OperatorFunction() if not isinstance(operator, Nonlinear):
            known = operator.__dict__.setdefault("_why", {})
            if domain.axes not in known:
                known[domain.axes] = nonlinearity(operator, domain)
            why = known[domain.axes]
            return Nonlinear(operator.function, why) if why else operator
        case Sum(parts):
            new = tuple(classified(part, domain) for part in parts)
            return operator if new == parts else Sum(new)
        case Scaled(coefficient, inner):
            own = classified(inner, domain)
            return operator if own == inner else Scaled(coefficient, own)
        case Composition(left, right):
            return _composed(operator, classified(left, domain), classified(right, domain), domain)
    return operator


def marked(statement: Any, domain: Domain) -> Any:
    """A statement with those of its functions marked that are not linear."""
    own = classified(statement.operator, domain)
    if own is statement.operator:
        return statement
    faces = getattr(statement, "faces", None)
    if faces is not None and not faces(domain):
        raise ValueError(
            f"{statement.name!r} is of a nonlinear function, which integrals and measurements "
            f"cannot be: state it as a condition on the boundary, or as one of a linear operator"
        )
    return dataclasses.replace(statement, operator=own)


def _composed(whole: Composition, left: Operator, right: Operator, domain: Domain) -> Operator:
    if isinstance(left, Nonlinear) and isinstance(right, Field):
        return dataclasses.replace(left, field=right.in_words)
    if is_linear(left) and is_linear(right):
        return whole
    if not is_linear(left):
        raise ValueError(
            f"{whole!r}: a nonlinear function of an unknown is written f @ Field('u'), and one of "
            f"derivatives with these inside, e.g. lambda d, x: d(x=1)**2"
        )
    terms = left.expand(domain.axes)
    if any(any(t.orders) or t.field for t in terms):
        raise ValueError(
            f"{whole!r} differentiates a nonlinear function: write the derivative out, e.g. "
            f"3 * d()**2 * d(x=1) for the derivative of d()**3"
        )
    if isinstance(left, Identity):
        return right
    raise ValueError(
        f"{whole!r}: numbers and functions of the points stand in front of a nonlinear function by "
        f"*, normals cannot; divide a condition by what multiplies the normal derivative, e.g. "
        f"NormalDerivative() + operator(lambda d, x: d()**4 / k(d()))"
    )


def is_linear(operator: Operator) -> bool:
    """Whether none of its functions was found to be nonlinear."""
    return not any(True for _ in _leaves(operator))


def _leaves(operator: Operator) -> list[Nonlinear]:
    match operator:
        case Nonlinear():
            return [operator]
        case Sum(parts):
            return [leaf for part in parts for leaf in _leaves(part)]
        case Scaled(_, inner):
            return _leaves(inner)
    return []


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
        self.known: dict[tuple[Nonlinear, bytes], Values] = {}

    def at(self, leaf: Nonlinear, points: Array) -> Values:
        """A leaf and its tangent at points."""
        key = leaf, np.ascontiguousarray(points).tobytes()
        if key not in self.known:
            if len(self.known) >= KEPT:
                del self.known[next(iter(self.known))]
            self.known[key] = self._evaluated(leaf, points)
        return self.known[key]

    def _evaluated(self, leaf: Nonlinear, points: Array) -> Values:
        axes = self.problem.domain.axes
        keys = leaf.keys(axes)
        found = derivatives_of(self.state, self.problem, leaf, keys, points)
        values, tangent = tangents(leaf, axes, keys, found, points)
        return Values(found, values, tangent)


def derivatives_of(
    state: Applied, problem: Problem, leaf: Nonlinear, keys: Sequence[Key], points: Array
) -> Array:
    """What a leaf asks of a state, (k, n)."""
    only, found = problem.unknowns[0], np.empty((len(keys), len(points)))
    owners = [field or leaf.field or only for field, _ in keys]
    at_once = getattr(state, "derivatives", None)
    for name in dict.fromkeys(owners):
        rows = [k for k, owner in enumerate(owners) if owner == name]
        alphas = [keys[k][1] for k in rows]
        if at_once is not None:
            found[rows] = at_once(alphas, points, name)
            continue
        for k, alpha in zip(rows, alphas, strict=True):
            found[k] = state.apply(derivative(problem, alpha, name), points)
    return found


def derivative(problem: Problem, alpha: Orders, name: str) -> Operator:
    """The operator that makes a derivative of an unknown."""
    orders = {axis: n for axis, n in zip(problem.domain.axes, alpha, strict=True) if n}
    return (D(**orders) if orders else Identity()) @ problem.unknown(name)


@dataclass(frozen=True, eq=False, repr=False)
class Slope:
    """dN/d(d_k) around a state, as a function of the points."""

    leaf: Nonlinear
    around: Around
    number: int

    @property
    def __name__(self) -> str:
        return f"a coefficient of the linearised {self.leaf.name}"

    def __call__(self, points: Array) -> Array:
        return self.around.at(self.leaf, points).tangent[self.number]


@dataclass(frozen=True, eq=False)
class Tangent(Operator):
    """The linear operator that a nonlinear one is near a state."""

    leaf: Nonlinear
    around: Around

    def __post_init__(self) -> None:
        axes = self.around.problem.domain.axes
        zero = (0,) * len(axes)
        terms = tuple(
            Term(
                alpha,
                functions=((Slope(self.leaf, self.around, number), zero),),
                field=field or self.leaf.field,
            )
            for number, (field, alpha) in enumerate(self.leaf.keys(axes))
        )
        object.__setattr__(self, "terms", terms)

    def __repr__(self) -> str:
        return f"{self.leaf!r}'"

    def expand(self, axes: Sequence[str]) -> tuple[Term, ...]:
        return self.terms  # type: ignore[attr-defined]


@dataclass(frozen=True, eq=False, repr=False)
class Remaining:
    """The right-hand side of a linearised statement, as a function of the points."""

    given: float | Function
    operator: Operator
    around: Around
    what: str

    @property
    def __name__(self) -> str:
        return self.what

    def __call__(self, points: Array) -> Array:
        given = function_values(self.given, points, self.what)
        return given - rest(self.operator, self.around, points)


def rest(operator: Operator, around: Around, points: Array, slopes: Around | None = None) -> Array:
    """What a tangent leaves of an operator at a state; the tangent is that at the state too, unless
    it is taken elsewhere."""
    match operator:
        case Nonlinear():
            found = around.at(operator, points)
            if slopes is not None:
                found = dataclasses.replace(found, tangent=slopes.at(operator, points).tangent)
            return found.rest
        case Sum(parts):
            each = [rest(p, around, points, slopes) for p in parts if not is_linear(p)]
            return np.asarray(sum(each, np.zeros(len(points))))
        case Scaled(coefficient, inner):
            return function_values(coefficient, points) * rest(inner, around, points, slopes)
    return np.zeros(len(points))


def _tangent(operator: Operator, around: Around) -> Operator:
    match operator:
        case Nonlinear():
            return Tangent(operator, around)
        case Sum(parts):
            return Sum(tuple(_tangent(part, around) for part in parts))
        case Scaled(coefficient, inner):
            return Scaled(coefficient, _tangent(inner, around))
    return operator


def applied_to(operator: Operator, state: Applied, points: Array, normals: Array | None) -> Array:
    """A nonlinear operator applied to a function that linear ones can be applied to."""
    match operator:
        case Nonlinear():
            problem = state.problem
            axes = problem.domain.axes
            keys = operator.keys(axes)
            given = derivatives_of(state, problem, operator, keys, points)
            return tangents(operator, axes, keys, given, points)[0]
        case Sum(parts):
            return np.asarray(sum(applied_to(p, state, points, normals) for p in parts))
        case Scaled(coefficient, inner) if not is_linear(inner):
            return function_values(coefficient, points) * applied_to(inner, state, points, normals)
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


def nonlinear_statements(problem: Problem) -> list[Statement]:
    """Those that make a problem nonlinear."""
    return [own for own in problem.statements if not is_linear(own.operator)]


def nonlinear_leaves(problem: Problem) -> list[Nonlinear]:
    """The functions that make a problem nonlinear."""
    return [leaf for own in nonlinear_statements(problem) for leaf in _leaves(own.operator)]


def check_linear(problem: Problem, door: str) -> None:
    """Refuse a nonlinear problem where only linear ones make sense."""
    for statement in nonlinear_statements(problem):
        leaf = _leaves(statement.operator)[0]
        raise ValueError(
            f"{door} takes linear problems, but {statement.name!r} is nonlinear, {leaf.why}: use "
            f"solve(), or state what is linear"
        )
