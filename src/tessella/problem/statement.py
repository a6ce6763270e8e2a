"""What a problem says in one line: an operator applied to the unknown has a value, somewhere."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from jax.core import Tracer
from numpy.typing import NDArray

from tessella.geometry.domain import Domain
from tessella.geometry.functions import Function, check_values, function_values
from tessella.machine.arrays import Array
from tessella.problem.operators import Operator

if TYPE_CHECKING:
    from tessella.problem.problem import Problem


class Applied(Protocol):
    """A function on a problem's domain that operators can be applied to: any solution."""

    @property
    def problem(self) -> Problem: ...

    def apply(self, operator: Operator, points: Array, normals: Array | None = None) -> Array: ...


class Statement:
    """`operator` applied to the unknown equals `value` in the mean square, wherever it holds.

    Equations hold inside and conditions on the boundary, at points, or for the whole; all are rows
    of one least-squares problem, in which `weight` is the factor in front of the mean square. A
    weight of None is balanced when the rows are made.
    """

    operator: Operator
    name: str
    weight: float | None
    word = "value"
    """What messages call the given data."""

    @property
    def given(self) -> float | Function:
        """The right side: a number or a function of the points."""
        raise NotImplementedError

    def holds(self, domain: Domain, points: Array) -> NDArray[np.bool_]:
        """At which of the points that it might concern it holds."""
        raise NotImplementedError

    def values(self, points: Array, normals: Array | None = None) -> Array:
        """The right side at points, checked; a linearised condition's may need the normals."""
        given: Any = self.given
        what = f"{self.name} {self.word}"
        if normals is not None and getattr(given, "takes_normals", False):
            found = check_values(given(points, normals), points, what)
        else:
            found = function_values(given, points, what)
        largest = float(np.max(np.abs(found), initial=0.0))
        if largest > LARGEST:
            raise TooLargeError(
                f"{self.name} {self.word} is as large as {largest:.1e}, whose square is no number: "
                f"choose units in which it is below {LARGEST:.0e}"
            )
        return found

    def defect(self, u: Applied, points: Array, normals: Array | None = None) -> Array:
        """What a function misses at points: left side minus right side."""
        return u.apply(self.operator, points, normals) - self.values(points, normals)


class TooLargeError(ValueError):
    """Data whose squares are no numbers."""


LARGEST = 1e100
"""Of data and coefficients, and one over the smallest coefficient: squares must be numbers."""

WIDEST = 1e30
"""Of domains, and one over the narrowest: their powers must be numbers."""


def check_units(domain: Domain, statements: Sequence[Statement]) -> None:
    """Refuse units in which double precision cannot compute."""
    for axis, (low, high) in zip(domain.axes, domain.bounds, strict=True):
        if not 1 / WIDEST <= high - low <= WIDEST or max(abs(low), abs(high)) > WIDEST:
            raise ValueError(
                f"the axis {axis!r} reaches from {low:.3g} to {high:.3g}, too wide or too narrow "
                f"for double precision: choose units in which its length is between "
                f"{1 / WIDEST:.0e} and {WIDEST:.0e}"
            )
    for statement in statements:
        for term in statement.operator.expand(domain.axes):
            if term.factor and not 1 / LARGEST <= abs(term.factor) <= LARGEST:
                raise ValueError(
                    f"{statement.name!r} has a coefficient of {term.factor:.1e}, too large or too "
                    f"small for double precision: divide the equation by it, or choose other units"
                )


def check_operator(operator: object, what: str) -> None:
    if not isinstance(operator, Operator):
        raise TypeError(
            f"{what} operator must be built from D, Laplacian, Identity, ..., or be a function "
            f"f(d, x) of the derivatives and the points, got {operator!r}"
        )


def check_weight(weight: object, name: str) -> None:
    if weight is None:
        return
    if not (isinstance(weight, Real) and 0 < float(weight) < np.inf):
        raise ValueError(
            f"{name} weight must be a positive number, got {weight!r}; leave it out to have it "
            f"balanced, or drop the condition"
        )
    if not 1 / LARGEST <= float(weight) <= LARGEST:
        raise ValueError(
            f"{name} weight must lie between {1 / LARGEST:.0e} and {LARGEST:.0e}, got {weight!r}"
        )


def check_data(value: object, what: str) -> None:
    if isinstance(value, type) or not (isinstance(value, Real | Tracer) or callable(value)):
        raise TypeError(f"{what} must be a number or a function of the points, got {value!r}")


def distinctly_named(parts: Sequence[Any]) -> tuple[Any, ...]:
    """Number equations and conditions that share a name, so that reports can tell them apart."""
    names = [part.name for part in parts]
    distinct = []
    for i, part in enumerate(parts):
        if names.count(part.name) > 1:
            number = names[: i + 1].count(part.name)
            part = dataclasses.replace(part, name=f"{part.name} {number}")
        distinct.append(part)
    return tuple(distinct)
