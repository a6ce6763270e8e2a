"""A domain in named regions, on whose common boundaries the solution may have kinks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from tessella.geometry.combinations import Extrusion
from tessella.geometry.domain import PROBE, Bounds, Description, Domain, Surface, join
from tessella.machine.arguments import check_kind
from tessella.machine.arrays import Array

REST = "rest"
"""What is left of a domain when its named regions are taken out."""


@dataclass(frozen=True, init=False, repr=False)
class Divided(Domain):
    """A domain made of regions, e.g. of different materials.

    >>> import tessella as ts
    >>> box = ts.Box(x=(-1, 1), y=(-1, 1))
    >>> domain = ts.Divided(box, core=ts.Ball(x=0, y=0, radius=0.5))
    >>> domain.regions
    ('core', 'rest')

    What no region claims is the region "rest". Each region gets features of its own, an `Equation`
    may hold `where="core"` only, and `Transmission("core", "rest")` joins the two on their common
    boundary, which is the part "core/rest". Where regions overlap, the deeper one counts.
    """

    whole: Domain
    shapes: tuple[tuple[str, Domain], ...]
    axes: tuple[str, ...] = field(compare=False)
    bounds: Bounds = field(compare=False)

    def __init__(self, whole: Domain, **regions: Domain) -> None:
        check_kind(whole, Domain, "Divided whole", "a domain, e.g. Box(x=(0, 1), y=(0, 1))")
        if not regions:
            raise ValueError("Divided needs at least one region, e.g. Divided(box, core=ball)")
        for name, shape in regions.items():
            if name == REST:
                raise ValueError(f"the region {REST!r} is what the others leave: name it otherwise")
            if not isinstance(shape, Domain):
                raise TypeError(f"the region {name!r} must be a domain, got {shape!r}")
            if shape.axes != whole.axes:
                raise ValueError(
                    f"the region {name!r} has the axes {shape.axes}, but the domain {whole.axes}"
                )
        object.__setattr__(self, "whole", whole)
        object.__setattr__(self, "shapes", tuple(regions.items()))
        object.__setattr__(self, "axes", whole.axes)
        object.__setattr__(self, "bounds", whole.bounds)

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={shape!r}" for name, shape in self.shapes)
        return f"Divided({self.whole!r}, {inside})"

    def over(self, **axis: tuple[float, float]) -> Divided:
        """The regions at every value of one more axis, as of any domain."""
        shapes = {name: shape.over(**axis) for name, shape in self.shapes}
        return Divided(self.whole.over(**axis), **shapes)

    @property
    def regions(self) -> tuple[str, ...]:
        named = tuple(name for name, _ in self.shapes)
        return (*named, REST) if self._has_rest else named

    @cached_property
    def _has_rest(self) -> bool:
        return bool(np.any(self._number(self._probe()) == len(self.shapes)))

    def _probe(self) -> Array:
        return self.whole.scatter(4096, np.random.default_rng(0))

    def _depths(self, points: Array) -> Array:
        within = np.clip(points, self.lower, self.upper)  # beyond the end of time by rounding
        return np.stack([shape.signed_distance(within) for _, shape in self.shapes])

    def depth(self, region: str, points: Array) -> Array:
        """Of a named region: negative inside, zero where it ends and where a deeper one begins."""
        k = [name for name, _ in self.shapes].index(region)
        depths = self._depths(points)
        others = np.delete(depths, k, axis=0).min(axis=0, initial=np.inf)
        return np.maximum(depths[k], depths[k] - others)

    def _number(self, points: Array) -> NDArray[np.intp]:
        depths = self._depths(points)
        return np.where(depths.min(axis=0) > 0, len(self.shapes), depths.argmin(axis=0))

    def inside(self, region: str, points: Array) -> NDArray[np.bool_]:
        return self._number(points) == self.regions.index(region)

    def check(self) -> None:
        self.whole.check()
        numbers = self._number(self._probe())
        for k, (name, shape) in enumerate(self.shapes):
            if not np.any(numbers == k):
                raise ValueError(
                    f"the region {name!r}, {shape!r}, is empty or outside {self.whole!r}: drop it, "
                    f"or move it inside"
                )

    @cached_property
    def parts(self) -> tuple[str, ...]:
        return (*self.whole.parts, *("/".join(pair) for pair in combinations(self.regions, 2)))

    @property
    def walls(self) -> tuple[str, ...]:
        return self.whole.walls

    def signed_distance(self, points: Array) -> Array:
        return self.whole.signed_distance(points)

    def contains(self, points: Array) -> NDArray[np.bool_]:
        return self.whole.contains(points)

    def closure(self, counts: tuple[int, ...]) -> Array:
        return self.whole.closure(counts)

    def boundary(self, part: str, counts: tuple[int, ...]) -> Surface:
        if self.part(part) in self.whole.parts:
            return self.whole.boundary(part, counts)
        return super().boundary(part, counts)

    def surface(self, part: str, spacing: Array, around: Domain) -> Surface:
        if part in self.whole.parts:
            return self.whole.surface(part, spacing, around)
        return self._between(part, lambda shape, own: shape.surface(own, spacing, around))

    def scatter_on(
        self, part: str, count: int, draw: np.random.Generator, around: Domain
    ) -> Surface:
        if part in self.whole.parts:
            return self.whole.scatter_on(part, count, draw, around)
        return self._between(part, lambda shape, own: shape.scatter_on(own, count, draw, around))

    def _between(self, part: str, sample: Callable[[Domain, str], Surface]) -> Surface:
        """Points where the first region ends and the second begins; normals leave the first."""
        first, second = part.split("/")
        shape = dict(self.shapes)[first]
        parts = [own for own in shape.parts if not self._ends_with(shape, own)]
        points, normals = join((sample(shape, own) for own in parts), self.dimension)
        step = PROBE * self.diameter * normals
        ours = self.inside(first, points - step) & self.inside(second, points + step)
        ours &= self.contains(points - step) & self.contains(points + step)
        return points[ours], normals[ours]

    def _ends_with(self, shape: Domain, part: str) -> bool:
        """Whether a part of a region is an end of all that there is over an axis."""
        return (
            isinstance(shape, Extrusion)
            and part in shape.ends
            and shape.bounds[-1] == self.bounds[-1]
        )

    def describe(self) -> Description:
        return {
            "shape": "divided",
            "whole": self.whole.describe(),
            "regions": {name: shape.describe() for name, shape in self.shapes},
        }
