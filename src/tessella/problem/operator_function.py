"""Operators handed in as functions of the derivatives and the points.

    ts.operator(lambda d, x: -d(x=2) - d(y=2) + jnp.exp(x[:, 0]) * d())

`d(x=2)` stands for the values of that derivative of the unknown at the points, `d()` for the
unknown itself. Which derivatives the function uses is recorded when it is called once; the
coefficient of each is what the function returns when that derivative is 1 and all others are 0.
That is right for linear functions of the derivatives only, so linearity is checked with random
values at random points of the domain when a problem is stated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tessella.geometry.domain import Domain
from tessella.geometry.functions import Orders, check_values, derivatives
from tessella.machine.arrays import Array
from tessella.problem.operators import Operator, Term

Formula = Callable[["_Derivatives", Any], Any]
"""f(d, x) of the derivatives d and the points x, an array of NumPy or of JAX; values like x's."""

SLACK = 1e-9
"""Rounding that a linear function is allowed, relative to the sum of its terms' sizes."""

POINTS = 64
"""Points of the domain at which linearity is checked."""


@dataclass(frozen=True, repr=False)
class OperatorFunction(Operator):
    """A function f(d, x) that is linear in the derivatives d(...), as an `Operator`."""

    function: Formula

    def __post_init__(self) -> None:
        if not callable(self.function) or isinstance(self.function, Operator):
            raise TypeError(
                f"operator() takes a function of derivatives and points, e.g. "
                f"operator(lambda d, x: d(x=2) + x[:, 0] * d()), got {self.function!r}"
            )

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    def __repr__(self) -> str:
        return "f(d, x)" if self.name == "<lambda>" else self.name

    def expand(self, axes: Sequence[str]) -> tuple[Term, ...]:
        used = _Recorder(tuple(axes), self.name)
        try:
            with np.errstate(all="ignore"):
                self.function(used, np.full((2, len(axes)), 0.5))
        except TypeError as error:
            raise TypeError(
                f"the operator function {self.name!r} fails, {error}: it must be a function of d "
                f"and an (n, {len(axes)}) array x of points, with np or jnp functions, such as "
                f"lambda d, x: d(x=2) + x[:, 0] * d()"
            ) from error
        if not used.orders:
            raise ValueError(
                f"the operator function {self.name!r} uses no derivative of the unknown: write "
                f"d() for the unknown itself, d(x=1) for a derivative"
            )
        zero = (0,) * len(axes)
        alphas = tuple(used.orders)
        return tuple(
            Term(alpha, functions=((Coefficient(self, tuple(axes), alphas, alpha), zero),))
            for alpha in alphas
        )


def operator(function: Formula) -> OperatorFunction:
    """A linear operator from a function f(d, x); also as a decorator.

    d(x=2, y=1) are values of that derivative of the unknown at the points x, an (n, dimension)
    array; d() are those of the unknown. The result joins the algebra like any operator. Write it
    with `jax.numpy` if its coefficients are differentiated, i.e. if another operator is applied to
    it with `@`. A function that is not linear in d is refused when a `Problem` is stated.

    >>> import tessella as ts
    >>> @ts.operator
    ... def drift(d, x):
    ...     return x[:, 1] * d(x=1) - x[:, 0] * d(y=1)
    >>> drift - 0.01 * ts.Laplacian()
    drift - 0.01 * Laplacian()
    """
    return OperatorFunction(function)


@dataclass(frozen=True)
class Coefficient:
    """The coefficient of one derivative in an operator function, as a function of the points."""

    operator: OperatorFunction
    axes: tuple[str, ...]
    alphas: tuple[Orders, ...]
    alpha: Orders

    @property
    def __name__(self) -> str:
        return f"{_spell(self.axes, self.alpha)} of operator function {self.operator.name}"

    def __call__(self, points: Array) -> Array:
        n = len(points)
        values = {a: np.full(n, float(a == self.alpha)) for a in self.alphas}
        return self.operator.function(_Given(self.axes, self.operator.name, values), points)


class _Derivatives:
    """What an operator function gets as `d`."""

    def __init__(self, axes: tuple[str, ...], name: str) -> None:
        self.axes, self.name = axes, name

    def __call__(self, *wrong: object, **orders: int) -> Array:
        if wrong:
            raise ValueError(
                f"the operator function {self.name!r} calls d({', '.join(map(repr, wrong))}): "
                f"name the axes, d(x=2), or write d() for the unknown itself"
            )
        alpha = [0] * len(self.axes)
        for axis, order in orders.items():
            if axis not in self.axes:
                raise ValueError(
                    f"the operator function {self.name!r} uses the axis {axis!r}, but the domain "
                    f"has {', '.join(self.axes)}"
                )
            if not isinstance(order, int) or order < 0:
                raise ValueError(
                    f"the operator function {self.name!r} calls d({axis}={order!r}): the order "
                    f"must be an integer >= 0"
                )
            alpha[self.axes.index(axis)] = order
        return self.look_up(tuple(alpha))

    def look_up(self, alpha: Orders) -> Array:
        raise NotImplementedError


class _Recorder(_Derivatives):
    """Notes which derivatives are asked for."""

    def __init__(self, axes: tuple[str, ...], name: str) -> None:
        super().__init__(axes, name)
        self.orders: dict[Orders, None] = {}

    def look_up(self, alpha: Orders) -> Array:
        self.orders[alpha] = None
        return np.zeros(2)


class _Given(_Derivatives):
    """Hands out given values."""

    def __init__(self, axes: tuple[str, ...], name: str, values: dict[Orders, Array]) -> None:
        super().__init__(axes, name)
        self.values = values

    def look_up(self, alpha: Orders) -> Array:
        if alpha not in self.values:
            raise ValueError(
                f"the operator function {self.name!r} asks for {_spell(self.axes, alpha)} at some "
                f"points only: ask for it always, and multiply by zero where it is not wanted"
            )
        return self.values[alpha]


def check_functions(terms: Sequence[Term], domain: Domain) -> None:
    """Refuse operator functions among the terms that are not linear, finite and, where another
    operator is applied to them, differentiable at random points of the domain."""
    wanted: dict[Coefficient, set[Orders]] = {}
    for term in terms:
        for function, gamma in term.functions:
            if isinstance(function, Coefficient):
                wanted.setdefault(function, set()).add(gamma)
    if not wanted:
        return
    draw = np.random.default_rng(0)
    points = domain.scatter(POINTS, draw)
    for one in {c.operator: c for c in wanted}.values():
        _check_linear(one, points, draw)
    for function, gammas in wanted.items():
        derivatives(function, sorted(gammas), points)


def _check_linear(one: Coefficient, points: Array, draw: np.random.Generator) -> None:
    """Additivity, homogeneity and no constant term, for random values of the derivatives."""
    n, alphas, name = len(points), one.alphas, one.operator.name

    def applied(values: Array) -> Array:
        given = _Given(one.axes, name, dict(zip(alphas, values, strict=True)))
        found = np.asarray(one.operator.function(given, points))
        return check_values(found, points, f"the operator function {name!r}")

    v, w = draw.standard_normal((2, len(alphas), n))
    factor = 1e3 * draw.standard_normal()
    units = [applied(np.tile(row[:, None], n)) for row in np.eye(len(alphas))]
    size = sum(np.abs(c) for c in units) + 1e-300

    def refuse(left: Array, right: Array, scale: Array, law: str) -> None:
        bad = np.flatnonzero(np.abs(left - right) > SLACK * scale)
        if bad.size:
            i = bad[0]
            place = ", ".join(f"{c:.6g}" for c in points[i])
            raise ValueError(
                f"the operator function {name!r} is not linear in the derivatives: {law} at the "
                f"point ({place}), {left[i]:.6g} against {right[i]:.6g}"
            )

    constant = applied(np.zeros((len(alphas), n)))
    bad = np.flatnonzero(np.abs(constant) > SLACK * size)
    if bad.size:
        place = ", ".join(f"{c:.6g}" for c in points[bad[0]])
        raise ValueError(
            f"the operator function {name!r} has a term without the unknown, "
            f"{constant[bad[0]]:.6g} at the point ({place}): move it to the right-hand side"
        )
    f_v, f_w = applied(v), applied(w)
    whole = sum(np.abs(c) * (np.abs(a) + np.abs(b)) for c, a, b in zip(units, v, w, strict=True))
    scale = whole + np.abs(f_v) + np.abs(f_w)
    refuse(applied(v + w), f_v + f_w, scale, "f(v + w) differs from f(v) + f(w)")
    refuse(applied(factor * v), factor * f_v, abs(factor) * scale, "f(c v) differs from c f(v)")
    split = sum(c * a for c, a in zip(units, v, strict=True))
    refuse(f_v, np.asarray(split), scale, "its value depends on other points than its own, f(v)")


def _spell(axes: tuple[str, ...], alpha: Orders) -> str:
    inside = ", ".join(f"{axis}={n}" for axis, n in zip(axes, alpha, strict=True) if n)
    return f"d({inside})"
