"""Points that fill a grid, and functions of them evaluated along its axes.

Of n x n points a coordinate has n different values only, so sin(x) need not be taken n x n times.
A user's function is handed coordinates that know this (`Along`): NumPy's functions of them are
taken on as few numbers as they depend on. What such a coordinate is asked for beyond that, it
answers as the array of its values at all points; what it refuses (to be changed in place, or to be
given to JAX), the function is asked again with plain points for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import EllipsisType
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from tessella.machine.arrays import Array


@dataclass(frozen=True, eq=False)
class Lattice:
    """Boxes of a grid with a grid of points in each: box after box, last axis fastest.

    along  per axis the coordinates, (boxes, points of a box)
    """

    along: tuple[Array, ...]

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Points along every axis."""
        return tuple(line.size for line in self.along)

    @cached_property
    def _boxes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The grid's shape with every axis as (box, point in it), and the axes in points' order."""
        d = 2 * len(self.along)
        order = (*range(0, d, 2), *range(1, d, 2))
        return tuple(n for line in self.along for n in line.shape), order

    def coordinate(self, axis: int) -> Array:
        """Of all points of the grid; it has only one of them along all other axes."""
        shape = [1] * len(self.along)
        shape[axis] = -1
        return self.along[axis].reshape(shape)

    def at_points(self, values: np.ndarray) -> np.ndarray:
        """From the grid, or a part that stands for all of it, to (n,)."""
        split, order = self._boxes
        whole = np.broadcast_to(values, self.shape)
        return np.ascontiguousarray(whole.reshape(split).transpose(order)).ravel()

    def on_grid(self, values: np.ndarray) -> np.ndarray:
        """The way back."""
        split, order = self._boxes
        boxes = values.reshape([split[i] for i in order])
        return boxes.transpose(np.argsort(order)).reshape(self.shape)


class Gridded(np.ndarray):
    """Points (n, d) that fill a lattice; some of them are plain points again."""

    lattice: Lattice | None = None

    def __array_finalize__(self, other: object) -> None:
        self.lattice = None

    def moved(self, axis: int, value: float) -> Gridded:
        """The same points with another coordinate, one for all."""
        found = self.copy()
        found[:, axis] = value
        if self.lattice is not None:
            lines = list(self.lattice.along)
            lines[axis] = np.full_like(lines[axis], value)
            found.lattice = Lattice(tuple(lines))
        return found


def shifted(points: Array, axis: int, by: float) -> Array:
    """The same points further along an axis, on a lattice if they were."""
    found = points.copy()
    found[:, axis] += by
    if isinstance(points, Gridded) and isinstance(found, Gridded) and points.lattice is not None:
        lines = list(points.lattice.along)
        lines[axis] = lines[axis] + by
        found.lattice = Lattice(tuple(lines))
    return found


def gridded(points: Array, boxes: Sequence[int], counts: Sequence[int]) -> Gridded:
    """Points of so many boxes along every axis, with so many in each, as the grid they are."""
    d, lines = len(boxes), []
    every = points.reshape(*boxes, *counts, d)
    for i in range(d):
        own = tuple(slice(None) if k % d == i else 0 for k in range(2 * d))
        lines.append(np.ascontiguousarray(every[(*own, i)]))
    found = points.view(Gridded)
    found.lattice = Lattice(tuple(lines))
    return found


class Along(NDArrayOperatorsMixin):
    """Numbers at all points of a lattice that depend on some of its axes: (n,) to whoever asks."""

    def __init__(self, lattice: Lattice, values: np.ndarray) -> None:
        self._lattice, self._values = lattice, values

    @cached_property
    def _whole(self) -> np.ndarray:
        found = self._lattice.at_points(self._values)
        found.flags.writeable = False
        return found

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or options or ufunc.signature is not None:
            raise TypeError(ONLY_ARRAYS)
        found = ufunc(*map(self._on_grid, inputs))
        if isinstance(found, tuple):
            return tuple(Along(self._lattice, one) for one in found)
        return Along(self._lattice, found)

    def _on_grid(self, x: Any) -> Any:
        if isinstance(x, Along):
            return x._values
        if np.ndim(x) == 0:
            return x
        if np.shape(x) != (len(self),):
            raise TypeError(ONLY_ARRAYS)
        return self._lattice.on_grid(np.asarray(x))

    def __pow__(self, power: Any) -> Any:
        # Arrays square where np.power would take logarithms.
        return Along(self._lattice, self._values**power) if np.ndim(power) == 0 else NotImplemented

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self._whole if dtype is None else self._whole.astype(dtype)

    def __len__(self) -> int:
        return math.prod(self._lattice.shape)

    def __bool__(self) -> bool:
        return bool(self._whole)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._whole)

    def __getitem__(self, key: Any) -> Any:
        return self._whole[key]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._whole, name)


ONLY_ARRAYS = "only whole arrays can do that"


class Places:
    """Points as a user's function sees them: p[:, i] is a coordinate along a lattice."""

    def __init__(self, points: Gridded, lattice: Lattice) -> None:
        self.gridded, self._points, self._lattice = points, points.view(np.ndarray), lattice

    def __getitem__(self, key: Any) -> Any:
        match key:
            case ((slice(start=None, stop=None, step=None) | EllipsisType()), int(axis)):
                d = len(self._lattice.along)
                if -d <= axis < d:
                    return Along(self._lattice, self._lattice.coordinate(axis % d))
        return self._points[key]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._points, dtype=dtype)

    def __len__(self) -> int:
        return len(self._points)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._points, name)


MANY = 1_000
"""Points from which on a function is worth being asked along axes."""


def along_axes(function: Callable[[Any], Any], points: Array) -> Any:
    """What a function makes of points that fill a lattice; None if it must see plain ones."""
    if not isinstance(points, Gridded) or points.lattice is None or len(points) < MANY:
        return None
    try:
        return function(Places(points, points.lattice))
    except Exception:
        return None  # Asked with plain points it may do, or will say what is wrong.
