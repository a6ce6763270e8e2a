"""Boxes with named axes and faces."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Face:
    """One side of a box: `xmin` is where `x` takes its lower end; the normal points outwards."""

    name: str
    axis: int
    position: float
    sign: float


@dataclass(frozen=True, init=False)
class Box:
    """An axis-aligned box whose axes have names: `Box(x=(0, 1), y=(0, 1), t=(0, 0.5))`.

    The order of the keywords is the order of the columns of every point array. The faces are named
    after the axis and its end: `xmin`, `xmax`, `ymin`, ... An axis called `t` is time: the
    Laplacian and "the whole boundary" leave it out. A periodic axis (see `Periodic`) has no faces;
    its two ends are one place.
    """

    axes: tuple[str, ...]
    bounds: tuple[tuple[float, float], ...]
    periodic: tuple[str, ...] = ()

    def __init__(self, **bounds: tuple[float, float]) -> None:
        if not bounds:
            raise ValueError("Box() needs at least one axis, e.g. Box(x=(0, 1))")
        checked = []
        for name, interval in bounds.items():
            try:
                low, high = (float(end) for end in interval)
            except (TypeError, ValueError):
                raise ValueError(
                    f"Box axis {name!r} must be a pair (low, high), got {interval!r}"
                ) from None
            if not (np.isfinite(low) and np.isfinite(high) and low < high):
                raise ValueError(
                    f"Box axis {name!r} must have finite low < high, got ({low:g}, {high:g})"
                )
            checked.append((low, high))
        object.__setattr__(self, "axes", tuple(bounds))
        object.__setattr__(self, "bounds", tuple(checked))
        object.__setattr__(self, "periodic", ())

    def __repr__(self) -> str:
        inside = ", ".join(
            f"{a}=({lo:g}, {hi:g})" for a, (lo, hi) in zip(self.axes, self.bounds, strict=True)
        )
        closed = f" periodic in {', '.join(self.periodic)}" if self.periodic else ""
        return f"Box({inside}){closed}"

    def closed(self, *axes: str) -> Box:
        """The same box with these axes periodic, besides those that are already."""
        wanted = {self.axes[self.axis_index(axis)] for axis in axes} | set(self.periodic)
        made = copy.copy(self)
        made.__dict__.pop("periods", None)
        object.__setattr__(made, "periodic", tuple(a for a in self.axes if a in wanted))
        return made

    @cached_property
    def periods(self) -> Array:
        """The length of every periodic axis; 0 for the others."""
        closed = np.array([axis in self.periodic for axis in self.axes])
        return np.where(closed, self.upper - self.lower, 0.0)

    def wrapped(self, points: Array) -> Array:
        """The same places with coordinates of periodic axes in [low, high): the ends coincide."""
        if not self.periodic:
            return points
        around = np.where(self.periods > 0, self.periods, 1.0)
        turns = np.where(self.periods > 0, np.floor((points - self.lower) / around), 0.0)
        return np.where(turns != 0, points - turns * around, points)

    @property
    def dimension(self) -> int:
        return len(self.axes)

    @cached_property
    def lower(self) -> Array:
        return np.array([low for low, _ in self.bounds])

    @cached_property
    def upper(self) -> Array:
        return np.array([high for _, high in self.bounds])

    @cached_property
    def faces(self) -> dict[str, Face]:
        """All faces by name, in the order xmin, xmax, ymin, ..."""
        found = {}
        for i, (axis, (low, high)) in enumerate(zip(self.axes, self.bounds, strict=True)):
            found[f"{axis}min"] = Face(f"{axis}min", i, low, -1.0)
            found[f"{axis}max"] = Face(f"{axis}max", i, high, +1.0)
        return found

    @property
    def walls(self) -> tuple[str, ...]:
        """The faces of the spatial axes: what "the whole boundary" means for a condition."""
        without = ("t", *self.periodic)
        return tuple(name for name, f in self.faces.items() if self.axes[f.axis] not in without)

    def axis_index(self, name: str) -> int:
        if name not in self.axes:
            raise ValueError(f"unknown axis {name!r}: this domain has {', '.join(self.axes)}")
        return self.axes.index(name)

    def face(self, name: str) -> Face:
        if name not in self.faces:
            raise ValueError(f"unknown face {name!r}: this domain has {', '.join(self.faces)}")
        return self.faces[name]

    def points(self, points: ArrayLike) -> Array:
        """Check and shape user-given points into an (n, d) float array."""
        array = np.asarray(points, dtype=np.float64)
        if array.ndim < 2 and self.dimension == 1:
            array = array.reshape(-1, 1)
        elif array.ndim == 1 and array.size == self.dimension:
            array = array.reshape(1, -1)
        if array.ndim != 2 or array.shape[1] != self.dimension:
            raise ValueError(
                f"points must have shape (n, {self.dimension}) with columns "
                f"({', '.join(self.axes)}), got {np.shape(points)}"
            )
        return array

    def grid(self, counts: tuple[int, ...]) -> Array:
        """Regular grid with end points included, one row per point, last axis fastest.

        Along a periodic axis the upper end, which is the lower one, is left out.
        """
        ticks = [
            np.linspace(low, high, n, endpoint=axis not in self.periodic)
            if n > 1
            else np.array([(low + high) / 2])
            for axis, (low, high), n in zip(self.axes, self.bounds, counts, strict=True)
        ]
        return np.stack(np.meshgrid(*ticks, indexing="ij"), axis=-1).reshape(-1, self.dimension)

    def face_grid(self, name: str, counts: tuple[int, ...]) -> tuple[Array, Array]:
        """Regular grid on one face and the outward normals there, both of shape (n, d)."""
        face = self.face(name)
        flat = tuple(1 if i == face.axis else n for i, n in enumerate(counts))
        points = self.grid(flat)
        points[:, face.axis] = face.position
        normals = np.zeros_like(points)
        normals[:, face.axis] = face.sign
        return points, normals
