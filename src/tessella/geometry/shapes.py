"""Balls and half-spaces; with boxes and polygons, `|`, `&` and `-` they make most domains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real

import numpy as np

from tessella.geometry.domain import (
    Bounds,
    Description,
    Domain,
    Surface,
    check_name,
    inset,
    real_numbers,
    spelled_name,
)
from tessella.machine.arrays import Array

MOST = 4_096
"""Points on a ball of more than three dimensions."""


@dataclass(frozen=True, init=False, repr=False)
class Ball(Domain):
    """A disc, or with `z` a ball, or one of more dimensions; `name` is what its boundary is called.

    >>> import tessella as ts
    >>> plate = ts.Box(x=(0, 1), y=(0, 1)) - ts.Ball(x=0.3, y=0.3, radius=0.1, name="hole")
    >>> plate.parts
    ('xmin', 'xmax', 'ymin', 'ymax', 'hole')
    """

    axes: tuple[str, ...]
    centre: tuple[float, ...]
    radius: float
    name: str
    bounds: Bounds = field(compare=False)

    def __init__(self, *, radius: float, name: str = "ball", **centre: float) -> None:
        middle = _place(centre, "Ball", (2, 3) if len(centre) < 4 else (len(centre),))
        if not (isinstance(radius, Real) and 0 < radius < np.inf):
            raise ValueError(f"Ball radius must be a positive number, got {radius!r}")
        check_name(name, "Ball")
        object.__setattr__(self, "axes", tuple(centre))
        object.__setattr__(self, "centre", middle)
        object.__setattr__(self, "radius", float(radius))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "bounds", tuple((c - radius, c + radius) for c in middle))

    def __repr__(self) -> str:
        name = spelled_name(self.name, "ball")
        return f"Ball({_at(self.axes, self.centre)}, radius={self.radius:g}{name})"

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.name,)

    def signed_distance(self, points: Array) -> Array:
        away = points - np.array(self.centre)
        return np.sqrt(np.einsum("ij,ij->i", away, away)) - self.radius

    def surface(self, part: str, spacing: Array, around: Domain) -> Surface:
        """Equal angles on a circle, a Fibonacci spiral on a sphere, beyond that random points."""
        h = float(np.min(spacing)) / self.radius
        if self.dimension == 2:
            n = max(8, int(np.ceil(2 * np.pi / h)))
            angle = 2 * np.pi * np.arange(n) / n
            return self._on(np.column_stack([np.cos(angle), np.sin(angle)]))
        if self.dimension > 3:
            return self.scatter_on(part, MOST, np.random.default_rng(0), around)
        n = max(16, int(np.ceil(4 * np.pi / h**2)))
        z = 1 - (2 * np.arange(n) + 1) / n
        angle = np.pi * (3 - np.sqrt(5)) * np.arange(n)
        flat = np.sqrt(1 - z**2)
        return self._on(np.column_stack([flat * np.cos(angle), flat * np.sin(angle), z]))

    def scatter_on(
        self, part: str, count: int, draw: np.random.Generator, around: Domain
    ) -> Surface:
        direction = draw.standard_normal((count, self.dimension))
        return self._on(direction / np.linalg.norm(direction, axis=1, keepdims=True))

    def _on(self, normals: Array) -> Surface:
        return np.array(self.centre) + self.radius * normals, normals

    def describe(self) -> Description:
        centre = dict(zip(self.axes, self.centre, strict=True))
        return {"shape": "ball", "radius": self.radius, "name": self.name, **centre}


ROUNDING = 1e-15
"""By how much the length of a vector divided by its length may differ from one."""


@dataclass(frozen=True, init=False, repr=False)
class HalfSpace(Domain):
    """All points behind a line or plane.

    >>> import tessella as ts
    >>> corner = ts.HalfSpace(x=0.8, y=0.8, normal=(1, 1), name="cut")
    >>> (ts.Box(x=(0, 1), y=(0, 1)) & corner).parts
    ('xmin', 'xmax', 'ymin', 'ymax', 'cut')

    The line goes through the given point; `normal` points out of the half-space. Unbounded, so it
    is for cutting: `box & HalfSpace(...)` keeps what lies behind, `box - HalfSpace(...)` the rest.
    """

    axes: tuple[str, ...]
    point: tuple[float, ...]
    normal: tuple[float, ...]
    name: str
    bounds: Bounds = field(compare=False)

    def __init__(self, *, normal: Sequence[float], name: str = "plane", **point: float) -> None:
        at = _place(point, "HalfSpace", (2, 3))
        n = real_numbers(normal, "HalfSpace normal")
        size = float(np.linalg.norm(n))
        if n.shape != (len(at),) or not np.isfinite(size) or size == 0:
            raise ValueError(
                f"HalfSpace normal must be {len(at)} numbers ({', '.join(point)}), not all zero, "
                f"got {normal!r}"
            )
        check_name(name, "HalfSpace")
        unit = n if abs(size - 1) < ROUNDING else n / size  # one made from its own normal is equal
        object.__setattr__(self, "axes", tuple(point))
        object.__setattr__(self, "point", at)
        object.__setattr__(self, "normal", tuple(unit.tolist()))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "bounds", ((-np.inf, np.inf),) * len(at))

    def __repr__(self) -> str:
        direction = ", ".join(f"{c:g}" for c in self.normal)
        name = spelled_name(self.name, "plane")
        return f"HalfSpace({_at(self.axes, self.point)}, normal=({direction}){name})"

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.name,)

    def signed_distance(self, points: Array) -> Array:
        return np.asarray((points - np.array(self.point)) @ np.array(self.normal))

    def surface(self, part: str, spacing: Array, around: Domain) -> Surface:
        reach, h = self._reach(around), float(np.min(spacing))
        ticks = reach * (2 * inset(max(1, int(np.ceil(2 * reach / h)))) - 1)
        flat = np.stack(np.meshgrid(*[ticks] * (self.dimension - 1), indexing="ij"), axis=-1)
        return self._on(flat.reshape(-1, self.dimension - 1), around)

    def scatter_on(
        self, part: str, count: int, draw: np.random.Generator, around: Domain
    ) -> Surface:
        reach = self._reach(around)
        return self._on(reach * draw.uniform(-1, 1, (4 * count, self.dimension - 1)), around)

    def _reach(self, around: Domain) -> float:
        d = self.dimension
        return float(np.linalg.norm(around.upper[:d] - around.lower[:d])) / 2

    def _on(self, flat: Array, around: Domain) -> Surface:
        """Points given in coordinates of the plane, those in the bounding box of `around`."""
        lower, upper = around.lower[: self.dimension], around.upper[: self.dimension]
        n, middle = np.array(self.normal), (lower + upper) / 2
        foot = middle - ((middle - np.array(self.point)) @ n) * n
        along = np.linalg.svd(n[None, :])[2][1:]
        points = foot + flat @ along
        points = points[np.all((points >= lower) & (points <= upper), axis=1)]
        return points, np.tile(n, (len(points), 1))

    def describe(self) -> Description:
        point = dict(zip(self.axes, self.point, strict=True))
        return {"shape": "halfspace", "normal": self.normal, "name": self.name, **point}


def _place(point: dict[str, float], what: str, dimensions: tuple[int, ...]) -> tuple[float, ...]:
    if len(point) not in dimensions:
        raise ValueError(
            f"{what} needs {' or '.join(str(d) for d in dimensions)} coordinates by name, e.g. "
            f"x=0, y=0, got {', '.join(point) or 'none'}"
        )
    for axis, value in point.items():
        if not (isinstance(value, Real) and np.isfinite(float(value))):
            raise ValueError(f"{what} {axis} must be a finite number, got {value!r}")
    return tuple(float(value) for value in point.values())


def _at(axes: Sequence[str], place: Sequence[float]) -> str:
    return ", ".join(f"{axis}={value:g}" for axis, value in zip(axes, place, strict=True))
