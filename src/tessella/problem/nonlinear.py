"""Operators that are not linear, and how they join the algebra.

A function N(d, x) that is not linear in the derivatives d is a leaf of an operator, `Nonlinear`.
Numbers and functions of the points stand in front of it by `*`, components of the normal by `@`.
Composed with a derivative from the left it is differentiated by the chain rule (`chain_rule`), so
that D(x=1) @ operator(lambda d, x: k(d()) * d(x=1)) is a flux in the form in which it is conserved.
What Newton's method makes of leaves is in `linearised`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from tessella.geometry.domain import Domain
from tessella.geometry.functions import Function, directional
from tessella.machine.arrays import Array
from tessella.problem.chain_rule import along, product
from tessella.problem.normal_form import NormalComponent, Term
from tessella.problem.operator_function import (
    Given,
    Key,
    OperatorFunction,
    nonlinearity,
    times,
)
from tessella.problem.operators import Composition, D, Field, Normal, Operator, Scaled, Sum
from tessella.problem.statement import Statement

if TYPE_CHECKING:
    from tessella.problem.problem import Problem


@dataclass(frozen=True, repr=False)
class Nonlinear(OperatorFunction):
    """A function f(d, x) that is not linear in d; `why` is what gave it away.

    `field` is the unknown that d() stands for, if the function was composed with one.
    """

    why: str = ""
    field: str | None = None

    def terms(self, axes: tuple[str, ...], keys: tuple[Key, ...], key: Key) -> tuple[Term, ...]:
        return times(Unknown(self), (key[0] or self.field, key[1]), len(axes))


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

    def look_up(self, key: Key) -> Array:
        return np.ones(())


def classified(operator: Operator, domain: Domain) -> Operator:
    """The operator with those of its functions marked that are not linear."""
    match operator:
        case OperatorFunction() if not isinstance(operator, Nonlinear):
            why = _why(operator, domain)
            return Nonlinear(operator.function, why) if why else operator
        case Sum(parts):
            new = tuple(classified(part, domain) for part in parts)
            return operator if new == parts else Sum(new)
        case Scaled(coefficient, inner):
            own = classified(inner, domain)
            return operator if own == inner else Scaled(coefficient, own)
        case Composition(left, right):
            both = classified(left, domain), classified(right, domain)
            return operator if all(map(is_linear, both)) else _composed(operator, *both, domain)
    return operator


FOLLOWED = "it depends on numbers that JAX follows"
"""Of such a function nothing is tried: it is applied as it is, linear or not."""


def _why(operator: OperatorFunction, domain: Domain) -> str:
    known: dict[tuple[str, ...], str] = operator.__dict__.setdefault("_why", {})
    if domain.axes not in known:
        try:
            known[domain.axes] = nonlinearity(operator, domain)
        except (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError):
            return FOLLOWED
    return known[domain.axes]


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
    if not is_linear(left):
        if isinstance(right, Field):
            return _of_field(left, right)
        raise ValueError(
            f"{whole!r}: a nonlinear function of an unknown is written f @ Field('u'), and one of "
            f"derivatives with these inside, e.g. lambda d, x: d(x=1)**2"
        )
    terms = left.expand(domain.axes)
    if any(t.field for t in terms):
        raise ValueError(f"{whole!r}: an unknown stands left of an operator: write f @ Field('u')")
    each = tuple(_acting(term, right, domain.axes) for term in terms)
    return each[0] if len(each) == 1 else Sum(each)


def _of_field(operator: Operator, field: Field) -> Operator:
    """A nonlinear operator of one unknown."""
    match operator:
        case Nonlinear():
            return dataclasses.replace(operator, field=field.in_words)
        case Sum(parts):
            return Sum(tuple(_of_field(part, field) for part in parts))
        case Scaled(coefficient, inner):
            return Scaled(coefficient, _of_field(inner, field))
        case Composition(left, right) if not is_linear(right):
            return Composition(left, _of_field(right, field))
    return Composition(operator, field)


def _acting(term: Term, operator: Operator, axes: tuple[str, ...]) -> Operator:
    """A term of a linear operator on one that is not linear."""
    found = operator
    for axis, order in enumerate(term.orders):
        for _ in range(order):
            found = _differentiated(found, axis, axes)
    for function, gamma in reversed(term.functions):
        if isinstance(function, NormalComponent):
            found = Composition(Normal(axes[function.axis]), found)
        else:
            found = Scaled(directional(function, gamma), found)
    return found if term.factor == 1 else Scaled(term.factor, found)


def _differentiated(operator: Operator, axis: int, axes: tuple[str, ...]) -> Operator:
    """The derivative along an axis; coefficients in front of a function go into it."""
    if is_linear(operator):
        return Composition(D(**{axes[axis]: 1}), operator)
    match operator:
        case Nonlinear():
            made = along(operator.function, operator.name, axes, operator.keys(axes), axis)
            return dataclasses.replace(operator, function=made)
        case Sum(parts):
            return Sum(tuple(_differentiated(part, axis, axes) for part in parts))
        case Scaled(number, inner) if not callable(number):
            return Scaled(number, _differentiated(inner, axis, axes))
        case Scaled(coefficient, inner):
            assert callable(coefficient)
            return _differentiated(_carried(coefficient, inner), axis, axes)
    raise ValueError("the boundary normal cannot be differentiated: keep it outermost")


def _carried(coefficient: Function, operator: Operator) -> Operator:
    """A function of the points times an operator, as a factor inside its nonlinear functions."""
    if is_linear(operator):
        return Scaled(coefficient, operator)
    match operator:
        case Nonlinear():
            return dataclasses.replace(operator, function=product(coefficient, operator.function))
        case Sum(parts):
            return Sum(tuple(_carried(coefficient, part) for part in parts))
        case Scaled(own, inner):
            return (
                Scaled(own, _carried(coefficient, inner))
                if not callable(own)
                else (_carried(coefficient, _carried(own, inner)))
            )
    raise ValueError("the boundary normal cannot be differentiated: keep it outermost")


def is_linear(operator: Operator) -> bool:
    """Whether none of its functions was found to be nonlinear."""
    return not leaves(operator)


def leaves(operator: Operator) -> list[Nonlinear]:
    """The functions in an operator that are not linear."""
    match operator:
        case Nonlinear():
            return [operator]
        case Sum(parts):
            return [leaf for part in parts for leaf in leaves(part)]
        case Scaled(_, inner) | Composition(_, inner):
            return leaves(inner)
    return []


def nonlinear_statements(problem: Problem) -> list[Statement]:
    """Those that make a problem nonlinear."""
    return [own for own in problem.statements if not is_linear(own.operator)]


def nonlinear_leaves(problem: Problem) -> list[Nonlinear]:
    """The functions that make a problem nonlinear."""
    return [leaf for own in nonlinear_statements(problem) for leaf in leaves(own.operator)]


def check_linear(problem: Problem, door: str) -> None:
    """Refuse a nonlinear problem where only linear ones make sense."""
    for statement in nonlinear_statements(problem):
        leaf = leaves(statement.operator)[0]
        raise ValueError(
            f"{door} takes linear problems, but {statement.name!r} is nonlinear, {leaf.why}: use "
            f"solve(), or state what is linear"
        )
