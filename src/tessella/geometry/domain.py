"""What every domain answers."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.machine.arrays import Array

Bounds = tuple[tuple[float, float], ...]
Surface = tuple[Array, Array]
"""Points of a boundary and the outward unit normals there, both (n, d)."""

Description = Mapping[str, object]
"""Plain numbers and names, as a JSON file may hold them."""

NEAR = 1e-9
"""Points this close to a boundary lie on it, in parts of the domain's diameter."""

PROBE = 1e-6
"""How far inside and outside a boundary point is probed, in the same unit."""

COARSER = 8
"""By so much fewer points per axis are looked at first: most domains have some of them inside."""

SEARCH = 40_000
"""Grid points among which at least one must lie inside a domain that is not empty."""


class Domain:
    """A set of points with named axes, a bounding box, and a boundary made of named parts.

    Domains combine as sets: `a | b`, `a & b`, `a - b`. `a.named("hole")` makes its boundary one
    part of that name, and `a.over(t=(0, 1))` adds an axis. Parts of the same name are one part.
    """

    axes: tuple[str, ...]
    bounds: Bounds
    periodic: tuple[str, ...] = ()
    """The axes whose ends are the same place; a Box may have some."""

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts of the boundary."""
        raise NotImplementedError

    @property
    def walls(self) -> tuple[str, ...]:
        """The parts that bound space, not time: what "the whole boundary" means."""
        return self.parts

    def signed_distance(self, points: Array) -> Array:
        """Negative inside, positive outside, zero on the boundary; never more than the distance."""
        raise NotImplementedError

    def surface(self, part: str, spacing: Array, around: Domain) -> Surface:
        """Regular points on a part, about `spacing` (per axis) apart, and the normals there.

        Of a boundary without end, the piece in the bounding box of `around`.
        """
        raise NotImplementedError

    def scatter_on(
        self, part: str, count: int, draw: np.random.Generator, around: Domain
    ) -> Surface:
        """About `count` random points on a part and the normals there; `around` as above."""
        raise NotImplementedError

    def describe(self) -> Description:
        """What `load` builds the domain from again."""
        raise NotImplementedError

    def __or__(self, other: Domain) -> Domain:
        return self._with("|", other)

    def __and__(self, other: Domain) -> Domain:
        return self._with("&", other)

    def __sub__(self, other: Domain) -> Domain:
        return self._with("-", other)

    def _with(self, kind: str, other: Domain) -> Domain:
        from tessella.geometry.combinations import Combination

        return Combination(kind, self, other)

    def named(self, name: str) -> Domain:
        """The same set; its whole boundary is one part of this name."""
        from tessella.geometry.combinations import Named

        return Named(self, name)

    def over(self, **axis: tuple[float, float]) -> Domain:
        """The set at every value of one more axis: `disc.over(t=(0, 1))`, `disc.over(z=(0, 2))`.

        The new ends are the parts `tmin` and `tmax`; an axis `t` is time, as in a Box.
        """
        from tessella.geometry.combinations import Extrusion

        return Extrusion(self, *one_axis(self, axis))

    @property
    def regions(self) -> tuple[str, ...]:
        """Names of the regions the domain is divided into; most are not."""
        return ()

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
    def diameter(self) -> float:
        """Of the bounding box."""
        return float(np.linalg.norm(self.upper - self.lower))

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

    def axis_index(self, name: str) -> int:
        if name not in self.axes:
            raise ValueError(f"unknown axis {name!r}: this domain has {', '.join(self.axes)}")
        return self.axes.index(name)

    def part(self, name: str) -> str:
        """The name itself, if the boundary has such a part."""
        if name not in self.parts:
            close = difflib.get_close_matches(str(name), self.parts, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            if name in ("tmin", "tmax") and "t" not in self.axes:
                hint = "; a start in time needs an axis t, e.g. Box(x=(0, 1), t=(0, 1))"
            raise ValueError(
                f"unknown face {name!r}: this domain has {', '.join(self.parts)}{hint}"
            )
        return name

    def points(self, points: ArrayLike) -> Array:
        """Check and shape user-given points into an (n, d) float array."""
        array = real_numbers(points, "points")
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
        """Regular grid of the bounding box, end points included, one row per point, last axis
        fastest. Along a periodic axis the upper end, which is the lower one, is left out."""
        ticks = [
            np.linspace(low, high, n, endpoint=axis not in self.periodic)
            if n > 1
            else np.array([(low + high) / 2])
            for axis, (low, high), n in zip(self.axes, self.bounds, counts, strict=True)
        ]
        sizes = [len(own) for own in ticks]
        # Not by meshgrid, whose arrays have at most 64 axes.
        columns = [
            np.tile(np.repeat(own, math.prod(sizes[i + 1 :])), math.prod(sizes[:i]))
            for i, own in enumerate(ticks)
        ]
        return np.stack(columns, axis=1)

    def contains(self, points: Array) -> NDArray[np.bool_]:
        """Which points lie inside or on the boundary."""
        return self.signed_distance(points) <= NEAR * self.diameter

    def inside(self, region: str, points: Array) -> NDArray[np.bool_]:
        """Which points lie in a region of a divided domain."""
        raise ValueError(f"unknown region {region!r}: {self!r} is not divided, see Divided")

    def interior(self, counts: tuple[int, ...]) -> Array:
        """The points inside of the bounding box's grid of so many points per axis."""
        grid = self.grid(counts)
        return grid[self.signed_distance(grid) < -NEAR * self.diameter]

    def closure(self, counts: tuple[int, ...]) -> Array:
        """Where an equation is asked: inside, and at the points of all walls."""
        walls = [self.boundary(part, counts)[0] for part in self.walls]
        return np.concatenate([self.interior(counts), *walls])

    def boundary(self, part: str, counts: tuple[int, ...]) -> Surface:
        """Points on a part as far apart as on that grid, and the outward normals there."""
        gaps = np.maximum(np.array(counts) - 1, 1)
        return self.surface(self.part(part), (self.upper - self.lower) / gaps, self)

    def scatter(self, count: int, draw: np.random.Generator) -> Array:
        """Random points inside, uniformly."""
        found: list[Array] = []
        missing, tried = count, 0
        while missing > 0 and tried < 1_000 * count:
            x = self.lower + (self.upper - self.lower) * draw.random((2 * count, self.dimension))
            found.append(x[self.signed_distance(x) < 0][:missing])
            missing -= len(found[-1])
            tried += len(x)
        return np.concatenate(found)

    def check(self) -> None:
        """Refuse a domain on which no problem can be stated: unbounded, or empty."""
        if not np.all(np.isfinite(self.lower) & np.isfinite(self.upper)):
            raise ValueError(
                f"{self!r} is unbounded: intersect it with a Box, e.g. Box(...) & {self!r}"
            )
        per_axis = round(SEARCH ** (1 / self.dimension))
        few = max(2, per_axis // COARSER)
        if not any(len(self.interior((n,) * self.dimension)) for n in (few, per_axis)):
            raise ValueError(
                f"{self!r} is empty, or too thin to see: none of {per_axis} points per axis of its "
                f"bounding box lies inside"
            )


def one_axis(domain: Domain, axis: dict[str, tuple[float, float]]) -> tuple[str, float, float]:
    """The name and the ends of the axis that `over` adds."""
    if len(axis) != 1:
        raise ValueError(f"over() takes one axis, e.g. over(t=(0, 1)), got {axis!r}")
    ((name, ends),) = axis.items()
    if name in domain.axes:
        raise ValueError(f"over({name}=...): {domain!r} already has the axis {name!r}")
    return name, *interval(ends, f"over() axis {name!r}")


def real_numbers(values: ArrayLike, what: str) -> Array:
    """An array of floats, unless some were lost on the way."""
    if np.ma.is_masked(values):
        raise ValueError(
            f"{what} are a masked array, whose masked entries hold anything: leave those rows out"
        )
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "fiubO":
            raise ValueError(f"{what} must be real numbers, got {array.dtype} values")
        return array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        if what in str(error):
            raise
        raise ValueError(f"{what} must be an array of real numbers, got {values!r}") from None


def interval(ends: Iterable[float], what: str) -> tuple[float, float]:
    """A checked pair low < high."""
    try:
        low, high = (float(end) for end in ends)
    except (TypeError, ValueError):
        raise ValueError(f"{what} must be a pair (low, high), got {ends!r}") from None
    if not (np.isfinite(high - low) and low < high):
        raise ValueError(f"{what} must have finite low < high, got ({low:g}, {high:g})")
    return low, high


def inset(count: int) -> Array:
    """`count` positions in (0, 1), a quarter of their spacing away from both ends.

    The ends are corners, where a boundary has two normals; points near them have one.
    """
    if count == 1:
        return np.array([0.5])
    return (np.arange(count, dtype=np.float64) + 0.25) / (count - 0.5)


def join(surfaces: Iterable[Surface], dimension: int) -> Surface:
    """Several surfaces as one."""
    kept = list(surfaces)
    if not kept:
        return np.zeros((0, dimension)), np.zeros((0, dimension))
    return np.concatenate([p for p, _ in kept]), np.concatenate([n for _, n in kept])


def spelled_bounds(axes: Sequence[str], bounds: Bounds) -> str:
    """As a Box is given its sides: x=(0, 1), y=(0, 2)."""
    return ", ".join(f"{a}=({lo:g}, {hi:g})" for a, (lo, hi) in zip(axes, bounds, strict=True))


def spelled_name(name: str, usual: str) -> str:
    """The keyword at the end of a shape's arguments, where the name is not the usual one."""
    return "" if name == usual else f", name={name!r}"


def check_name(name: object, what: str) -> None:
    if not (isinstance(name, str) and name):
        raise ValueError(f"{what} name must be a word that conditions can use, got {name!r}")
