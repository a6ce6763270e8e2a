"""The normal form of a linear operator, a sum of terms

    factor * (D^gamma_1 f_1) * ... * (D^gamma_m f_m) * D^alpha,

with user functions f_i. Composition is the Leibniz rule applied to that form, so an ansatz
u = multiplier * v is nothing but the composition `operator @ multiplier`. Where there are several
unknowns, every term also says which of them it acts on.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tessella.geometry.functions import Function, Orders, check_values, derivatives, function_name
from tessella.machine.arrays import Array


@dataclass(frozen=True)
class NormalComponent:
    """Stands for component `axis` of the outward normal inside a term's functions."""

    axis: int


@dataclass(frozen=True)
class Term:
    """factor * prod_i (D^gamma_i f_i) * D^orders, of the unknown `field` (None: the only one)."""

    orders: Orders
    factor: float = 1.0
    functions: tuple[tuple[Function | NormalComponent, Orders], ...] = ()
    field: str | None = None


def compose(left: Sequence[Term], right: Sequence[Term]) -> tuple[Term, ...]:
    """The normal form of a composition from those of its parts."""
    return tuple(term for outer in left for inner in right for term in _compose(outer, inner))


def _compose(outer: Term, inner: Term) -> Iterator[Term]:
    """D^alpha (f_1 ... f_m D^beta) by the Leibniz rule over the m functions and D^beta."""
    if outer.field is not None:
        raise ValueError(
            f"the unknown {outer.field!r} stands left of an operator: write operator @ field"
        )
    if any(isinstance(f, NormalComponent) for f, _ in inner.functions) and any(outer.orders):
        raise ValueError("the boundary normal cannot be differentiated: keep it outermost")
    slots = len(inner.functions) + 1
    if slots == 1:
        own = _add(inner.orders, outer.orders), outer.factor * inner.factor, outer.functions
        yield Term(*own, inner.field)
        return
    for split in _distributions(outer.orders, slots):
        multiplicity = math.prod(
            _multinomial(alpha, [part[i] for part in split]) for i, alpha in enumerate(outer.orders)
        )
        functions = tuple(
            (f, _add(gamma, part))
            for (f, gamma), part in zip(inner.functions, split[:-1], strict=True)
        )
        yield Term(
            _add(inner.orders, split[-1]),
            outer.factor * inner.factor * multiplicity,
            outer.functions + functions,
            inner.field,
        )


def _distributions(orders: Orders, slots: int) -> Iterator[tuple[Orders, ...]]:
    """Every way to hand out the derivatives `orders` to `slots` factors."""
    per_axis = [list(_partitions(n, slots)) for n in orders]
    for choice in itertools.product(*per_axis):
        yield tuple(tuple(axis[s] for axis in choice) for s in range(slots))


def _partitions(n: int, slots: int) -> Iterator[tuple[int, ...]]:
    if slots == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for rest in _partitions(n - first, slots - 1):
            yield (first, *rest)


def _multinomial(n: int, parts: Sequence[int]) -> int:
    return math.factorial(n) // math.prod(math.factorial(k) for k in parts)


def _add(a: Orders, b: Orders) -> Orders:
    return tuple(x + y for x, y in zip(a, b, strict=True))


def symbol(
    terms: Sequence[Term], points: Array, normals: Array | None = None
) -> dict[Orders, Array]:
    """Coefficients at the points: the operator is sum_alpha symbol[alpha] * D^alpha there."""
    values = _function_values(terms, points, normals)
    coefficients: dict[Orders, Array] = {}
    for term in terms:
        value = np.full(len(points), term.factor)
        for key in term.functions:
            value = value * values[key]
        before = coefficients.get(term.orders)
        coefficients[term.orders] = value if before is None else before + value
    return coefficients


def apply_to_function(
    terms: Sequence[Term], function: Function, points: Array, normals: Array | None = None
) -> Array:
    """The operator applied to a known function, by forward-mode differentiation."""
    d = points.shape[1]
    scalar = tuple(Term((0,) * d, t.factor, (*t.functions, (function, t.orders))) for t in terms)
    found = symbol(scalar, points, normals)
    return found.get((0,) * d, np.zeros(len(points)))


def _function_values(
    terms: Sequence[Term], points: Array, normals: Array | None
) -> dict[tuple[Function | NormalComponent, Orders], Array]:
    wanted: dict[Function | NormalComponent, set[Orders]] = {}
    for term in terms:
        for function, gamma in term.functions:
            wanted.setdefault(function, set()).add(gamma)
    values: dict[tuple[Function | NormalComponent, Orders], Array] = {}
    for function, gammas in wanted.items():
        if isinstance(function, NormalComponent):
            if normals is None:
                raise ValueError(
                    "NormalDerivative or d(n=1) needs a boundary normal: use it in a Condition, "
                    "or write D(x=1) for a derivative in the interior"
                )
            found = dict.fromkeys(gammas, normals[:, function.axis])
        elif normals is not None and getattr(function, "takes_normals", False):
            facing: Any = function
            value = check_values(facing(points, normals), points, function_name(function))
            found = dict.fromkeys(gammas, value)
        else:
            found = derivatives(function, sorted(gammas), points)
        for gamma, value in found.items():
            values[function, gamma] = value
    return values
