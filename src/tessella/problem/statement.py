"""What a problem says in one line: an operator applied to the unknown has a value, somewhere."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from tessella.geometry.domain import Domain
from tessella.geometry.functions import Function, function_values
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

    def values(self, points: Array) -> Array:
        """The right side at points, checked."""
        return function_values(self.given, points, f"{self.name} {self.word}")

    def defect(self, u: Applied, points: Array, normals: Array | None = None) -> Array:
        """What a function misses at points: left side minus right side."""
        return u.apply(self.operator, points, normals) - self.values(points)


def check_operator(operator: object, what: str) -> None:
    if not isinstance(operator, Operator):
        hint = "; wrap a function f(d, x) of the derivatives in operator(f)"
        raise TypeError(
            f"{what} operator must be built from D, Laplacian, Identity, ... so that it is linear, "
            f"got {operator!r}{hint if callable(operator) else ''}"
        )


def check_weight(weight: object, name: str) -> None:
    if weight is not None and not (isinstance(weight, Real) and 0 < float(weight) < np.inf):
        raise ValueError(
            f"{name} weight must be a positive number, got {weight!r}; leave it out to have it "
            f"balanced, or drop the condition"
        )


def check_data(value: object, what: str) -> None:
    if not (isinstance(value, Real) or callable(value)):
        raise TypeError(f"{what} must be a number or a function of the points, got {value!r}")
