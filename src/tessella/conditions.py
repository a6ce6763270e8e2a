"""Conditions beyond values and slopes on faces: measurements, integrals, absorbing walls.

Each is a `Condition` with its own idea of where it holds. A condition that lies on no face returns
none from `faces`, and is placed by whoever enforces it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from tessella.domain import Array, Box
from tessella.geometry import Domain, Surface
from tessella.operators import D, Function, Identity, NormalComponent, NormalDerivative, Operator
from tessella.problem import Condition, On, of_unknown


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
        if not isinstance(domain, Box):
            raise ValueError(
                f"{self.name} is taken over a Box, but the domain is {domain!r}: to fix a constant "
                f"use Measured at one point"
            )
        return ()


@dataclass(frozen=True)
class AbsorbingCondition(Condition):
    """A condition on walls that needs time."""

    def faces(self, domain: Domain) -> tuple[str, ...]:
        if "t" not in domain.axes:
            raise ValueError(
                f"{self.name} lets waves out as time goes by, but {domain!r} has no axis 't': add "
                f"one, e.g. t=(0, 1), or use Robin where nothing depends on time"
            )
        for name in () if self.on is None or callable(self.on) else self.on:
            if name in ("tmin", "tmax"):
                raise ValueError(
                    f"{self.name} lies on {name!r}, where time begins or ends: name walls, e.g. "
                    f"on='{domain.axes[0]}min', or leave `on` out"
                )
        return super().faces(domain)


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
    """
    x, u = np.asarray(points, dtype=np.float64), np.asarray(values, dtype=np.float64)
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
    return PointCondition(operator or Identity(), Readings(x, u), None, weight, name)


def Integral(
    value: float = 0.0,
    of: Operator | None = None,
    weight: float | None = None,
    name: str = "integral",
) -> Condition:
    """The integral of `of` applied to u, by default of u itself, over the whole domain is `value`.

    Fixes what equation and other conditions leave open, such as the constant of a problem with
    Neumann conditions only. `of=w * Identity()` is a weighted integral. It is enforced through
    partial sums over neighbouring subdomains, so it costs little and keeps the system sparse.
    """
    if not isinstance(value, Real):
        raise TypeError(f"{name} value must be a number, got {value!r}")
    return IntegralCondition(of or Identity(), float(value), None, weight, name)


def MeanZero(
    weight: float | None = None, name: str = "mean zero", of: Operator | None = None
) -> Condition:
    """The mean of u over the domain is zero: what a pure Neumann or periodic Poisson problem lacks.

    Such a problem has a solution only if its data are compatible (for -Laplace u = f with
    du/dn = g, the integrals of f and g add up to zero); if they are not, the least-squares residual
    of the equation shows it. `of=Field("p")` says of which unknown, where there are several.
    """
    operator, name = of_unknown(Identity(), of, name)
    return Integral(0.0, operator, weight, name)


def Absorbing(
    speed: float | Function = 1.0,
    on: On = None,
    weight: float | None = None,
    name: str = "absorbing",
    of: Operator | None = None,
) -> Condition:
    """u_t + speed du/dn = 0, so that waves of that speed leave through the wall.

    The first-order condition: exact in one dimension, and for waves that meet the wall head-on;
    those at an angle theta are reflected by (1 - cos theta) / (1 + cos theta). `of` says of which
    unknown, where there are several.
    """
    if isinstance(speed, Real) and not 0 < float(speed) < np.inf:
        raise ValueError(f"{name} speed must be positive, got {speed!r}")
    operator, name = of_unknown(D(t=1) + speed * NormalDerivative(), of, name)
    return AbsorbingCondition(operator, 0.0, on, weight, name)
