"""Boxes side by side: the decomposition behind `coupling="interfaces"`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tessella.decomposition import Decomposition, Index
from tessella.domain import Array, Box, Domain


@dataclass(frozen=True, init=False)
class Tiling(Decomposition):
    """Equal boxes that touch and do not overlap; every point belongs to one of them.

    A point on an interior face belongs to the box above it. There are no windows: inside its box
    the solution is the box's own features, and neighbours are joined by traces (see `interfaces`).
    """

    domain: Box

    def __init__(self, domain: Domain, subdomains: int | Sequence[int]) -> None:
        if not isinstance(domain, Box):
            raise ValueError(
                f"subdomains side by side need a Box, and {domain!r} is none: leave out "
                f"coupling='interfaces' (or use a Decomposition, whose boxes overlap)"
            )
        super().__init__(domain, subdomains, 1.0)

    def moved(self, domain: Domain) -> Tiling:
        return Tiling(domain, self.subdomains)

    @property
    def windowed(self) -> tuple[bool, ...]:
        return (False,) * self.domain.dimension

    @cached_property
    def spacing(self) -> Array:
        """The sides of a box."""
        return (self.domain.upper - self.domain.lower) / np.array(self.subdomains)

    @cached_property
    def half_width(self) -> Array:
        return self.spacing / 2

    @cached_property
    def centres(self) -> Array:
        return self.domain.lower + (self.multi_index + 0.5) * self.spacing

    def range_along(self, axis: int, x: Array) -> tuple[Index, Index]:
        s = (x - self.domain.lower[axis]) / self.spacing[axis]
        own = np.clip(np.floor(s), 0, self.subdomains[axis] - 1).astype(np.int64)
        return own, own

    def pairs_per_point(self) -> int:
        return 1
