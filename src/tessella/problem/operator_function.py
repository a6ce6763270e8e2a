"""Operators handed in as functions of the derivatives and the points.

    ts.operator(lambda d, x: -d(x=2) - d(y=2) + jnp.exp(x[:, 0]) * d())

`d(x=2)` stands for the values of that derivative of the unknown at the points, `d()` for the
unknown itself, `d("p", x=1)` for one of several unknowns, and in conditions on a boundary `d(n=1)`
for the derivative along the outward normal. Which derivatives the function uses is recorded when it
is called once. Whether it is linear in them is tried with random values at random
points of the domain when a problem is stated. If it is, the coefficient of each derivative is what
the function returns when that derivative is 1 and all others are 0; if not, it becomes a
`Nonlinear` one (see `nonlinear`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tessella.geometry.domain import Domain
from tessella.geometry.functions import Orders, check_values, derivatives
from tessella.machine.arrays import Array
from tessella.problem.normal_form import NormalComponent, Term
from tessella.problem.operators import Field, Operator

Key = tuple[str | None, Orders]
"""A derivative of an unknown; None is the only one there is."""

NORMAL: Orders = ()
"""Stands for the orders of the derivative along the outward normal, d(n=1)."""

Formula = Callable[["Derivatives", Any], Any]
"""f(d, x) of the derivatives d and the points x, an array of NumPy or of JAX; values like x's."""

SLACK = 1e-9
"""Rounding that a linear function is allowed, relative to the sum of its terms' sizes."""

POINTS = 64
"""Points of the domain at which linearity is checked."""


@dataclass(frozen=True, repr=False)
class OperatorFunction(Operator):
    """A function f(d, x) of the derivatives d(...) as an `Operator`."""

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
        keys = self.keys(axes)
        return tuple(term for key in keys for term in self.terms(tuple(axes), keys, key))

    def keys(self, axes: Sequence[str]) -> tuple[Key, ...]:
        """The derivatives it uses, as it asks for them."""
        used = Recorder(tuple(axes), self.name)
        try:
            with np.errstate(all="ignore"):
                self.function(used, np.full((2, len(axes)), 0.5))
        except TypeError as error:
            raise TypeError(
                f"the operator function {self.name!r} fails, {error}: it must be a function of d "
                f"and an (n, {len(axes)}) array x of points, with np or jnp functions, such as "
                f"lambda d, x: d(x=2) + x[:, 0] * d()"
            ) from error
        if not used.keys:
            raise ValueError(
                f"the operator function {self.name!r} uses no derivative of the unknown: write "
                f"d() for the unknown itself, d(x=1) for a derivative"
            )
        return tuple(used.keys)

    def terms(self, axes: tuple[str, ...], keys: tuple[Key, ...], key: Key) -> tuple[Term, ...]:
        """What the operator does with one of the derivatives it uses."""
        return times(Coefficient(self, axes, keys, key), key, len(axes))


def times(coefficient: Any, key: Key, d: int) -> tuple[Term, ...]:
    """A function of the points times a derivative of an unknown, in d dimensions."""
    (field, alpha), zero = key, (0,) * d
    if alpha != NORMAL:
        return (Term(alpha, functions=((coefficient, zero),), field=field),)
    units = [tuple(int(i == k) for k in range(d)) for i in range(d)]
    return tuple(
        Term(unit, functions=((coefficient, zero), (NormalComponent(i), zero)), field=field)
        for i, unit in enumerate(units)
    )


def operator(function: Formula) -> OperatorFunction:
    """An operator from a function f(d, x); also as a decorator.

    d(x=2, y=1) are values of that derivative of the unknown at the points x, an (n, dimension)
    array; d() are those of the unknown, d("p") and d("p", x=1) those of one of several, and in
    conditions d(n=1) those of the derivative along the outward normal. The result joins the algebra
    like any operator. Write it with `jax.numpy` if its coefficients are differentiated, i.e. if
    another operator is applied to it with `@`, or if it is not linear in d:
    `-ts.Laplacian() + ts.operator(lambda d, x: d()**3)`. Which it is, a `Problem` finds out.

    >>> import tessella as ts
    >>> @ts.operator
    ... def drift(d, x):
    ...     return x[:, 1] * d(x=1) - x[:, 0] * d(y=1)
    >>> drift - 0.01 * ts.Laplacian()
    drift - 0.01 * Laplacian()
    """
    return OperatorFunction(function)


def from_function(operator: object) -> object:
    """A function of the derivatives and the points as an operator; anything else as it is."""
    plain = callable(operator) and not isinstance(operator, Operator | type)
    return OperatorFunction(operator) if plain else operator  # type: ignore[arg-type]


@dataclass(frozen=True)
class Coefficient:
    """The coefficient of one derivative in an operator function, as a function of the points."""

    operator: OperatorFunction
    axes: tuple[str, ...]
    keys: tuple[Key, ...]
    key: Key

    @property
    def __name__(self) -> str:
        return f"{spell(self.axes, self.key)} of operator function {self.operator.name}"

    def __call__(self, points: Array) -> Array:
        n = len(points)
        values = {key: np.full(n, float(key == self.key)) for key in self.keys}
        return self.operator.function(Given(self.axes, self.operator.name, values), points)


class Derivatives:
    """What an operator function gets as `d`."""

    def __init__(self, axes: tuple[str, ...], name: str) -> None:
        self.axes, self.name = axes, name

    def __call__(self, *unknown: str | Field, **orders: int) -> Array:
        for one in unknown:
            if not isinstance(one, str | Field) or one in self.axes or len(unknown) > 1:
                raise ValueError(
                    f"the operator function {self.name!r} calls d({', '.join(map(repr, unknown))})"
                    f": name the axes, d(x=2), or write d() for the unknown itself; of several "
                    f"unknowns d('p', x=2)"
                )
        field = next((u.in_words if isinstance(u, Field) else u for u in unknown), None)
        alpha = [0] * len(self.axes)
        if "n" in orders and "n" not in self.axes:
            if orders != {"n": 1}:
                raise ValueError(
                    f"the operator function {self.name!r} calls {_called(orders)}: along the "
                    f"normal there is d(n=1) only; write others by axes, d({self.axes[0]}=2)"
                )
            return self.look_up((field, NORMAL))
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
        return self.look_up((field, tuple(alpha)))

    def look_up(self, key: Key) -> Array:
        raise NotImplementedError


def _called(orders: dict[str, int]) -> str:
    return f"d({', '.join(f'{axis}={n}' for axis, n in orders.items())})"


class Recorder(Derivatives):
    """Notes which derivatives are asked for."""

    def __init__(self, axes: tuple[str, ...], name: str) -> None:
        super().__init__(axes, name)
        self.keys: dict[Key, None] = {}

    def look_up(self, key: Key) -> Array:
        self.keys[key] = None
        return np.zeros(2)


class Given(Derivatives):
    """Hands out given values."""

    def __init__(self, axes: tuple[str, ...], name: str, values: dict[Key, Array]) -> None:
        super().__init__(axes, name)
        self.values = values

    def look_up(self, key: Key) -> Array:
        if key not in self.values:
            raise ValueError(
                f"the operator function {self.name!r} asks for {spell(self.axes, key)} at some "
                f"points only: ask for it always, and multiply by zero where it is not wanted"
            )
        return self.values[key]


def check_functions(terms: Sequence[Term], domain: Domain) -> None:
    """Refuse operator functions among the terms that are not finite or, where another operator is
    applied to them, not differentiable at random points of the domain."""
    wanted: dict[Coefficient, set[Orders]] = {}
    for term in terms:
        for function, gamma in term.functions:
            if isinstance(function, Coefficient):
                wanted.setdefault(function, set()).add(gamma)
    if not wanted:
        return
    points = _points(domain)
    for function, gammas in wanted.items():
        derivatives(function, sorted(gammas), points)


def _points(domain: Domain) -> Array:
    return domain.scatter(POINTS, np.random.default_rng(0))


def nonlinearity(operator: OperatorFunction, domain: Domain) -> str:
    """In which way a function is not linear in the derivatives, found by random values of them at
    random points; nothing if it is. One that is not finite, or linear but for a constant, is
    refused."""
    points, draw = _points(domain), np.random.default_rng(0)
    one = next(f for t in operator.expand(domain.axes) for f, _ in t.functions)
    assert isinstance(one, Coefficient)
    n, keys, name = len(points), one.keys, operator.name

    def applied(values: Array, x: Array = points) -> Array:
        given = Given(one.axes, name, dict(zip(keys, values, strict=True)))
        with np.errstate(all="ignore"):
            found = np.asarray(operator.function(given, x))
        return check_values(found, x, f"the operator function {name!r}")

    def finite(values: Array) -> Array:
        try:
            return applied(values)
        except ValueError as error:
            raise FloatingPointError from error

    varied, few = np.tile(np.linspace(1.0, 2.0, n), (len(keys), 1)), slice(0, n // 2)
    whole, half = applied(varied), applied(varied[:, few], points[few])
    if np.any(np.abs(whole[few] - half) > SLACK * np.max(np.abs(whole))):
        raise ValueError(
            f"the operator function {name!r} depends on other points than its own: it must be a "
            f"formula for every point by itself, without means, sums or differences over points"
        )
    try:
        return _departure(finite, points, len(keys), draw, name)
    except FloatingPointError:
        return "it is not finite for some values of the derivatives"


def _departure(
    applied: Callable[[Array], Array],
    points: Array,
    many: int,
    draw: np.random.Generator,
    name: str,
) -> str:
    """How a function departs from additivity or homogeneity."""
    n = len(points)
    v, w = draw.standard_normal((2, many, n))
    factor = 1e3 * draw.standard_normal()
    constant = applied(np.zeros((many, n)))
    units = [applied(np.tile(row[:, None], n)) - constant for row in np.eye(many)]
    size = sum(np.abs(c) for c in units) + np.abs(constant) + 1e-300

    def apart(left: Array, right: Array, scale: Array, law: str) -> str:
        bad = np.flatnonzero(np.abs(left - right) > SLACK * scale)
        if not bad.size:
            return ""
        i = bad[0]
        place = ", ".join(f"{c:.6g}" for c in points[i])
        return f"{law} at the point ({place}), {left[i]:.6g} against {right[i]:.6g}"

    f_v, f_w = applied(v) - constant, applied(w) - constant
    whole = sum(np.abs(c) * (np.abs(a) + np.abs(b)) for c, a, b in zip(units, v, w, strict=True))
    scale = whole + np.abs(f_v) + np.abs(f_w) + np.abs(constant)
    scaled = applied(factor * v) - constant
    split = np.asarray(sum(c * a for c, a in zip(units, v, strict=True)))
    departure = (
        apart(applied(v + w) - constant, f_v + f_w, scale, "f(v + w) differs from f(v) + f(w)")
        or apart(scaled, factor * f_v, abs(factor) * scale, "f(c v) differs from c f(v)")
        or apart(f_v, split, scale, "f(v) differs from the sum of its parts")
    )
    bad = np.flatnonzero(np.abs(constant) > SLACK * size)
    if not departure and bad.size:
        place = ", ".join(f"{c:.6g}" for c in points[bad[0]])
        raise ValueError(
            f"the operator function {name!r} has a term without the unknown, "
            f"{constant[bad[0]]:.6g} at the point ({place}): move it to the right-hand side"
        )
    return departure


def spell(axes: tuple[str, ...], key: Key) -> str:
    """A derivative as a function asks for it."""
    field, alpha = key
    inside = [repr(field)] if field is not None else []
    if alpha == NORMAL:
        inside.append("n=1")
    else:
        inside += [f"{axis}={n}" for axis, n in zip(axes, alpha, strict=True) if n]
    return f"d({', '.join(inside)})"
