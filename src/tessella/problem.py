"""What is to be solved: an equation in a domain, conditions on its faces, perhaps an ansatz."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from tessella.domain import Array, Box
from tessella.operators import D as Derivative
from tessella.operators import (
    Function,
    Identity,
    NormalDerivative,
    Operator,
    Term,
    apply_to_function,
    function_values,
    symbol,
)


@dataclass(frozen=True)
class Equation:
    """`operator` applied to the unknown equals `rhs` in the interior.

    `rhs` is a number or a function from an (n, d) array of points to (n,) values.
    """

    operator: Operator
    rhs: float | Function = 0.0
    name: str = "equation"

    def __post_init__(self) -> None:
        _check_operator(self.operator, "Equation")
        _check_data(self.rhs, "Equation rhs")


@dataclass(frozen=True)
class Condition:
    """`operator` applied to the unknown equals `value` on some faces, in the least-squares sense.

    `on` names the faces (default: all faces of the spatial axes). `weight` is the paper's lambda,
    the factor in front of this condition's mean square in the loss. Left out, it is balanced when
    the system is assembled, so that a row of the condition weighs as much as a row of the equation.
    """

    operator: Operator
    value: float | Function = 0.0
    on: tuple[str, ...] | str | None = None
    weight: float | None = None
    name: str = "condition"

    def __post_init__(self) -> None:
        _check_operator(self.operator, self.name)
        _check_data(self.value, f"{self.name} value")
        if isinstance(self.on, str):
            object.__setattr__(self, "on", (self.on,))
        elif self.on is not None:
            object.__setattr__(self, "on", tuple(self.on))
        if self.on == ():
            raise ValueError(f"{self.name} on=() selects no face: name one, or leave `on` out")
        weight = self.weight
        if weight is not None and not (isinstance(weight, Real) and 0 < weight < np.inf):
            raise ValueError(
                f"{self.name} weight must be a positive number, got {self.weight!r}; leave it out "
                f"to have it balanced, or drop the condition"
            )

    def faces(self, domain: Box) -> tuple[str, ...]:
        names = domain.walls if self.on is None else self.on
        if not names:
            raise ValueError(
                f"{self.name} lies on all faces of the spatial axes, but {domain!r} has none: "
                f"name the faces, e.g. on='{domain.axes[0]}min'"
            )
        return tuple(domain.face(name).name for name in names)


def Dirichlet(
    value: float | Function = 0.0,
    on: Sequence[str] | str | None = None,
    weight: float | None = None,
    name: str = "dirichlet",
) -> Condition:
    """u = value."""
    return Condition(Identity(), value, on, weight, name)  # type: ignore[arg-type]


def Neumann(
    value: float | Function = 0.0,
    on: Sequence[str] | str | None = None,
    weight: float | None = None,
    name: str = "neumann",
) -> Condition:
    """du/dn = value, with the outward normal n."""
    return Condition(NormalDerivative(), value, on, weight, name)  # type: ignore[arg-type]


def Robin(
    alpha: float | Function,
    beta: float | Function,
    value: float | Function = 0.0,
    on: Sequence[str] | str | None = None,
    weight: float | None = None,
    name: str = "robin",
) -> Condition:
    """alpha u + beta du/dn = value, with the outward normal n."""
    operator = alpha * Identity() + beta * NormalDerivative()
    return Condition(operator, value, on, weight, name)  # type: ignore[arg-type]


def Initial(
    value: float | Function = 0.0,
    axis: str = "t",
    weight: float | None = None,
    name: str = "initial value",
) -> Condition:
    """u = value where the time axis begins."""
    return Condition(Identity(), value, (f"{axis}min",), weight, name)


def InitialVelocity(
    value: float | Function = 0.0,
    axis: str = "t",
    weight: float | None = None,
    name: str = "initial velocity",
) -> Condition:
    """du/dt = value where the time axis begins."""
    return Condition(Derivative(**{axis: 1}), value, (f"{axis}min",), weight, name)


@dataclass(frozen=True)
class Ansatz:
    """Hard constraints: u = offset + multiplier * v, with v the random features (Lagaris 1998).

    Where the multiplier vanishes u equals the offset exactly. Both are numbers or functions of the
    points; functions that the operators differentiate must be written with `jax.numpy`. The
    offset moves to the right-hand side by itself.
    """

    multiplier: float | Function = 1.0
    offset: float | Function = 0.0

    def __post_init__(self) -> None:
        for name in ("multiplier", "offset"):
            value = getattr(self, name)
            _check_data(value, f"Ansatz {name}")
            if isinstance(value, Real) and not np.isfinite(float(value)):
                raise ValueError(f"Ansatz {name} must be finite, got {value!r}")


@dataclass(frozen=True)
class Problem:
    """A linear boundary or initial value problem, checked when it is stated.

    `equation` may be a list when several equations hold for the same unknown. `exact` is optional
    and used for error reports only. `parameters` are numbers worth remembering in results.
    """

    domain: Box
    equation: Equation | Sequence[Equation]
    conditions: Sequence[Condition] = ()
    ansatz: Ansatz = field(default_factory=Ansatz)
    exact: Function | None = None
    name: str = "problem"
    parameters: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        equations, conditions = _as_tuple(self.equation), _as_tuple(self.conditions)
        if not equations:
            raise ValueError("Problem needs at least one Equation")
        _check_kind(self.domain, Box, "domain")
        for equation in equations:
            _check_kind(equation, Equation, "equation")
        for condition in conditions:
            _check_kind(condition, Condition, "conditions")
        named = _distinct_names((*equations, *conditions))
        object.__setattr__(self, "equation", named[: len(equations)])
        object.__setattr__(self, "conditions", named[len(equations) :])
        for equation in equations:
            equation.operator.expand(self.domain.axes)
        for condition in conditions:
            condition.operator.expand(self.domain.axes)
            condition.faces(self.domain)

    @property
    def equations(self) -> tuple[Equation, ...]:
        return self.equation  # type: ignore[return-value]

    def symbol(
        self, operator: Operator, points: Array, normals: Array | None = None
    ) -> dict[tuple[int, ...], Array]:
        """Coefficients of `operator @ multiplier` at the points: how the operator acts on v."""
        multiplier = self.ansatz.multiplier
        whole = operator @ multiplier if callable(multiplier) else float(multiplier) * operator
        return symbol(whole.expand(self.domain.axes), points, normals)

    def lift(self, operator: Operator, points: Array, normals: Array | None = None) -> Array:
        """The operator applied to the ansatz's offset at the points."""
        terms: tuple[Term, ...] = operator.expand(self.domain.axes)
        offset = self.ansatz.offset
        if not callable(offset):
            plain = tuple(t for t in terms if not any(t.orders))
            value = symbol(plain, points, normals) if offset else {}
            return float(offset) * value.get((0,) * self.domain.dimension, np.zeros(len(points)))
        return apply_to_function(terms, offset, points, normals)

    def exact_values(self, points: Array) -> Array:
        if self.exact is None:
            raise ValueError(f"{self.name!r} has no exact solution: pass exact=... to Problem")
        return function_values(self.exact, points, "the exact solution")


def _distinct_names(parts: Sequence[Any]) -> tuple[Any, ...]:
    """Number equations and conditions that share a name, so that reports can tell them apart."""
    names = [part.name for part in parts]
    distinct = []
    for i, part in enumerate(parts):
        if names.count(part.name) > 1:
            number = names[: i + 1].count(part.name)
            part = dataclasses.replace(part, name=f"{part.name} {number}")
        distinct.append(part)
    return tuple(distinct)


def _as_tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, Iterable) else (value,)


def _check_kind(value: object, kind: type, argument: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"Problem {argument} must be made of {kind.__name__}(...), got {value!r}")


def _check_operator(operator: object, what: str) -> None:
    if not isinstance(operator, Operator):
        raise TypeError(
            f"{what} operator must be built from D, Laplacian, Identity, ... so that it is linear, "
            f"got {operator!r}"
        )


def _check_data(value: object, what: str) -> None:
    if not (isinstance(value, Real) or callable(value)):
        raise TypeError(f"{what} must be a number or a function of the points, got {value!r}")
