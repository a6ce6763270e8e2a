"""Domains known only through samples: a function's zero set, and a cloud of points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from tessella.geometry.domain import Bounds, Domain, Surface, check_name, interval
from tessella.geometry.functions import Function, function_name, function_values
from tessella.machine.arrays import Array

BATCH = 4_096
"""Points at which a user's function is evaluated at a time; one shape, so that it compiles once."""

NEWTON = 12
"""Steps along the gradient to the zero set."""

THIN = 0.75
"""Points of a zero set are at least this many spacings apart."""


@dataclass(frozen=True, init=False, repr=False)
class Implicit(Domain):
    """Where a function is negative: `Implicit(lambda p: ..., bounds=dict(x=(-1, 1), y=(-1, 1)))`.

    `function` maps (n, d) points to (n,) values, negative inside, written with `jax.numpy`. It need
    not be a distance, but its gradient must not vanish on the boundary. `bounds` enclose the set.
    """

    function: Function
    axes: tuple[str, ...]
    bounds: Bounds
    name: str

    def __init__(
        self, function: Function, bounds: Mapping[str, Sequence[float]], name: str = "surface"
    ) -> None:
        if not callable(function):
            raise TypeError(f"Implicit function must map points to values, got {function!r}")
        check_name(name, "Implicit")
        checked = tuple(interval(ends, f"Implicit bounds {a!r}") for a, ends in bounds.items())
        object.__setattr__(self, "function", function)
        object.__setattr__(self, "axes", tuple(bounds))
        object.__setattr__(self, "bounds", checked)
        object.__setattr__(self, "name", name)

    def __repr__(self) -> str:
        inside = ", ".join(
            f"{a}=({lo:g}, {hi:g})" for a, (lo, hi) in zip(self.axes, self.bounds, strict=True)
        )
        return f"Implicit({getattr(self.function, '__name__', 'function')}, {inside})"

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
            own = points[start : start + BATCH]
            padded = np.concatenate([own, np.tile(own[-1:], (BATCH - len(own), 1))])
            part = slice(start, start + len(own))
            values[part] = function_values(self.function, padded)[: len(own)]
            gradients[part] = np.asarray(_gradient(self.function, padded))[: len(own)]
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
        x = start
        for _ in range(NEWTON):
            value, gradient = self._evaluate(x)
            x = x - (value / np.maximum(np.sum(gradient**2, axis=1), 1e-300))[:, None] * gradient
        value, gradient = self._evaluate(x)
        size = np.linalg.norm(gradient, axis=1)
        arrived = np.abs(value) <= 1e-12 * self.diameter * size
        arrived &= np.linalg.norm(x - start, axis=1) < 2 * reach
        return x[arrived], gradient[arrived] / size[arrived, None]

    def describe(self) -> dict[str, Any]:
        bounds = dict(zip(self.axes, self.bounds, strict=True))
        return {"shape": "implicit", "bounds": bounds, "name": self.name}


def _gradient(function: Function, points: Array) -> jax.Array:
    try:
        return _compiled_gradient(function)(points)
    except jax.errors.TracerArrayConversionError:
        raise TypeError(
            f"{function_name(function)} must be differentiated, which needs jax.numpy inside it: "
            f"replace NumPy calls such as np.sqrt by jnp.sqrt"
        ) from None


@lru_cache(maxsize=64)
def _compiled_gradient(function: Function) -> Callable[[Array], jax.Array]:
    return jax.jit(jax.grad(lambda x: jnp.sum(function(x))))


def _apart(points: Array, distance: float) -> NDArray[np.int64]:
    """Numbers of points no two of which are closer than `distance`, none of which can be added."""
    tree = cKDTree(points)
    free = np.ones(len(points), dtype=bool)
    chosen = []
    for i in range(len(points)):
        if free[i]:
            chosen.append(i)
            free[tree.query_ball_point(points[i], distance)] = False
    return np.array(chosen, dtype=np.int64)


@dataclass(frozen=True, init=False, repr=False, eq=False)
class PointCloud(Domain):
    """Given points inside, given points on the boundary, and the outward normals there.

    `boundary` and `normals` are arrays, or dictionaries from names of parts to arrays. No other
    points are known, so collocation takes all of them whatever density is asked, and the number
    of features is bounded by them. Inside is judged by the nearest boundary point's normal.
    """

    axes: tuple[str, ...]
    bounds: Bounds = field(compare=False)
    given: Array
    surfaces: dict[str, Surface]

    def __init__(
        self,
        interior: ArrayLike,
        boundary: ArrayLike | Mapping[str, ArrayLike],
        normals: ArrayLike | Mapping[str, ArrayLike],
        axes: Sequence[str] | None = None,
    ) -> None:
        given = _cloud(interior, "interior")
        d = given.shape[1]
        places = boundary if isinstance(boundary, Mapping) else {"boundary": boundary}
        outward = normals if isinstance(normals, Mapping) else {"boundary": normals}
        if set(places) != set(outward):
            raise ValueError(
                f"PointCloud boundary has the parts {', '.join(places)}, but normals are given for "
                f"{', '.join(outward)}"
            )
        surfaces = {
            name: _checked(name, _cloud(points, name), _cloud(outward[name], f"{name} normals"), d)
            for name, points in places.items()
        }
        names = tuple(axes) if axes is not None else ("x", "y", "z")[:d]
        if len(names) != d:
            raise ValueError(f"PointCloud axes must be {d} names, got {axes!r}")
        everything = np.concatenate([given, *(points for points, _ in surfaces.values())])
        low, high = everything.min(axis=0).tolist(), everything.max(axis=0).tolist()
        for axis, a, b in zip(names, low, high, strict=True):
            if a == b:
                raise ValueError(f"PointCloud is flat: all of its points have {axis} = {a:g}")
        object.__setattr__(self, "axes", names)
        object.__setattr__(self, "bounds", tuple(zip(low, high, strict=True)))
        object.__setattr__(self, "given", given)
        object.__setattr__(self, "surfaces", surfaces)

    def __repr__(self) -> str:
        number = sum(len(points) for points, _ in self.surfaces.values())
        return f"PointCloud({len(self.given)} points inside, {number} on the boundary)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PointCloud) and self._content == other._content

    def __hash__(self) -> int:
        return hash(self._content)

    @cached_property
    def _content(self) -> tuple[Any, ...]:
        parts = [(n, p.tobytes(), v.tobytes()) for n, (p, v) in self.surfaces.items()]
        return (self.axes, self.given.tobytes(), tuple(parts))

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.surfaces)

    @cached_property
    def _nearest(self) -> tuple[cKDTree, Array, Array]:
        points, normals = (np.concatenate(a) for a in zip(*self.surfaces.values(), strict=True))
        return cKDTree(points), points, normals

    @cached_property
    def _gap(self) -> float:
        """Typical distance of neighbours on the boundary."""
        tree, points, _ = self._nearest
        return float(np.median(tree.query(points, 2)[0][:, 1])) if len(points) > 1 else 0.0

    def signed_distance(self, points: Array) -> Array:
        """Along the normal of the nearest boundary point."""
        tree, places, normals = self._nearest
        near = tree.query(points)[1]
        return np.asarray(np.sum((points - places[near]) * normals[near], axis=1))

    def contains(self, points: Array) -> NDArray[np.bool_]:
        """Between boundary points the boundary is known up to a part of their distance."""
        return self.signed_distance(points) <= 0.25 * self._gap

    def interior(self, counts: tuple[int, ...]) -> Array:
        return self.given

    def surface(self, part: str, spacing: Array, around: Domain) -> Surface:
        return self.surfaces[part]

    def scatter(self, count: int, draw: np.random.Generator) -> Array:
        """Random points between neighbours."""
        first = draw.integers(len(self.given), size=count)
        near = cKDTree(self.given).query(self.given[first], min(3, len(self.given)))[1]
        second = near.reshape(count, -1)[:, -1]
        share = draw.random((count, 1))
        return share * self.given[first] + (1 - share) * self.given[second]

    def scatter_on(
        self, part: str, count: int, draw: np.random.Generator, around: Domain
    ) -> Surface:
        points, normals = self.surfaces[part]
        order = draw.permutation(len(points))[:count]
        return points[order], normals[order]

    def check(self) -> None:
        beyond = self.given[~self.contains(self.given)]
        if len(beyond):
            place = ", ".join(f"{c:.6g}" for c in beyond[0])
            raise ValueError(
                f"{len(beyond)} interior points of {self!r} lie beyond its boundary, the first at "
                f"({place}): the normals must point outwards"
            )

    def describe(self) -> dict[str, Any]:
        return {
            "shape": "cloud",
            "interior": self.given.tolist(),
            "boundary": {name: p.tolist() for name, (p, _) in self.surfaces.items()},
            "normals": {name: n.tolist() for name, (_, n) in self.surfaces.items()},
            "axes": self.axes,
        }


def _cloud(points: ArrayLike, what: str) -> Array:
    array = np.array(points, dtype=np.float64)
    if array.ndim != 2 or array.shape[1] not in (2, 3) or not len(array):
        raise ValueError(f"PointCloud {what} must have shape (n, 2) or (n, 3), got {array.shape}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"PointCloud {what} contains NaN or infinity")
    return array


def _checked(name: str, points: Array, normals: Array, dimension: int) -> Surface:
    check_name(name, "PointCloud part")
    if points.shape != normals.shape or points.shape[1] != dimension:
        raise ValueError(
            f"PointCloud {name}: points {points.shape} and normals {normals.shape} must be pairs "
            f"in {dimension} dimensions"
        )
    size = np.linalg.norm(normals, axis=1)
    if np.any(size == 0):
        raise ValueError(f"PointCloud {name}: normal {int(np.argmin(size))} is zero")
    return points, normals / size[:, None]
