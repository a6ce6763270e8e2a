"""Functions of derivatives at points: their values, and what they change with every derivative.

One JAX program per function serves all points, and all functions that differ by numbers only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from tessella.geometry.functions import padded
from tessella.machine.arrays import Array
from tessella.problem.closures import closed, opened
from tessella.problem.operator_function import Given, Key, spell

if TYPE_CHECKING:
    from tessella.problem.nonlinear import Nonlinear


def tangents(
    leaf: Nonlinear, axes: tuple[str, ...], keys: tuple[Key, ...], given: Array, points: Array
) -> tuple[Array, Array]:
    """N and dN/d(d_k) at points, for derivatives (k, n)."""
    n = len(points)
    if not n:
        return np.zeros(0), np.zeros((len(keys), 0))
    wide, x = np.ascontiguousarray(padded(given.T).T), padded(points)
    try:
        found = _by_program(leaf.function, axes, keys, wide, x)
    except jax.errors.TracerArrayConversionError:
        # NumPy functions of the points are fine; of the derivatives they are not.
        try:
            found = _differentiated(leaf.function, axes, keys, jnp.asarray(wide), x)
        except jax.errors.TracerArrayConversionError:
            raise NotDifferentiableError(
                f"the operator function {leaf.name!r} must be differentiated by d, which needs "
                f"jax.numpy inside it: replace NumPy calls such as np.exp(d()) by jnp.exp(d())"
            ) from None
    values, tangent = (np.asarray(own)[..., :n] for own in found)
    _check_finite(leaf, axes, keys, given, points, (values, tangent))
    return values, tangent


class NotDifferentiableError(ValueError):
    """A function has no finite value or derivative at the state it is asked at."""


def _check_finite(
    leaf: Nonlinear,
    axes: tuple[str, ...],
    keys: tuple[Key, ...],
    given: Array,
    points: Array,
    found: tuple[Array, Array],
) -> None:
    values, tangent = found
    names = [spell(axes, key) for key in keys]
    for what, own in (("", values), *zip(names, tangent, strict=True)):
        bad = np.flatnonzero(~np.isfinite(own))
        if bad.size:
            i = bad[0]
            place = ", ".join(f"{c:.6g}" for c in points[i])
            at = ", ".join(f"{n} = {v[i]:.6g}" for n, v in zip(names, given, strict=True))
            which = f"the derivative by {what} of " if what else ""
            raise NotDifferentiableError(
                f"{which}the operator function {leaf.name!r} is {own[i]} at the point ({place}), "
                f"where {at}: give a start at which it is smooth, solve(..., start=...), or write "
                f"it without the singularity"
            )


def _by_program(
    function: Any, axes: tuple[str, ...], keys: tuple[Key, ...], given: Array, x: Array
) -> tuple[jax.Array, jax.Array]:
    """By a program that serves all functions that differ by numbers in their closures only; by one
    of its own where a function must know its numbers."""
    numbers: list[float] = []
    shape = opened(function, numbers)
    try:
        return _compiled(shape, axes, keys)(tuple(numbers), given, x)
    except (jax.errors.ConcretizationTypeError, jax.errors.TracerArrayConversionError):
        if not numbers:
            raise
        return _compiled(function, axes, keys)((), given, x)


Numbers = tuple[float, ...]


@lru_cache(maxsize=64)
def _compiled(
    shape: Any, axes: tuple[str, ...], keys: tuple[Key, ...]
) -> Callable[[Numbers, Array, Array], tuple[jax.Array, jax.Array]]:
    @jax.jit
    def found(numbers: Numbers, given: Array, x: Array) -> tuple[jax.Array, jax.Array]:
        return _differentiated(closed(shape, iter(numbers)), axes, keys, given, x)

    return found


def _differentiated(
    function: Any, axes: tuple[str, ...], keys: tuple[Key, ...], given: Any, x: Any
) -> tuple[jax.Array, jax.Array]:
    name = getattr(function, "__name__", "")

    def applied(rows: jax.Array) -> jax.Array:
        own = dict(zip(keys, rows, strict=True))
        values = jnp.asarray(function(Given(axes, name, own), x), dtype=float)
        return jnp.broadcast_to(values, rows.shape[1:])

    # Every value depends on the derivatives at its own point, so one pass backwards is enough.
    values, backwards = jax.vjp(applied, given)
    return values, backwards(jnp.ones_like(values))[0]
