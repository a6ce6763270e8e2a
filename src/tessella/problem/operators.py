"""Linear differential operators as an algebra.

An operator is built from `D`, `Laplacian`, `Identity` and `NormalDerivative` with `+`, `-`,
multiplication by numbers and functions from the left, and composition `@`. Nothing else can be
written, so every operator is linear by construction.

`expand` brings an operator to its normal form, a sum of terms (see `normal_form`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from numbers import Real
from typing import TypeVar

from jax.core import Tracer

from tessella.geometry.functions import Function, Orders, Traced
from tessella.problem.normal_form import NormalComponent, Term, compose


class Operator:
    """Base of all operators; carries the algebra."""

    __array_ufunc__ = None
    """NumPy hands `array * operator` to us, instead of making an array of operators."""

    def expand(self, axes: Sequence[str]) -> tuple[Term, ...]:
        """Normal form on a domain with these axes; raises if an axis is unknown."""
        raise NotImplementedError

    def __repr__(self) -> str:
        from tessella.problem.printing import written

        return written(self)

    def __add__(self, other: Operator | float) -> Operator:
        return Sum((self, _as_operator(other, "+")))

    def __radd__(self, other: float) -> Operator:
        return Sum((_as_operator(other, "+"), self))

    def __sub__(self, other: Operator | float) -> Operator:
        return self + (-1.0) * _as_operator(other, "-")

    def __rsub__(self, other: float) -> Operator:
        return _as_operator(other, "-") + (-1.0) * self

    def __neg__(self) -> Operator:
        return Scaled(-1.0, self)

    def __rmul__(self, coefficient: float | Function) -> Operator:
        if isinstance(coefficient, Real | Tracer):
            return Scaled(_finite(coefficient), self)
        if callable(coefficient) and not isinstance(coefficient, type):
            return Scaled(coefficient, self)
        raise TypeError(
            f"an operator can be multiplied by a number or a function of the points, "
            f"got {coefficient!r}"
        )

    def __mul__(self, coefficient: float) -> Operator:
        if isinstance(coefficient, Real | Tracer):
            return Scaled(_finite(coefficient), self)
        raise TypeError(
            f"operator * {coefficient!r} is ambiguous: write `f * operator` for a coefficient in "
            f"front, or `operator @ f` to differentiate the product; operators are composed by @"
        )

    def __truediv__(self, number: float) -> Operator:
        if isinstance(number, Tracer):
            return self * (1.0 / number)
        if not isinstance(number, Real) or not number:
            raise TypeError(
                f"operator / {number!r}: operators are divided by numbers other than 0; for a "
                f"function f of the points write `g * operator` with g = 1 / f"
            )
        return self * (1.0 / float(number))

    def __pow__(self, power: object) -> Operator:
        raise TypeError(
            f"operator ** {power!r} would not be linear: a second derivative is D(x=2), an "
            f"operator applied twice is A @ A"
        )

    def __rtruediv__(self, other: object) -> Operator:
        raise TypeError(f"{other!r} / operator would not be linear: operators are multiplied by f")

    def __matmul__(self, other: Operator | Function) -> Operator:
        if not isinstance(other, Operator) and callable(other):
            other = Scaled(other, Identity())
        return Composition(self, _as_operator(other, "@"))

    def __rmatmul__(self, other: object) -> Operator:
        raise TypeError(
            f"{other!r} @ operator: expected an operator such as D(x=1) on the left; a function f "
            f"of the points is f * operator"
        )


def _as_operator(value: Operator | float, symbol: str) -> Operator:
    if isinstance(value, Operator):
        return value
    if isinstance(value, Real | Tracer):
        return Scaled(_finite(value), Identity())
    raise TypeError(
        f"operator {symbol} {value!r}: expected an operator or a number; a function f of the "
        f"points is f * Identity()"
    )


def _finite(coefficient: Real | Tracer) -> float | Function:
    if isinstance(coefficient, Tracer):
        return Traced(coefficient)
    value = float(coefficient)
    if not math.isfinite(value):
        raise ValueError(f"the coefficient of an operator must be finite, got {value!r}")
    return value


HIGHEST = 64
"""Of a derivative; double precision has no use for more."""


@dataclass(frozen=True)
class Identity(Operator):
    """The unknown itself; a number in a sum of operators stands for itself times the identity.

    >>> import tessella as ts
    >>> ts.Laplacian() + 25 * ts.Identity()
    Laplacian() + 25
    """

    def expand(self, axes: Sequence[str]) -> tuple[Term, ...]:
        return (Term((0,) * len(axes)),)


IN = " in "
"""Between an unknown and the region in which a part of it lives."""


@dataclass(frozen=True, repr=False)
class Field(Operator):
    """One of several unknowns, or its part in one region of a `Divided` domain.

    >>> import tessella as ts
    >>> u, p = ts.Field("u"), ts.Field("p")
    >>> -ts.Laplacian() @ u + ts.D(x=1) @ p
    -Laplacian() @ Field('u') + D(x=1) @ Field('p')
    >>> ts.Field("u", "core").in_words
    'u in core'
    """

    name: str
    region: str | None = None

    def __repr__(self) -> str:
        return f"Field({', '.join(repr(n) for n in (self.name, self.region) if n is not None)})"

    def __post_init__(self) -> None:
        for name in (self.name, self.region):
            if name is not None and not (isinstance(name, str) and name.isidentifier()):
                raise ValueError(f"a Field's name must be an identifier such as 'u', got {name!r}")

    @property
    def in_words(self) -> str:
        """What its values are called in a solution."""
        return self.name if self.region is None else f"{self.name}{IN}{self.region}"

    def expand(self, axes: Sequence[str]) -> tuple[Term, ...]:
        return (Term((0,) * len(axes), field=self.in_words),)


@dataclass(frozen=True, init=False, repr=False)
class D(Operator):
    """A partial derivative by named axes.

    >>> import tessella as ts
    >>> wave = ts.D(t=2) - 4.0 * ts.D(x=2)
    >>> wave
    D(t=2) - 4 * D(x=2)
    >>> wave @ ts.D(x=1, y=1)
    (D(t=2) - 4 * D(x=2)) @ D(x=1, y=1)
    """

    orders: tuple[tuple[str, int], ...]

    def __init__(self, *names: str, **orders: int) -> None:
        if names:
            raise ValueError(f"D takes its orders by axis, got {names[0]!r}: write D(x=1)")
        for axis, order in orders.items():
            if not isinstance(order, int) or isinstance(order, bool) or not 0 <= order <= HIGHEST:
                raise ValueError(
                    f"D({axis}={order!r}): the order must be an integer >= 0 and <= {HIGHEST}"
                )
        object.__setattr__(self, "orders", tuple(orders.items()))

    def __repr__(self) -> str:
        return f"D({', '.join(f'{axis}={order}' for axis, order in self.orders)})"

    def expand(self, axes: Sequence[str]) -> tuple[Term, ...]:
        alpha = [0] * len(axes)
        for axis, order in self.orders:
            alpha[_index(axes, axis, self)] += order
        return (Term(tuple(alpha)),)


@dataclass(frozen=True, init=False, repr=False)
class Laplacian(Operator):
    """Sum of second derivatives over the given axes, by default over every axis but `t`.

    >>> import tessella as ts
    >>> ts.D(t=1) - 0.1 * ts.Laplacian()
    D(t=1) - 0.1 * Laplacian()
    >>> ts.Laplacian("x", "y") @ ts.Laplacian("x", "y")
    Laplacian('x', 'y') @ Laplacian('x', 'y')
    """

    axes: tuple[str, ...]

    def __init__(self, *axes: str) -> None:
        object.__setattr__(self, "axes", axes)

    def __repr__(self) -> str:
        return f"Laplacian({', '.join(map(repr, self.axes))})"

    def expand(self, axes: Sequence[str]) -> tuple[Term, ...]:
        names = self.axes or tuple(a for a in axes if a != "t")
        if not names:
            raise ValueError(
                f"Laplacian() leaves out the axis 't', but the domain has only {', '.join(axes)}: "
                f"write D(t=2) or Laplacian('t')"
            )
        return tuple(Term(_unit(len(axes), _index(axes, a, self), 2)) for a in names)


@dataclass(frozen=True)
class NormalDerivative(Operator):
    """Derivative along the outward normal; meaningful in conditions on the boundary only.

    >>> import tessella as ts
    >>> ts.NormalDerivative() + 2.0 * ts.Identity()
    NormalDerivative() + 2
    """

    def expand(self, axes: Sequence[str]) -> tuple[Term, ...]:
        d = len(axes)
        return tuple(
            Term(_unit(d, i, 1), functions=((NormalComponent(i), (0,) * d),)) for i in range(d)
        )


@dataclass(frozen=True, repr=False)
class Normal(Operator):
    """Multiplication by a component of the outward normal; in conditions on the boundary only.

    The traction along x of a stress:

    >>> import tessella as ts
    >>> xx, xy = ts.D(x=1) @ ts.Field("u"), ts.D(y=1) @ ts.Field("u")
    >>> ts.Normal("x") @ xx + ts.Normal("y") @ xy
    Normal('x') @ D(x=1) @ Field('u') + Normal('y') @ D(y=1) @ Field('u')
    """

    axis: str

    def __repr__(self) -> str:
        return f"Normal({self.axis!r})"

    def expand(self, axes: Sequence[str]) -> tuple[Term, ...]:
        zero = (0,) * len(axes)
        component = NormalComponent(_index(axes, self.axis, self))
        return (Term(zero, functions=((component, zero),)),)


Own = TypeVar("Own", bound=Operator)


def _once(
    expand: Callable[[Own, Sequence[str]], tuple[Term, ...]],
) -> Callable[[Own, Sequence[str]], tuple[Term, ...]]:
    """The normal form of an operator with parts, which it keeps."""

    @wraps(expand)
    def known(operator: Own, axes: Sequence[str]) -> tuple[Term, ...]:
        kept: dict[tuple[str, ...], tuple[Term, ...]]
        kept, key = operator.__dict__.setdefault("_expanded", {}), tuple(axes)
        if key not in kept:
            kept[key] = expand(operator, axes)
        return kept[key]

    return known


@dataclass(frozen=True, repr=False)
class Sum(Operator):
    parts: tuple[Operator, ...]

    @_once
    def expand(self, axes: Sequence[str]) -> tuple[Term, ...]:
        return tuple(term for part in self.parts for term in part.expand(axes))


@dataclass(frozen=True, repr=False)
class Scaled(Operator):
    """A number or a function of the points, times an operator."""

    coefficient: float | Function
    operator: Operator

    def expand(self, axes: Sequence[str]) -> tuple[Term, ...]:
        terms = self.operator.expand(axes)
        c = self.coefficient
        if not callable(c):
            return tuple(replace(t, factor=float(c) * t.factor) for t in terms)
        front = ((c, (0,) * len(axes)),)
        return tuple(replace(t, functions=front + t.functions) for t in terms)


@dataclass(frozen=True, repr=False)
class Composition(Operator):
    """left @ right: apply `right` first. Functions in `right` are differentiated by `left`."""

    left: Operator
    right: Operator

    @_once
    def expand(self, axes: Sequence[str]) -> tuple[Term, ...]:
        return compose(self.left.expand(axes), self.right.expand(axes))


def in_region(operator: Operator, region: str) -> Operator:
    """The operator acting on the parts that its unknowns have in a region."""
    match operator:
        case Field(name, None):
            return Field(name, region)
        case Sum(parts):
            return Sum(tuple(in_region(part, region) for part in parts))
        case Scaled(coefficient, inner):
            return Scaled(coefficient, in_region(inner, region))
        case Composition(left, right):
            return Composition(left, in_region(right, region))
    return operator


def _unit(d: int, i: int, order: int) -> Orders:
    return tuple(order if k == i else 0 for k in range(d))


def _index(axes: Sequence[str], name: str, operator: Operator) -> int:
    if name not in axes:
        raise ValueError(
            f"{operator!r} uses the axis {name!r}, but the domain has {', '.join(axes)}"
        )
    return list(axes).index(name)
