"""How large operators are: root mean squares of coefficients, rounded."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tessella.geometry.functions import Orders
from tessella.machine.arrays import Array
from tessella.problem.operators import Operator
from tessella.problem.problem import Problem

MEASURED = 12
"""Digits of measures of faces: those that do not depend on how a sum was taken."""

Mask = NDArray[np.bool_]

Symbols = Sequence[Mapping[Orders, Array]]
"""Of every unknown, the coefficients of its derivatives at some points."""


def settled(x: float, digits: int = 4) -> float:
    """Rounded to so many decimal digits, so that weights do not change with every refinement; to a
    few more before, so that they do not depend on how a sum was taken."""
    return float(f"{float(f'{x:.13e}'):.{digits - 1}e}")


def monomial(x: Array, alpha: Orders) -> Array:
    """x^alpha of every x (..., d)."""
    factors = [x[..., i] ** n for i, n in enumerate(alpha) if n]
    return (
        np.asarray(math.prod(factors[1:], start=factors[0])) if factors else np.ones(x.shape[:-1])
    )


def operator_sizes(
    problem: Problem, operator: Operator, x: Array, normals: Array | None, k: Array
) -> Array:
    """sum_alpha |c_alpha| k^alpha on every unknown, with root mean square coefficients at x: (F,)
    for wavenumbers k (d,), and (F, J) for those of J subdomains."""
    each = [problem.symbol(operator, x, normals, field) for field in problem.fields]
    return symbol_sizes(each, k)


def symbol_sizes(
    symbols: Symbols,
    k: Array,
    some: Mask | None = None,
    added: Callable[[list[float]], list[float]] = list,
) -> Array:
    """The same from the coefficients at some points; `added` sums over all who have points."""
    found = np.zeros((len(symbols), *k.shape[:-1]))
    own = [
        (f, alpha, c if some is None else c[some])
        for f, one in enumerate(symbols)
        for alpha, c in one.items()
    ]
    sums = added([number for *_, c in own for number in (float(np.sum(c**2)), float(len(c)))])
    for (f, alpha, _), square, count in zip(own, sums[::2], sums[1::2], strict=True):
        rms = settled(math.sqrt(square / count)) if count else 0.0
        found[f] += rms * monomial(k, alpha)
    return found
