"""Domains by a function that is negative inside."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from numpy.typing import NDArray

from tessella.geometry.domain import (
    Bounds,
    Description,
    Domain,
    Surface,
    check_name,
    interval,
    spelled_bounds,
    spelled_name,
)
from tessella.geometry.functions import (
    Function,
    check_values,
    explained,
    function_name,
    short_name,
    surroundings,
)
from tessella.machine.arguments import check_kind
from tessella.machine.arrays import Array

FEW, BATCH = 256, 4_096
"""Points at which a user's function is evaluated at a time: two numbers, for which it compiles."""

NEWTON = 12
"""Steps along the gradient to the zero set."""

SURFACE = "surface"
"""What its boundary is called unless it is named."""

THIN = 0.75
"""Points of a zero set are at least this many spacings apart."""


@dataclass(frozen=True, init=False, repr=False)
class Implicit(Domain):
    """Where a function is negative.

    >>> import tessella as ts
    >>> def ellipse(p):
    ...     return (p[:, 0] / 0.8) ** 2 + (p[:, 1] / 0.5) ** 2 - 1
    >>> ts.Implicit(ellipse, bounds=dict(x=(-1, 1), y=(-1, 1)))
    Implicit(ellipse, bounds=dict(x=(-1, 1), y=(-1, 1)))

    `function` maps (n, d) points to (n,) values, negative inside, written with `jax.numpy`. It need
    not be a distance, but its gradient must not vanish on the boundary. `bounds` enclose the set.
    """

    function: Function
    axes: tuple[str, ...]
    bounds: Bounds
    name: str

    def __init__(
        self, function: Function, bounds: Mapping[str, Sequence[float]], name: str = SURFACE
    ) -> None:
        if not callable(function) or isinstance(function, type):
            raise TypeError(f"Implicit function must map points to values, got {function!r}")
        check_name(name, "Implicit")
        check_kind(bounds, Mapping, "Implicit bounds", "sides by axis, dict(x=(-1, 1), y=(-1, 1))")
        if not bounds:
            raise ValueError("Implicit bounds need an axis, e.g. bounds=dict(x=(-1, 1), y=(-1, 1))")
        checked = tuple(interval(ends, f"Implicit bounds {a!r}") for a, ends in bounds.items())
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "axes", tuple(bounds))
        object.__setattr__(self, "bounds", checked)
        object.__setattr__(self, "name", name)

    def __repr__(self) -> str:
        bounds, name = spelled_bounds(self.axes, self.bounds), spelled_name(self.name, SURFACE)
        return f"Implicit({short_name(self.function)}, bounds=dict({bounds}){name})"

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.name,)

    def check(self) -> None:
        super().check()
        n = 200 if self.dimension == 2 else 40
        grid = self.grid((n,) * self.dimension)
        edge = grid[np.any((grid == self.lower) | (grid == self.upper), axis=1)]
        beyond = edge[self._evaluate(edge)[0] < 0]
        if len(beyond):
            place = ", ".join(f"{c:.6g}" for c in beyond[0])
            raise ValueError(
                f"{self!r} is not enclosed by its bounds, e.g. at ({place}): enlarge them, or cut "
                f"it with a Box, Box(...) & Implicit(...)"
            )

    def _evaluate(self, points: Array) -> tuple[Array, Array]:
        """Values (n,) and gradients (n, d), those that are not finite as zero."""
        values, gradients = np.zeros(len(points)), np.zeros_like(points)
        for start in range(0, len(points), BATCH):
            part = slice(start, start + BATCH)
            values[part], gradients[part] = _evaluated(self.function, points[part])
        # The centre of a distance has no gradient; nobody needs one there.
        return values, np.where(np.isfinite(gradients), gradients, 0.0)

    def signed_distance(self, points: Array) -> Array:
        """To first order: the value over the length of the gradient."""
        value, gradient = self._evaluate(points)
        size = np.linalg.norm(gradient, axis=1)
        return value / np.where(size > 1e-12 * np.abs(value), size, 1.0)

    def surface(self, part: str, spacing: Array, around: Domain) -> Surface:
        h = float(np.min(spacing))
        counts = tuple(int(n) for n in np.ceil(1.5 * (self.upper - self.lower) / h) + 1)
        points, normals = self._project(self.grid(counts), h)
        chosen = _apart(points, THIN * h)
        return points[chosen], normals[chosen]

    def scatter_on(
        self, part: str, count: int, draw: np.random.Generator, around: Domain
    ) -> Surface:
        reach = 0.1 * self.diameter
        for tries in (16, 256, 4_096):
            share = draw.random((tries * count, self.dimension))
            points, normals = self._project(self.lower + (self.upper - self.lower) * share, reach)
            if len(points) >= count:
                break
        order = draw.permutation(len(points))[:count]
        return points[order], normals[order]

    def _project(self, points: Array, reach: float) -> Surface:
        """Points within `reach` of the zero set, moved onto it along the gradient by Newton."""
        start = points[np.abs(self.signed_distance(points)) < reach]
        x, normals = start.copy(), np.zeros_like(start)
        going = np.arange(len(start))
        for _ in range(NEWTON):
            value, gradient = self._evaluate(x[going])
            size = np.maximum(np.linalg.norm(gradient, axis=1), 1e-150)
            normals[going] = gradient / size[:, None]
            x[going] -= (value / size)[:, None] * normals[going]
            going = going[np.abs(value) > 1e-12 * self.diameter * size]
        arrived = np.linalg.norm(x - start, axis=1) < 2 * reach
        arrived[going] = False
        return x[arrived], normals[arrived]

    def describe(self) -> Description:
        bounds = dict(zip(self.axes, self.bounds, strict=True))
        return {"shape": "implicit", "bounds": bounds, "name": self.name}


def _evaluated(function: Function, points: Array) -> tuple[Array, Array]:
    """Values and gradients at no more than `BATCH` points, by one program."""
    more = (FEW if len(points) <= FEW else BATCH) - len(points)
    padded = np.concatenate([points, np.tile(points[-1:], (more, 1))])
    name = function_name(function)
    with explained(function, points, name):
        found = jax.device_get(_program(function, surroundings(function))(padded))
    values, gradients = map(np.asarray, found)
    return check_values(values, padded, name)[: len(points)], gradients[: len(points)]


@lru_cache(maxsize=64)
def _program(
    function: Function, around: Hashable
) -> Callable[[Array], tuple[jax.Array, jax.Array]]:
    def both(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        values, back = jax.vjp(lambda p: jnp.asarray(function(p)), x)
        return values, back(jnp.ones_like(values))[0]

    return jax.jit(both)


def _apart(points: Array, distance: float) -> NDArray[np.int64]:
    """Numbers of points no two of which are closer than `distance`, none of which can be added."""
    tree = scipy.spatial.cKDTree(points)
    free = np.ones(len(points), dtype=bool)
    chosen = []
    for i in range(len(points)):
        if free[i]:
            chosen.append(i)
            free[tree.query_ball_point(points[i], distance)] = False
    return np.array(chosen, dtype=np.int64)
