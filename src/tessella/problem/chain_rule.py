"""Functions of derivatives and points, differentiated along an axis: again such functions.

The derivative of N(d, x) along an axis is sum_k dN/d(d_k) d_k' + dN/dx, where d_k' is d_k once more
differentiated; JAX takes it in one pass. They are plain functions that hold functions, so that they
share programs as others do (see `closures`).
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tessella.geometry.functions import Function
from tessella.problem.operator_function import (
    NORMAL,
    Derivatives,
    Formula,
    Given,
    Key,
    Recorder,
)


def along(
    function: Formula, name: str, axes: tuple[str, ...], keys: tuple[Key, ...], axis: int
) -> Formula:
    """The derivative of a function that uses these derivatives."""
    if any(alpha == NORMAL for _, alpha in keys):
        raise ValueError(
            f"{name!r} uses d(n=1), and the boundary normal cannot be differentiated: write the "
            f"derivative out"
        )
    further = tuple((field, _further(alpha, axis)) for field, alpha in keys)

    def derivative(d: Derivatives, x: Any) -> Any:
        given, rates = ([d.look_up(key) for key in own] for own in (keys, further))
        if isinstance(d, Recorder):
            return given[0]

        def value(rows: Any, points: Any) -> Any:
            own = dict(zip(keys, rows, strict=True))
            found = jnp.asarray(function(Given(axes, name, own), points), dtype=float)
            return jnp.broadcast_to(found, len(points))

        n = len(x)
        rows, change = (tuple(jnp.broadcast_to(v, n) for v in own) for own in (given, rates))
        points = jnp.asarray(x)
        direction = jnp.zeros_like(points).at[:, axis].set(1.0)
        return jax.jvp(value, (rows, points), (change, direction))[1]

    shown = "f(d, x)" if name == "<lambda>" else name
    derivative.__name__ = f"D({axes[axis]}=1) @ {shown}"
    return derivative


def product(coefficient: Function, function: Formula) -> Formula:
    """A function of the points times one of derivatives and points."""

    def value(d: Derivatives, x: Any) -> Any:
        return coefficient(x) * function(d, x)

    return value


def _further(alpha: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return tuple(n + (i == axis) for i, n in enumerate(alpha))
