"""Boxes side by side: the decomposition behind `coupling="interfaces"`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from tessella.cells.boxes.faces import Faces, interior_faces
from tessella.cells.boxes.tree import Cell, Leaves, Roots, balanced, leaves
from tessella.cells.cut.slivers import hosts
from tessella.geometry.box import Box
from tessella.geometry.combinations import Extrusion
from tessella.geometry.domain import Domain
from tessella.machine.arguments import check_kind
from tessella.machine.arrays import Array
from tessella.overlap.decomposition import Decomposition, Index

Cuts = int | Sequence[float]
"""Of one axis: how many equal parts, or the edges of unequal ones, both ends included."""


NEAR_FACE = 1e-7
"""Points this close to a face lie on it, in parts of the smallest box."""

FEW = 8
"""Slabs along an axis whose edges are printed."""

SMALLEST, DEEPEST = 2.0**-28, 16
"""No slab thinner than this part of its side is halved, and no box of this level is cut."""


@dataclass(frozen=True, init=False)
class Tiling(Decomposition):
    """Boxes that touch and do not overlap; every point belongs to one of them.

    Along every axis they are equal, `Tiling(domain, (8, 4))`, or lie between edges that are given,
    `Tiling(domain, ([0, 0.9, 0.99, 1], 4))`: all boxes of a slab share its width. From there slabs
    can be halved, `split`, or single boxes cut in 2^d equal parts, `refined`.

    A shape is covered by the boxes of its bounding box; those outside take no part. A point on an
    interior face belongs to the box above it. There are no windows: inside its box the solution is
    the box's own features, and neighbours exchange data over their faces (see `cells`).

    >>> import tessella as ts
    >>> tiling = ts.Tiling(ts.Box(x=(0, 1), y=(0, 1)), ([0, 0.75, 1], 2))
    >>> tiling
    Tiling(Box(x=(0, 1), y=(0, 1)), ([0, 0.75, 1], 2))
    >>> tiling.refined([3])
    Tiling(Box(x=(0, 1), y=(0, 1)), ([0, 0.75, 1], 2)), some cut: 7 boxes
    >>> tiling.refined([3]).half_widths.min(axis=0).tolist()
    [0.0625, 0.125]
    """

    side_by_side: ClassVar[bool] = True

    domain: Domain
    widths: tuple[tuple[float, ...] | None, ...]
    """Per axis the widths of its slabs, None where all are equal."""
    cut: frozenset[Cell]
    """Boxes of these slabs, and parts of boxes, that are in parts (see `tree`)."""

    def __init__(self, domain: Domain, subdomains: int | Sequence[Cuts]) -> None:
        check_kind(domain, Domain, "domain", "a domain, e.g. Box(x=(0, 1))")
        counts, widths = _cut(domain, subdomains)
        super().__init__(domain, counts, 1.0)
        object.__setattr__(self, "widths", widths)
        object.__setattr__(self, "cut", frozenset())

    def __repr__(self) -> str:
        along = [self._named(axis) for axis in range(len(self.widths))]
        cuts = ", ".join(along) + ("," if len(along) == 1 else "")
        refined = f", some cut: {self.count:,} boxes" if self.cut else ""
        return f"Tiling({self.domain!r}, ({cuts})){refined}"

    def _named(self, axis: int) -> str:
        """The slabs along an axis, by their edges if they are few and not equal."""
        count = self.subdomains[axis]
        if self.widths[axis] is None or count > FEW:
            return str(count) if self.widths[axis] is None else f"{count} unequal"
        return f"[{', '.join(f'{edge:.4g}' for edge in self.edges(axis).tolist())}]"

    @classmethod
    def of_widths(
        cls,
        domain: Domain,
        widths: Sequence[int | Sequence[float]],
        cut: Iterable[Sequence[int]] = (),
    ) -> Tiling:
        """Every axis by its number of equal slabs or by their widths, which fill it; and the boxes
        that are cut."""
        made = cls(domain, [own if isinstance(own, int) else len(own) for own in widths])
        own = tuple(None if isinstance(w, int) else tuple(map(float, w)) for w in widths)
        object.__setattr__(made, "widths", own)
        object.__setattr__(made, "cut", balanced(made.roots, frozenset(), map(tuple, cut)))
        return made

    @property
    def described(self) -> list[int | list[float]]:
        """The widths that `of_widths` makes it from."""
        return [
            S if own is None else list(own)
            for S, own in zip(self.subdomains, self.widths, strict=True)
        ]

    def moved(self, domain: Domain) -> Tiling:
        grown = (domain.upper - domain.lower) / (self.domain.upper - self.domain.lower)
        made = Tiling.of_widths(
            domain,
            [
                S if own is None else [w * factor for w in own]
                for S, own, factor in zip(self.subdomains, self.widths, grown, strict=True)
            ],
            self.cut,
        )
        own = self.domain
        if isinstance(own, Extrusion) and isinstance(domain, Extrusion) and own.base == domain.base:
            made.__dict__["hosts"] = self.hosts
        return made

    def split(self, slabs: Sequence[Collection[int]]) -> Tiling:
        """Along every axis, these slabs in halves; the boxes of other slabs keep their bits."""
        if self.cut:
            raise ValueError("slabs have no halves any more once boxes are cut: use refined()")
        widths: list[int | list[float]] = []
        least = SMALLEST * (self.domain.upper - self.domain.lower)
        for axis, chosen in enumerate(slabs):
            if not chosen:
                widths.append(self.described[axis])
                continue
            halves = [
                [w / 2, w / 2] if i in chosen and w > least[axis] else [w]
                for i, w in enumerate(self.along(axis))
            ]
            widths.append(list(itertools.chain(*halves)))
        return Tiling.of_widths(self.domain, widths)

    def refined(self, boxes: Iterable[int]) -> Tiling:
        """These boxes in 2^d equal parts each, and their neighbours where they would otherwise be
        more than twice as large; all others keep their bits."""
        level, place = self.leaves
        cells = [(int(level[j]), *place[j].tolist()) for j in boxes if level[j] < DEEPEST]
        cut = balanced(self.roots, self.cut, cells)
        return Tiling.of_widths(self.domain, self.described, cut)

    @cached_property
    def roots(self) -> Roots:
        """The boxes of all slabs."""
        return Roots(self.subdomains, self.wraps)

    @cached_property
    def leaves(self) -> Leaves:
        """Every box as a part of the slabs' boxes."""
        if not self.cut:
            at = np.unravel_index(np.arange(math.prod(self.subdomains)), self.subdomains)
            return Leaves(np.zeros(len(at[0]), dtype=np.int64), np.stack(at, axis=1))
        return leaves(self.roots, self.cut)

    @cached_property
    def faces(self) -> tuple[Faces, ...]:
        """Where boxes touch, axis by axis."""
        return interior_faces(self)

    @cached_property
    def hosts(self) -> Index | None:
        """Of every box the one whose features it has, where some are slivers (see `slivers`)."""
        return hosts(self)

    @property
    def count(self) -> int:
        return len(self.leaves.level) if self.cut else math.prod(self.subdomains)

    @cached_property
    def multi_index(self) -> Index:
        """Of every box, the slabs it lies in."""
        return self.leaves.place >> self.leaves.level[:, None]

    def at_end(self, axis: int, side: int) -> Index:
        """The boxes at the lower or upper end of an axis."""
        last = (self.subdomains[axis] << self.leaves.level) - 1
        return np.flatnonzero(self.leaves.place[:, axis] == side * last)

    def towards(self, axis: int, side: int, width: float) -> Tiling:
        """The last slab at an end of an axis in halves, again and again, until it is this thin."""
        tiling = self
        least = SMALLEST * (self.domain.upper[axis] - self.domain.lower[axis])
        while tiling.along(axis)[-side] > max(width, least):
            end = side * (tiling.subdomains[axis] - 1)
            tiling = tiling.split([{end} if i == axis else () for i in range(len(self.widths))])
        return tiling

    @property
    def windowed(self) -> tuple[bool, ...]:
        return (False,) * self.domain.dimension

    @property
    def equal(self) -> bool:
        """Whether all boxes are of one size."""
        return not self.cut and all(own is None or len(set(own)) == 1 for own in self.widths)

    @property
    def half_width(self) -> Array:
        raise AttributeError("the boxes of a Tiling have half_widths, each its own")

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
        return np.asarray(np.stack(sides, axis=1) * 0.5 ** (1 + self.leaves.level[:, None]))

    @cached_property
    def centres(self) -> Array:
        middle = self.domain.lower + (self.multi_index + 0.5) * self.spacing
        for axis, own in enumerate(self.widths):
            if own is not None:
                edges = self.edges(axis)
                middle[:, axis] = ((edges[1:] + edges[:-1]) / 2)[self.multi_index[:, axis]]
        if self.cut:
            # From the slab's centre to the part's, in half widths of the part.
            parts = (1 << self.leaves.level)[:, None]
            middle += (2 * (self.leaves.place % parts) + 1 - parts) * self.half_widths
        return np.asarray(middle)

    def range_along(self, axis: int, x: Array) -> tuple[Index, Index]:
        S = self.subdomains[axis]
        if self.widths[axis] is None:
            own = np.floor((x - self.domain.lower[axis]) / self.spacing[axis])
        else:
            own = np.searchsorted(self.edges(axis), x, side="right") - 1
        own = np.clip(own, 0, S - 1).astype(np.int64)
        return own, own

    def seen(self, points: Array) -> tuple[Index, Index]:
        box, point = self.containing(points)
        if self.hosts is None:
            return box, point
        box = self.hosts[box]
        order = np.lexsort((point, box))
        return box[order], point[order]

    def containing(self, points: Array) -> tuple[Index, Index]:
        """Boxes and points, whoever's features the boxes have."""
        points = self._inwards(points)
        if not self.cut:
            return super().seen(points)
        level, own = self.leaves
        deepest = int(level.max())
        place = np.stack([self._place(i, points[:, i], deepest) for i in range(len(points.T))])
        owner = np.full(len(points), -1)
        for depth in range(deepest + 1):
            leaf = np.flatnonzero(level == depth)
            shape = tuple(S << depth for S in self.subdomains)
            names = np.ravel_multi_index(tuple(own[leaf].T), shape)
            order = np.argsort(names)
            asked = np.ravel_multi_index(tuple(place >> (deepest - depth)), shape)
            at = np.minimum(np.searchsorted(names[order], asked), max(len(leaf) - 1, 0))
            hit = (names[order][at] == asked) if len(leaf) else np.zeros(len(points), dtype=bool)
            owner[hit] = leaf[order][at[hit]]
        by_box = np.argsort(owner, kind="stable")
        return owner[by_box], by_box

    def _inwards(self, points: Array) -> Array:
        """On a shape, points on a face of a box moved a little into the domain: there it may lie on
        one side of the face only."""
        if isinstance(self.domain, Box) or not len(points):
            return points
        least = 2.0 ** -int(self.leaves.level.max())
        step = NEAR_FACE * least * np.array([min(self.along(i)) for i in range(len(self.widths))])
        close = np.zeros(len(points), dtype=bool)
        for axis in range(len(self.widths)):
            slab, _ = self.range_along(axis, points[:, axis])
            width = np.array(self.along(axis))[slab] * least
            share = (points[:, axis] - self.edges(axis)[slab]) / width
            close |= np.abs(share - np.round(share)) * width < step[axis]
        at = np.flatnonzero(close)
        if not len(at):
            return points
        moves = np.array(list(itertools.product((1, -1), repeat=len(step)))) * 2 * step
        depths = np.stack([self.domain.signed_distance(points[at] + move) for move in moves])
        moved = points.copy()
        moved[at] += moves[np.argmin(np.round(depths / step.min(), 3), axis=0)]
        return moved

    def _place(self, axis: int, x: Array, depth: int) -> Index:
        """Which of the parts of all slabs, each in 2^depth, contain each x."""
        slab, _ = self.range_along(axis, x)
        start, width = self.edges(axis)[slab], np.array(self.along(axis))[slab]
        part = np.floor((x - start) / width * (1 << depth)).astype(np.int64)
        return np.asarray((slab << depth) + np.clip(part, 0, (1 << depth) - 1))

    def pairs_per_point(self) -> int:
        return 1


def _cut(
    domain: Domain, given: int | Sequence[Cuts]
) -> tuple[int | list[int], tuple[tuple[float, ...] | None, ...]]:
    """Numbers of slabs, and the widths of those that are not equal."""
    d = domain.dimension
    if isinstance(given, np.ndarray):
        given = given.tolist()
    if not isinstance(given, Sequence) or isinstance(given, str):
        return given, (None,) * d
    if len(given) != d and not (len(given) == 1 and np.ndim(given[0]) == 0):
        few = ", ".join(["[0, 0.1, 1]", "4", "4"][:d]) + ("," if d == 1 else "")
        raise ValueError(
            f"subdomains must be one number or one per axis ({', '.join(domain.axes)}), or there a "
            f"list of all edges, e.g. ({few}), got {given!r}"
        )
    if all(np.ndim(own) == 0 for own in given):
        return given, (None,) * d  # type: ignore[return-value]
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
                f"the edges of the subdomains along {axis} must increase from {low:g} to {high:g}, "
                f"by more than {near:.1g} each, got {np.ravel(own).tolist()!r}"
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
