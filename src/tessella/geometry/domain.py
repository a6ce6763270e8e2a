"""What every domain answers, and new domains from old ones: `|`, `&`, `-`, `named`, `over`."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tessella.machine.arrays import Array

Bounds = tuple[tuple[float, float], ...]
Surface = tuple[Array, Array]
"""Points of a boundary and the outward unit normals there, both (n, d)."""

NEAR = 1e-9
"""Points this close to a boundary lie on it, in parts of the domain's diameter."""

PROBE = 1e-6
"""How far inside and outside a boundary point is probed, in the same unit."""

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

    def describe(self) -> dict[str, Any]:
        """Plain numbers and names from which `load` builds the domain again."""
        raise NotImplementedError

    def __or__(self, other: Domain) -> Domain:
        return Combination("|", self, other)

    def __and__(self, other: Domain) -> Domain:
        return Combination("&", self, other)

    def __sub__(self, other: Domain) -> Domain:
        return Combination("-", self, other)

    def named(self, name: str) -> Domain:
        """The same set; its whole boundary is one part of this name."""
        return Named(self, name)

    def over(self, **axis: tuple[float, float]) -> Domain:
        """The set at every value of one more axis: `disc.over(t=(0, 1))`, `disc.over(z=(0, 2))`.

        The new ends are the parts `tmin` and `tmax`; an axis `t` is time, as in a Box.
        """
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
        """Regular grid of the bounding box, end points included, one row per point, last axis
        fastest. Along a periodic axis the upper end, which is the lower one, is left out."""
        ticks = [
            np.linspace(low, high, n, endpoint=axis not in self.periodic)
            if n > 1
            else np.array([(low + high) / 2])
            for axis, (low, high), n in zip(self.axes, self.bounds, counts, strict=True)
        ]
        return np.stack(np.meshgrid(*ticks, indexing="ij"), axis=-1).reshape(-1, self.dimension)

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
        if not len(self.interior((per_axis,) * self.dimension)):
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


def interval(ends: Any, what: str) -> tuple[float, float]:
    """A checked pair low < high."""
    try:
        low, high = (float(end) for end in ends)
    except (TypeError, ValueError):
        raise ValueError(f"{what} must be a pair (low, high), got {ends!r}") from None
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
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


def _scatter_on(
    domain: Domain, part: str, count: int, draw: np.random.Generator, around: Domain
) -> Surface:
    return domain.scatter_on(part, count, draw, around)


@dataclass(frozen=True, repr=False)
class Combination(Domain):
    """`left | right`, `left & right` or `left - right`.

    Each side samples its own boundary; of those points stay the ones with the combination on one
    side and not on the other. Where both sides have the same boundary, it belongs to the left one.
    """

    kind: str
    left: Domain
    right: Domain
    axes: tuple[str, ...] = field(init=False, compare=False)
    bounds: Bounds = field(init=False, compare=False)

    def __post_init__(self) -> None:
        left, right = self.left, self.right
        if not isinstance(right, Domain):
            raise TypeError(
                f"a domain {self.kind} {right!r}: expected another domain, e.g. Ball(x=0, y=0, "
                f"radius=1); a shapely polygon goes through Polygon(...)"
            )
        if left.axes != right.axes:
            raise ValueError(
                f"{left!r} {self.kind} {right!r}: axes {left.axes} and {right.axes} differ; "
                f"combine shapes in space first and add time last with .over(t=(0, 1))"
            )
        pairs = list(zip(left.bounds, right.bounds, strict=True))
        if self.kind == "|":
            bounds = tuple((min(a, c), max(b, d)) for (a, b), (c, d) in pairs)
        elif self.kind == "&":
            bounds = tuple((max(a, c), min(b, d)) for (a, b), (c, d) in pairs)
        else:
            bounds = left.bounds
        if any(low >= high for low, high in bounds):
            raise ValueError(f"{left!r} & {right!r} is empty: the two do not meet")
        object.__setattr__(self, "axes", left.axes)
        object.__setattr__(self, "bounds", bounds)

    def __repr__(self) -> str:
        return f"({self.left!r} {self.kind} {self.right!r})"

    @cached_property
    def parts(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.left.parts + self.right.parts))

    @cached_property
    def walls(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.left.walls + self.right.walls))

    def signed_distance(self, points: Array) -> Array:
        left, right = self.left.signed_distance(points), self.right.signed_distance(points)
        if self.kind == "|":
            return np.minimum(left, right)
        return np.maximum(left, right if self.kind == "&" else -right)

    def contains(self, points: Array) -> NDArray[np.bool_]:
        """Which points lie inside or on the boundary; where those of both meet, only what has
        inner points next to it: the edge of a box is no part of it once its corner is cut off."""
        found = super().contains(points)
        near = NEAR * self.diameter
        sides = (self.left.signed_distance(points), self.right.signed_distance(points))
        both = np.flatnonzero(found & (np.abs(sides) <= near).all(axis=0))
        if len(both):
            steps = (
                1e3 * near * np.array(list(itertools.product((-1, 0, 1), repeat=points.shape[1])))
            )
            beside = [self.signed_distance(points[both] + step) < -near for step in steps]
            found[both] = np.any(beside, axis=0)
        return found

    def surface(self, part: str, spacing: Array, around: Domain) -> Surface:
        return self._select(part, lambda side: side.surface(part, spacing, around))

    def scatter_on(
        self, part: str, count: int, draw: np.random.Generator, around: Domain
    ) -> Surface:
        wanted = count
        while True:
            sample = partial(_scatter_on, part=part, count=wanted, draw=draw, around=around)
            points, normals = self._select(part, sample)
            if len(points) >= count // 2 or wanted > 64 * count:
                break
            wanted *= 4
        order = draw.permutation(len(points))[:count]
        return points[order], normals[order]

    def _select(self, part: str, sample: Callable[[Domain], Surface]) -> Surface:
        surfaces = []
        if part in self.left.parts:
            surfaces.append(sample(self.left))
        if part in self.right.parts:
            points, normals = sample(self.right)
            apart = np.abs(self.left.signed_distance(points)) > NEAR * self.diameter
            sign = -1.0 if self.kind == "-" else 1.0
            surfaces.append((points[apart], sign * normals[apart]))
        points, normals = join(surfaces, self.dimension)
        step = PROBE * self.diameter * normals
        ours = (self.signed_distance(points - step) < 0) & (self.signed_distance(points + step) > 0)
        return points[ours], normals[ours]

    def describe(self) -> dict[str, Any]:
        sides = {"left": self.left.describe(), "right": self.right.describe()}
        return {"shape": "combination", "kind": self.kind, **sides}


@dataclass(frozen=True, repr=False)
class Named(Domain):
    """A domain whose whole boundary is one part."""

    domain: Domain
    name: str
    axes: tuple[str, ...] = field(init=False, compare=False)
    bounds: Bounds = field(init=False, compare=False)

    def __post_init__(self) -> None:
        check_name(self.name, "named()")
        object.__setattr__(self, "axes", self.domain.axes)
        object.__setattr__(self, "bounds", self.domain.bounds)

    def __repr__(self) -> str:
        return f"{self.domain!r}.named({self.name!r})"

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.name,)

    def signed_distance(self, points: Array) -> Array:
        return self.domain.signed_distance(points)

    def surface(self, part: str, spacing: Array, around: Domain) -> Surface:
        inner = self.domain
        return join((inner.surface(p, spacing, around) for p in inner.parts), self.dimension)

    def scatter_on(
        self, part: str, count: int, draw: np.random.Generator, around: Domain
    ) -> Surface:
        inner = self.domain
        each = -(-count // len(inner.parts))
        return join((inner.scatter_on(p, each, draw, around) for p in inner.parts), self.dimension)

    def describe(self) -> dict[str, Any]:
        return {"shape": "named", "name": self.name, "domain": self.domain.describe()}


@dataclass(frozen=True, repr=False)
class Extrusion(Domain):
    """A domain at every value between `low` and `high` of one more axis."""

    base: Domain
    axis: str
    low: float
    high: float
    axes: tuple[str, ...] = field(init=False, compare=False)
    bounds: Bounds = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", (*self.base.axes, self.axis))
        object.__setattr__(self, "bounds", (*self.base.bounds, (self.low, self.high)))

    def __repr__(self) -> str:
        return f"{self.base!r}.over({self.axis}=({self.low:g}, {self.high:g}))"

    @property
    def ends(self) -> tuple[str, str]:
        return f"{self.axis}min", f"{self.axis}max"

    @property
    def parts(self) -> tuple[str, ...]:
        return (*self.base.parts, *self.ends)

    @property
    def walls(self) -> tuple[str, ...]:
        return self.base.walls if self.axis == "t" else (*self.base.walls, *self.ends)

    def signed_distance(self, points: Array) -> Array:
        last = points[:, -1]
        return np.maximum(
            self.base.signed_distance(points[:, :-1]), np.maximum(self.low - last, last - self.high)
        )

    def closure(self, counts: tuple[int, ...]) -> Array:
        """From end to end: an equation in time also holds at the first moment."""
        ticks = np.linspace(self.low, self.high, counts[-1])
        return self._product(self.base.closure(counts[:-1]), ticks)

    def surface(self, part: str, spacing: Array, around: Domain) -> Surface:
        if part in self.ends:
            gaps = (self.base.upper - self.base.lower) / spacing[:-1]
            counts = tuple(int(n) for n in np.ceil(gaps - 1e-9) + 1)
            return self._end(part, self.base.closure(counts))
        points, normals = self.base.surface(part, spacing[:-1], around)
        n = int(np.ceil((self.high - self.low) / spacing[-1] - 1e-9)) + 1
        ticks = np.linspace(self.low, self.high, n)
        return self._product(points, ticks), self._product(normals, np.zeros(n))

    def scatter_on(
        self, part: str, count: int, draw: np.random.Generator, around: Domain
    ) -> Surface:
        if part in self.ends:
            return self._end(part, self.base.scatter(count, draw))
        points, normals = self.base.scatter_on(part, count, draw, around)
        when = self.low + (self.high - self.low) * draw.random(len(points))
        return np.column_stack([points, when]), np.column_stack([normals, 0.0 * when])

    def _end(self, part: str, points: Array) -> Surface:
        at, sign = (self.low, -1.0) if part == self.ends[0] else (self.high, 1.0)
        normals = np.zeros((len(points), self.dimension))
        normals[:, -1] = sign
        return np.column_stack([points, np.full(len(points), at)]), normals

    def _product(self, points: Array, ticks: Array) -> Array:
        last = np.tile(ticks, len(points))
        return np.column_stack([np.repeat(points, len(ticks), axis=0), last])

    def describe(self) -> dict[str, Any]:
        ends = {self.axis: (self.low, self.high)}
        return {"shape": "extrusion", "base": self.base.describe(), "over": ends}


def check_name(name: object, what: str) -> None:
    if not (isinstance(name, str) and name):
        raise ValueError(f"{what} name must be a word that conditions can use, got {name!r}")
