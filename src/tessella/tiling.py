"""Boxes side by side: the decomposition behind `coupling="interfaces"`."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tessella.decomposition import Decomposition, Index
from tessella.domain import Array, Box, Domain

Cuts = int | Sequence[float]
"""Of one axis: how many equal parts, or the edges of unequal ones, both ends included."""


SMALLEST = 2.0**-30
"""Of a slab, in parts of the mean one, when slabs are halved towards an end."""


@dataclass(frozen=True, init=False)
class Tiling(Decomposition):
    """Boxes that touch and do not overlap; every point belongs to one of them.

    Along every axis they are equal, `Tiling(domain, (8, 4))`, or lie between edges that are given,
    `Tiling(domain, ([0, 0.9, 0.99, 1], 4))`: all boxes of a slab share its width.

    A point on an interior face belongs to the box above it. There are no windows: inside its box
    the solution is the box's own features, and neighbours are joined by traces (see `interfaces`).
    """

    domain: Box
    widths: tuple[tuple[float, ...] | None, ...]
    """Per axis the widths of its slabs, None where all are equal."""

    def __init__(self, domain: Domain, subdomains: int | Sequence[Cuts]) -> None:
        if not isinstance(domain, Box):
            raise ValueError(
                f"subdomains side by side need a Box, and {domain!r} is none: leave out "
                f"coupling='interfaces' (or use a Decomposition, whose boxes overlap)"
            )
        counts, widths = _cut(domain, subdomains)
        super().__init__(domain, counts, 1.0)
        object.__setattr__(self, "widths", widths)

    @classmethod
    def of_widths(cls, domain: Domain, widths: Sequence[int | Sequence[float]]) -> Tiling:
        """Every axis by its number of equal slabs or by their widths, which fill it."""
        made = cls(domain, [own if isinstance(own, int) else len(own) for own in widths])
        own = tuple(None if isinstance(w, int) else tuple(map(float, w)) for w in widths)
        object.__setattr__(made, "widths", own)
        return made

    @property
    def described(self) -> list[int | list[float]]:
        """What `of_widths` makes it from."""
        return [
            S if own is None else list(own)
            for S, own in zip(self.subdomains, self.widths, strict=True)
        ]

    def moved(self, domain: Domain) -> Tiling:
        grown = (domain.upper - domain.lower) / (self.domain.upper - self.domain.lower)
        return Tiling.of_widths(
            domain,
            [
                S if own is None else [w * factor for w in own]
                for S, own, factor in zip(self.subdomains, self.widths, grown, strict=True)
            ],
        )

    def split(self, slabs: Sequence[Collection[int]]) -> Tiling:
        """Along every axis, these slabs in halves; the boxes of other slabs keep their bits."""
        widths: list[int | list[float]] = []
        for axis, chosen in enumerate(slabs):
            if not chosen:
                widths.append(self.described[axis])
                continue
            halves = [
                [w / 2, w / 2] if i in chosen else [w] for i, w in enumerate(self.along(axis))
            ]
            widths.append(list(itertools.chain(*halves)))
        return Tiling.of_widths(self.domain, widths)

    def towards(self, axis: int, side: int, width: float) -> Tiling:
        """The last slab at an end of an axis in halves, again and again, until it is this thin."""
        tiling = self
        while tiling.along(axis)[-side] > max(width, SMALLEST * self.spacing[axis]):
            end = side * (tiling.subdomains[axis] - 1)
            tiling = tiling.split([{end} if i == axis else () for i in range(len(self.widths))])
        return tiling

    @property
    def windowed(self) -> tuple[bool, ...]:
        return (False,) * self.domain.dimension

    @property
    def equal(self) -> bool:
        """Whether all boxes are of one size."""
        return all(own is None for own in self.widths)

    @cached_property
    def spacing(self) -> Array:
        """The mean sides of a box."""
        return (self.domain.upper - self.domain.lower) / np.array(self.subdomains)

    def along(self, axis: int) -> list[float]:
        """The widths of all slabs along an axis."""
        own = self.widths[axis]
        return [float(self.spacing[axis])] * self.subdomains[axis] if own is None else list(own)

    def edges(self, axis: int) -> Array:
        """Where the slabs along an axis begin and end."""
        low, high = self.domain.lower[axis], self.domain.upper[axis]
        own = self.widths[axis]
        if own is None:
            found = low + np.arange(self.subdomains[axis] + 1) * self.spacing[axis]
        else:
            found = low + np.concatenate([[0.0], np.cumsum(own)])
        found[-1] = high
        return np.asarray(found)

    @cached_property
    def half_widths(self) -> Array:
        sides = [np.array(self.along(axis))[at] for axis, at in enumerate(self.multi_index.T)]
        return np.stack(sides, axis=1) / 2

    @cached_property
    def centres(self) -> Array:
        middle = self.domain.lower + (self.multi_index + 0.5) * self.spacing
        for axis, own in enumerate(self.widths):
            if own is not None:
                edges = self.edges(axis)
                middle[:, axis] = ((edges[1:] + edges[:-1]) / 2)[self.multi_index[:, axis]]
        return np.asarray(middle)

    def range_along(self, axis: int, x: Array) -> tuple[Index, Index]:
        S = self.subdomains[axis]
        if self.widths[axis] is None:
            own = np.floor((x - self.domain.lower[axis]) / self.spacing[axis])
        else:
            own = np.searchsorted(self.edges(axis), x, side="right") - 1
        own = np.clip(own, 0, S - 1).astype(np.int64)
        return own, own

    def pairs_per_point(self) -> int:
        return 1


def _cut(
    domain: Box, given: int | Sequence[Cuts]
) -> tuple[int | list[int], tuple[tuple[float, ...] | None, ...]]:
    """Numbers of slabs, and the widths of those that are not equal."""
    d = domain.dimension
    if not isinstance(given, Sequence) or all(np.ndim(own) == 0 for own in given):
        return given, (None,) * d  # type: ignore[return-value]
    if len(given) != d:
        raise ValueError(
            f"subdomains must be one number or one entry per axis ({', '.join(domain.axes)}), each "
            f"a number or a list of edges, got {given!r}"
        )
    counts: list[int] = []
    widths: list[tuple[float, ...] | None] = []
    for axis, (low, high), own in zip(domain.axes, domain.bounds, given, strict=True):
        if np.ndim(own) == 0:
            counts.append(own)  # type: ignore[arg-type]
            widths.append(None)
            continue
        edges = np.asarray(own, dtype=np.float64)
        near = 1e-12 * (high - low)
        ends = len(edges) > 1 and abs(edges[0] - low) <= near and abs(edges[-1] - high) <= near
        if edges.ndim != 1 or not ends or not np.all(np.diff(edges) > near):
            raise ValueError(
                f"the edges of the subdomains along {axis} must increase from {low:g} to "
                f"{high:g}, got {list(np.ravel(own))!r}"
            )
        counts.append(len(edges) - 1)
        widths.append(tuple(_snapped(np.diff(edges), 4 * np.spacing(np.max(np.abs(edges))))))
    return counts, tuple(widths)


def _snapped(widths: Array, rounding: float) -> list[float]:
    """Widths that differ by rounding only made equal, so that equal boxes are recognised."""
    found: list[float] = []
    for w in widths.tolist():
        found.append(next((v for v in found if abs(v - w) <= rounding), w))
    return found
