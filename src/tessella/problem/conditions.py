"""What else must hold: on parts of the boundary, at points, over the domain, or by construction.

A `Condition` lies on parts of the boundary. Some have their own idea of where they hold: they lie
on no part (`faces` is empty), and are placed by whoever enforces them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.geometry.domain import Domain, Surface, join, real_numbers
from tessella.geometry.functions import Function, function_name
from tessella.machine.arguments import check_kind, is_number
from tessella.machine.arrays import Array
from tessella.problem.normal_form import NormalComponent
from tessella.problem.operator_function import from_function
from tessella.problem.operators import D, Field, Identity, NormalDerivative, Operator
from tessella.problem.statement import Statement, check_data, check_operator, check_weight

On = tuple[str, ...] | Sequence[str] | str | Function | None
"""Where a condition lies: named parts of the boundary, a function that chooses, or all of it."""


@dataclass(frozen=True)
class Condition(Statement):
    """`operator` applied to the unknown equals `value` on some faces, in the least-squares sense;
    like that of an equation it may be a function of the derivatives and the points.

    `on` names the faces, or parts of a shape's boundary (default: all that bound space, not time),
    or is a function from (n, d) points of that whole boundary to (n,) booleans. `weight` is the
    paper's lambda, the factor in front of this condition's mean square in the loss. Left out, it is
    balanced when the system is assembled, so that a row of the condition weighs as much as a row of
    the equation.

    >>> import tessella as ts
    >>> outflow = ts.Condition(ts.D(x=1) + 2.0, value=1.0, on="xmax")
    >>> outflow.operator
    D(x=1) + 2
    >>> outflow.faces(ts.Box(x=(0, 1), y=(0, 1)))
    ('xmax',)
    """

    operator: Any
    value: float | Function = 0.0
    on: On = None
    weight: float | None = None
    name: str = "condition"

    def __post_init__(self) -> None:
        check_kind(self.name, str, "name of a condition", "a text")
        object.__setattr__(self, "operator", from_function(self.operator))
        check_operator(self.operator, self.name)
        check_data(self.value, f"{self.name} value")
        if isinstance(self.on, type):
            raise TypeError(f"{self.name} on must be a face or a function, got {self.on!r}")
        if isinstance(self.on, str):
            object.__setattr__(self, "on", (self.on,))
        elif self.on is not None and not callable(self.on):
            object.__setattr__(self, "on", _faces(self.on, self.name))
        if self.on == ():
            raise ValueError(f"{self.name} on=() selects no face: name one, or leave `on` out")
        check_weight(self.weight, self.name)

    @property
    def given(self) -> float | Function:
        return self.value

    def holds(self, domain: Domain, points: Array) -> NDArray[np.bool_]:
        return self.chosen(points)

    def faces(self, domain: Domain) -> tuple[str, ...]:
        """The parts of the boundary it lies on; of a function's, all that it chooses from."""
        names = domain.walls if self.on is None or callable(self.on) else self.on
        if not names:
            others = [axis for axis in domain.axes if axis not in domain.periodic]
            raise ValueError(
                f"{self.name} lies on all faces of the spatial axes, but {domain!r} has none: "
                + (f"name the faces, e.g. on='{others[0]}min'" if others else "drop it")
            )
        for name in names:
            if name[:-3] in domain.periodic:
                raise ValueError(
                    f"{self.name} lies on {name!r}, but the axis {name[:-3]!r} is periodic and has "
                    f"no faces: drop the condition there, or Periodic({name[:-3]!r})"
                )
        return tuple(domain.part(name) for name in names)

    def chosen(self, points: Array) -> NDArray[np.bool_]:
        """At which points of its parts it holds: all, unless `on` is a function."""
        if not callable(self.on):
            return np.ones(len(points), dtype=bool)
        found = np.asarray(self.on(points))
        if found.shape != (len(points),) or found.dtype != np.bool_:
            raise ValueError(
                f"{self.name} on={function_name(self.on)} returned {found.dtype} of shape "
                f"{found.shape} for {len(points)} points: it must return one boolean per point"
            )
        return found

    def places(self, domain: Domain, sample: Callable[[str], Surface]) -> Surface:
        """Its points and the normals there, out of those that `sample` gives for every part."""
        points, normals = join((sample(name) for name in self.faces(domain)), domain.dimension)
        if not callable(self.on) and len(points):
            return points, normals
        chosen = self.chosen(points)
        if not chosen.any():
            where = self.on if isinstance(self.on, tuple) else function_name(self.on)
            raise ValueError(
                f"{self.name} on={where} selects none of {len(points)} points on the boundary of "
                f"{domain!r}: it must select some, or be dropped"
            )
        return points[chosen], normals[chosen]


def _faces(on: object, name: str) -> tuple[str, ...]:
    found = tuple(on) if isinstance(on, Iterable) else (on,)
    for face in found:
        check_kind(face, str, f"{name} on", "a face, a list of them or a function of the points")
    return found


def Dirichlet(
    value: float | Function = 0.0,
    on: On = None,
    weight: float | None = None,
    name: str = "dirichlet",
    of: Operator | None = None,
) -> Condition:
    """u = value. `of` says of which unknown, where there are several: `of=Field("p")`.

    >>> import tessella as ts
    >>> ts.Dirichlet(0.0).faces(ts.Box(x=(0, 1), t=(0, 1)))
    ('xmin', 'xmax')
    >>> ts.Dirichlet(lambda p: p[:, 1], on="xmin", of=ts.Field("p")).name
    'dirichlet of p'
    """
    operator, name = of_unknown(Identity(), of, name)
    return Condition(operator, value, on, weight, name)


def Neumann(
    value: float | Function = 0.0,
    on: On = None,
    weight: float | None = None,
    name: str = "neumann",
    of: Operator | None = None,
) -> Condition:
    """du/dn = value, with the outward normal n; `of` as for Dirichlet.

    >>> import tessella as ts
    >>> insulated = ts.Neumann(0.0, on=("ymin", "ymax"))
    >>> insulated.operator, insulated.on
    (NormalDerivative(), ('ymin', 'ymax'))
    """
    operator, name = of_unknown(NormalDerivative(), of, name)
    return Condition(operator, value, on, weight, name)


def Robin(
    alpha: float | Function,
    beta: float | Function,
    value: float | Function = 0.0,
    on: On = None,
    weight: float | None = None,
    name: str = "robin",
    of: Operator | None = None,
) -> Condition:
    """alpha u + beta du/dn = value, with the outward normal n; `of` as for Dirichlet.

    >>> import tessella as ts
    >>> ts.Robin(1.0, 2.0, value=3.0, on="xmax").operator
    1 + 2 * NormalDerivative()
    """
    check_data(alpha, f"{name} alpha")
    check_data(beta, f"{name} beta")
    operator, name = of_unknown(alpha * Identity() + beta * NormalDerivative(), of, name)
    return Condition(operator, value, on, weight, name)


def Initial(
    value: float | Function = 0.0,
    axis: str = "t",
    weight: float | None = None,
    name: str = "initial value",
    of: Operator | None = None,
) -> Condition:
    """u = value where the time axis begins; `of` as for Dirichlet.

    >>> import tessella as ts
    >>> ts.Initial(1.0).on, ts.Initial(1.0, axis="s").on
    (('tmin',), ('smin',))
    """
    operator, name = of_unknown(Identity(), of, name)
    return Condition(operator, value, (f"{axis}min",), weight, name)


def InitialVelocity(
    value: float | Function = 0.0,
    axis: str = "t",
    weight: float | None = None,
    name: str = "initial velocity",
    of: Operator | None = None,
) -> Condition:
    """du/dt = value where the time axis begins; `of` as for Dirichlet.

    >>> import tessella as ts
    >>> at_rest = ts.InitialVelocity(0.0)
    >>> at_rest.operator, at_rest.on
    (D(t=1), ('tmin',))
    """
    operator, name = of_unknown(D(**{axis: 1}), of, name)
    return Condition(operator, value, (f"{axis}min",), weight, name)


def of_unknown(operator: Operator, of: Operator | None, name: str) -> tuple[Operator, str]:
    """The operator of one unknown, and the condition's name with the unknown's."""
    if of is None:
        return operator, name
    if not isinstance(of, Operator):
        raise TypeError(f"{name} of={of!r}: name the unknown by its Field, e.g. of=Field('u')")
    return operator @ of, f"{name} of {of.in_words}" if isinstance(of, Field) else name


@dataclass(frozen=True, init=False)
class Periodic(Condition):
    """An axis that closes on itself: `Periodic("x")` among the conditions of a Problem.

    It has no rows and no residual. The subdomains wrap around the axis: overlapping ones make the
    solution and its derivatives the same at both ends by construction, and side by side the seam is
    an interior face like any other. Along such an axis there must be at least two of them.
    Coefficients, right-hand sides and ansatz must be periodic too.

    >>> import tessella as ts
    >>> ring = ts.Problem(
    ...     ts.Box(x=(0, 1)), ts.Equation(1 - ts.D(x=2), 1.0), [ts.Periodic("x")]
    ... )
    >>> ring.domain.periodic, ring.conditions
    (('x',), ())
    """

    axis: str = ""

    def __init__(self, axis: str) -> None:
        super().__init__(Identity(), name=f"periodic in {axis}")
        object.__setattr__(self, "axis", axis)


@dataclass(frozen=True, eq=False)
class Readings:
    """A function that is known at its own points only."""

    points: Array
    values: Array

    def __call__(self, points: Array) -> Array:
        if not np.array_equal(points, self.points):
            raise ValueError("measured values are known at their own points only")
        return self.values


@dataclass(frozen=True)
class PointCondition(Condition):
    """A condition at points of its own, anywhere in the domain; its value is a `Readings`."""

    @property
    def points(self) -> Array:
        return self.value.points  # type: ignore[union-attr]

    def faces(self, domain: Domain) -> tuple[str, ...]:
        """None; but the points must lie in the domain."""
        x = self.points
        if x.shape[1] != domain.dimension:
            raise ValueError(
                f"{self.name} has points of shape {x.shape}, but the domain has the axes "
                f"{', '.join(domain.axes)}: give one column for each"
            )
        outside = ~domain.contains(x)
        if outside.any():
            place = ", ".join(f"{c:.6g}" for c in x[np.argmax(outside)])
            raise ValueError(
                f"{self.name} has {int(outside.sum())} of {len(x)} points outside {domain!r}, the "
                f"first at ({place}): leave them out, or widen the domain"
            )
        for term in self.operator.expand(domain.axes):
            if any(isinstance(function, NormalComponent) for function, _ in term.functions):
                raise ValueError(
                    f"{self.name} measures a normal derivative, but its points have no normal: "
                    f"write the derivative by axes, e.g. D({domain.axes[0]}=1)"
                )
        return ()

    def places(self, domain: Domain, sample: Callable[[str], Surface]) -> Surface:
        """Its own points, wherever the boundary is; the normals there mean nothing."""
        return self.points, np.zeros_like(self.points)


@dataclass(frozen=True)
class IntegralCondition(Condition):
    """The integral of the operator applied to the unknown over the domain equals a number."""

    @property
    def number(self) -> float:
        return float(self.value)  # type: ignore[arg-type]

    def faces(self, domain: Domain) -> tuple[str, ...]:
        """None: it holds for the domain as a whole."""
        return ()


def Measured(
    points: ArrayLike,
    values: ArrayLike,
    operator: Operator | None = None,
    weight: float | None = None,
    name: str = "data",
) -> Condition:
    """operator(u) = values at points anywhere in the domain; u itself if no operator is given.

    `points` is (n, d) with a column per axis, or (n,) in one dimension. Measurements may replace a
    condition that is missing, or say more than is needed: then all are met in the least-squares
    sense. Left out, `weight` makes the measurements together count as much as the equation; choose
    a smaller one when they are noisy.

    >>> import tessella as ts
    >>> thermometers = ts.Measured([0.25, 0.75], [1.0, 3.0])
    >>> thermometers.points.shape, thermometers.name
    ((2, 1), 'data')
    """
    x, u = (real_numbers(own, f"{name} {w}") for own, w in ((points, "points"), (values, "values")))
    if u.ndim != 1 or not len(u):
        raise ValueError(
            f"{name} needs a list of measured values, one for each point, got shape {u.shape}"
        )
    if x.ndim == 1 and len(x) == len(u):
        x = x.reshape(-1, 1)
    if x.ndim != 2 or len(x) != len(u):
        raise ValueError(
            f"{name} has {len(u)} values for points of shape {x.shape}: give points of shape "
            f"({len(u)}, d) with a column per axis"
        )
    for what, array in (("points", x), ("values", u)):
        if not np.all(np.isfinite(array)):
            raise ValueError(f"{name} {what} contain NaN or infinity: leave those measurements out")
    operator = Identity() if operator is None else operator
    return PointCondition(operator, Readings(x, u), None, weight, name)


def Integral(
    value: float = 0.0,
    of: Operator | None = None,
    weight: float | None = None,
    name: str = "integral",
) -> Condition:
    """The integral of `of` applied to u, by default of u itself, over the whole domain is `value`.

    Fixes what equation and other conditions leave open, such as the constant of a problem with
    Neumann conditions only. `of=w * Identity()` is a weighted integral. Overlapping
    subdomains add it up through partial sums of neighbours, cells at their last join, so that it
    costs little.

    >>> import tessella as ts
    >>> mass = ts.Integral(2.0)
    >>> line = ts.Box(x=(0, 1))
    >>> neumann = ts.Problem(line, ts.Equation(-ts.D(x=2), 0.0), [ts.Neumann(0.0), mass])
    >>> round(float(ts.solve(neumann, subdomains=2, features=8)(0.3)[0]), 6)
    2.0
    """
    if not is_number(value):
        raise TypeError(f"{name} value must be a number, got {value!r}")
    return IntegralCondition(of or Identity(), float(value), None, weight, name)


def MeanZero(
    weight: float | None = None, name: str = "mean zero", of: Operator | None = None
) -> Condition:
    """The mean of u over the domain is zero: what a pure Neumann or periodic Poisson problem lacks.

    Such a problem has a solution only if its data are compatible (for -Laplace u = f with
    du/dn = g, the integrals of f and g add up to zero); if they are not, the least-squares residual
    of the equation shows it. `of=Field("p")` says of which unknown, where there are several.

    >>> import tessella as ts
    >>> pressure = ts.MeanZero(of=ts.Field("p"))
    >>> pressure.name, pressure.value
    ('mean zero of p', 0.0)
    """
    operator, name = of_unknown(Identity(), of, name)
    return Integral(0.0, operator, weight, name)
