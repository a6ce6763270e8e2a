"""New domains from old ones: sets joined and cut, boundaries named, axes added."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from tessella.geometry.domain import (
    NEAR,
    PROBE,
    Bounds,
    Description,
    Domain,
    Surface,
    check_name,
    join,
    spelled_bounds,
)
from tessella.machine.arrays import Array


def _scatter_on(
    domain: Domain, part: str, count: int, draw: np.random.Generator, around: Domain
) -> Surface:
    return domain.scatter_on(part, count, draw, around)


BINDING = "|&-"
"""From loose to tight, as Python reads them."""


def _inside(domain: Domain, tight: int = len(BINDING)) -> str:
    """The text of a domain as part of another's, in parentheses where it binds less tightly."""
    loose = isinstance(domain, Combination) and BINDING.index(domain.kind) < tight
    return f"({domain!r})" if loose else repr(domain)


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
                f"{self!r}: axes {left.axes} and {right.axes} differ; "
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
            raise ValueError(f"{self!r} is empty: the two do not meet")
        object.__setattr__(self, "axes", left.axes)
        object.__setattr__(self, "bounds", bounds)

    def __repr__(self) -> str:
        tight = BINDING.index(self.kind)
        return f"{_inside(self.left, tight)} {self.kind} {_inside(self.right, tight + 1)}"

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

    def describe(self) -> Description:
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
        return f"{_inside(self.domain)}.named({self.name!r})"

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

    def describe(self) -> Description:
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
        ends = spelled_bounds((self.axis,), ((self.low, self.high),))
        return f"{_inside(self.base)}.over({ends})"

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
        """Points that follow each other along the last axis are one point of the base."""
        last, others = points[:, -1], points[:, :-1]
        new = np.ones(len(points), dtype=bool)
        new[1:] = np.any(others[1:] != others[:-1], axis=1)
        base = self.base.signed_distance(others[new])[np.cumsum(new) - 1]
        return np.maximum(base, np.maximum(self.low - last, last - self.high))

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

    def describe(self) -> Description:
        ends = {self.axis: (self.low, self.high)}
        return {"shape": "extrusion", "base": self.base.describe(), "over": ends}
