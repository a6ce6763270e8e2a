"""Boxes with named axes and faces."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tessella.geometry.domain import (
    Bounds,
    Domain,
    Surface,
    inset,
    interval,
    one_axis,
    spelled_bounds,
)
from tessella.machine.arrays import Array


@dataclass(frozen=True)
class Face:
    """One side of a box: `xmin` is where `x` takes its lower end; the normal points outwards."""

    name: str
    axis: int
    position: float
    sign: float


@dataclass(frozen=True, init=False)
class Box(Domain):
    """An axis-aligned box whose axes have names.

    >>> import tessella as ts
    >>> box = ts.Box(x=(0, 1), y=(0, 2), t=(0, 0.5))
    >>> box.parts
    ('xmin', 'xmax', 'ymin', 'ymax', 'tmin', 'tmax')
    >>> box.walls
    ('xmin', 'xmax', 'ymin', 'ymax')

    The order of the keywords is the order of the columns of every point array. The faces are named
    after the axis and its end: `xmin`, `xmax`, `ymin`, ... An axis called `t` is time: the
    Laplacian and "the whole boundary" leave it out. A periodic axis (see `Periodic`) has no faces;
    its two ends are one place.
    """

    axes: tuple[str, ...]
    bounds: Bounds
    periodic: tuple[str, ...] = ()

    def __init__(self, *sides: object, **bounds: tuple[float, float]) -> None:
        if sides:
            raise ValueError(
                f"Box takes its sides by axis, got {sides[0]!r}: write Box(x=(0, 1), y=(0, 1))"
            )
        if not bounds:
            raise ValueError("Box() needs at least one axis, e.g. Box(x=(0, 1))")
        checked = tuple(interval(ends, f"Box axis {name!r}") for name, ends in bounds.items())
        object.__setattr__(self, "axes", tuple(bounds))
        object.__setattr__(self, "bounds", checked)
        object.__setattr__(self, "periodic", ())

    def __repr__(self) -> str:
        closed = f" periodic in {', '.join(self.periodic)}" if self.periodic else ""
        return f"Box({spelled_bounds(self.axes, self.bounds)}){closed}"

    def closed(self, *axes: str) -> Box:
        """The same box with these axes periodic, besides those that are already."""
        wanted = {self.axes[self.axis_index(axis)] for axis in axes} | set(self.periodic)
        made = Box(**dict(zip(self.axes, self.bounds, strict=True)))
        object.__setattr__(made, "periodic", tuple(a for a in self.axes if a in wanted))
        return made

    @cached_property
    def faces(self) -> dict[str, Face]:
        """All faces by name, in the order xmin, xmax, ymin, ..."""
        found = {}
        for i, (axis, (low, high)) in enumerate(zip(self.axes, self.bounds, strict=True)):
            found[f"{axis}min"] = Face(f"{axis}min", i, low, -1.0)
            found[f"{axis}max"] = Face(f"{axis}max", i, high, +1.0)
        return found

    @cached_property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.faces)

    @property
    def walls(self) -> tuple[str, ...]:
        """The faces of the spatial axes: what "the whole boundary" means for a condition."""
        without = ("t", *self.periodic)
        return tuple(name for name, f in self.faces.items() if self.axes[f.axis] not in without)

    def face(self, name: str) -> Face:
        return self.faces[self.part(name)]

    def over(self, **axis: tuple[float, float]) -> Box:
        name, low, high = one_axis(self, axis)
        made = Box(**dict(zip(self.axes, self.bounds, strict=True)), **{name: (low, high)})
        return made.closed(*self.periodic)

    def signed_distance(self, points: Array) -> Array:
        beyond = np.maximum(self.lower - points, points - self.upper)
        outside = np.linalg.norm(np.maximum(beyond, 0.0), axis=1)
        return outside + np.minimum(beyond.max(axis=1), 0.0)

    def contains(self, points: Array) -> NDArray[np.bool_]:
        slack = 1e-12 * (self.upper - self.lower)
        return np.all((points >= self.lower - slack) & (points <= self.upper + slack), axis=1)

    def check(self) -> None:
        """Every box will do."""

    def closure(self, counts: tuple[int, ...]) -> Array:
        return self.grid(counts)

    def boundary(self, part: str, counts: tuple[int, ...]) -> Surface:
        return self.face_grid(part, counts)

    def scatter(self, count: int, draw: np.random.Generator) -> Array:
        share = draw.random((count, self.dimension))
        return self.lower + (self.upper - self.lower) * share

    def face_grid(self, name: str, counts: tuple[int, ...]) -> Surface:
        """Regular grid on one face and the outward normals there, both of shape (n, d)."""
        face = self.face(name)
        flat = tuple(1 if i == face.axis else n for i, n in enumerate(counts))
        return self.on(face, self.grid(flat))

    def surface(self, part: str, spacing: Array, around: Domain) -> Surface:
        """A grid that keeps a quarter of its spacing away from the edges of the face."""
        face = self.face(part)
        ticks = []
        for i, (low, high) in enumerate(self.bounds):
            n = 1 if i == face.axis else max(1, int(np.ceil((high - low) / spacing[i] - 1e-9)))
            ticks.append(low + (high - low) * inset(n))
        points = np.stack(np.meshgrid(*ticks, indexing="ij"), axis=-1)
        return self.on(face, points.reshape(-1, self.dimension))

    def scatter_on(
        self, part: str, count: int, draw: np.random.Generator, around: Domain
    ) -> Surface:
        return self.on(self.face(part), self.scatter(count if self.dimension > 1 else 1, draw))

    def on(self, face: Face, points: Array) -> Surface:
        """Points moved onto a face, and the outward normals there."""
        points[:, face.axis] = face.position
        normals = np.zeros_like(points)
        normals[:, face.axis] = face.sign
        return points, normals

    def describe(self) -> dict[str, tuple[float, float]]:
        return dict(zip(self.axes, self.bounds, strict=True))
