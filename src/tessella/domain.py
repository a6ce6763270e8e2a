"""Boxes with named axes and faces."""

from __future__ import annotations

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
    Laplacian and "the whole boundary" leave it out.
    """

    axes: tuple[str, ...]
    bounds: tuple[tuple[float, float], ...]

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

    def __repr__(self) -> str:
        inside = ", ".join(
            f"{a}=({lo:g}, {hi:g})" for a, (lo, hi) in zip(self.axes, self.bounds, strict=True)
        )
        return f"Box({inside})"

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
        return tuple(name for name, f in self.faces.items() if self.axes[f.axis] != "t")

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
        """Regular grid with end points included, one row per point, last axis fastest."""
        ticks = [
            np.linspace(low, high, n) if n > 1 else np.array([(low + high) / 2])
            for (low, high), n in zip(self.bounds, counts, strict=True)
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
