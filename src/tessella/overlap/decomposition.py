"""Overlapping boxes that cover the domain, and which points each of them sees."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from tessella.geometry.domain import Domain
from tessella.machine.arguments import check_kind
from tessella.machine.arrays import Array
from tessella.machine.printing import times

Index = NDArray[np.int64]


@dataclass(frozen=True, init=False, repr=False)
class Decomposition:
    """Regular overlapping decomposition of a box (the paper's equation for Omega_j).

    A shape is covered by the boxes of its bounding box; those that see none of its points take no
    part.

    Along an axis [a, b] with S subdomains the centres are S equally spaced points from a to b, and
    each subdomain is `overlap` spacings wide. Overlap 1 only touches; 2 is a good default; more
    overlap couples more subdomains at every point. `subdomains` and `overlap` are one number for
    all axes or one per axis. An axis with one subdomain is not divided at all. Along a periodic
    axis the spacing is (b - a) / S and the subdomains wrap around.

    >>> import tessella as ts
    >>> boxes = ts.Decomposition(ts.Box(x=(0, 1), y=(0, 3)), (5, 4), overlap=2)
    >>> boxes.count, boxes.spacing.tolist(), boxes.half_width.tolist()
    (20, [0.25, 1.0], [0.25, 1.0])
    """

    side_by_side: ClassVar[bool] = False

    domain: Domain
    subdomains: tuple[int, ...]
    overlap: tuple[float, ...]

    def __init__(
        self,
        domain: Domain,
        subdomains: int | Sequence[int],
        overlap: float | Sequence[float] = 2.0,
    ) -> None:
        check_kind(domain, Domain, "domain", "a domain, e.g. Box(x=(0, 1))")
        d = domain.dimension
        counts = _per_axis(subdomains, domain, "subdomains")
        for count in counts:
            if not (count.is_integer() and count >= 1):
                raise ValueError(
                    f"subdomains must be whole numbers >= 1, got {subdomains!r}; "
                    f"1 leaves an axis undivided"
                )
        overlaps = _per_axis(overlap, domain, "overlap")
        for value in overlaps:
            if not (math.isfinite(value) and value > 0):
                raise ValueError(
                    f"overlap must be positive, got {overlap!r}: it is the width of a subdomain in "
                    f"spacings, and above 1 neighbours overlap"
                )
        object.__setattr__(self, "domain", domain)
        object.__setattr__(self, "subdomains", tuple(int(c) for c in counts))
        object.__setattr__(self, "overlap", tuple(float(v) for v in overlaps))
        assert len(self.subdomains) == len(self.overlap) == d
        self._check_periodic()

    def __repr__(self) -> str:
        divided = f"{self.domain!r} in {times(self.subdomains)} subdomains"
        return f"Decomposition of {divided}, overlap {_plain(self.overlap)}"

    @property
    def in_words(self) -> str:
        """How many subdomains there are, and how they lie."""
        if self.count == 1:
            return "one subdomain"
        if self.side_by_side:
            return f"{self.count:,} subdomains side by side"
        return f"{times(self.subdomains)} overlapping subdomains"

    def _check_periodic(self) -> None:
        """A subdomain of a periodic axis must not meet itself."""
        for axis, S, overlap in zip(self.domain.axes, self.subdomains, self.overlap, strict=True):
            if axis not in self.domain.periodic:
                continue
            if S == 1:
                raise ValueError(
                    f"one subdomain along the periodic axis {axis!r} would be its own neighbour: "
                    f"use at least two there"
                )
            if overlap > S:
                raise ValueError(
                    f"overlap={overlap:g} with {S} subdomains makes one wider than the periodic "
                    f"axis {axis!r}, so that it meets itself: use at least {math.ceil(overlap)} "
                    f"subdomains there, or an overlap of at most {S}"
                )

    @cached_property
    def wraps(self) -> tuple[bool, ...]:
        """Along which axes the last subdomain is the first one's neighbour."""
        return tuple(axis in self.domain.periodic for axis in self.domain.axes)

    def moved(self, domain: Domain) -> Decomposition:
        """The same decomposition of another domain."""
        return Decomposition(domain, self.subdomains, self.overlap)

    @property
    def count(self) -> int:
        """J, the number of subdomains."""
        return math.prod(self.subdomains)

    @property
    def windowed(self) -> tuple[bool, ...]:
        """Along which axes windows blend neighbouring subdomains."""
        return tuple(S > 1 for S in self.subdomains)

    @cached_property
    def spacing(self) -> Array:
        """Distance between neighbouring centres per axis; the whole side where undivided."""
        sides = self.domain.upper - self.domain.lower
        gaps = np.array(self.subdomains) - 1 + np.array(self.wraps)
        return sides / np.maximum(gaps, 1)

    @cached_property
    def half_width(self) -> Array:
        """sigma_j of the paper per axis."""
        divided = np.array(self.subdomains) > 1
        return np.where(divided, np.array(self.overlap), 1.0) * self.spacing / 2

    @property
    def equal(self) -> bool:
        """Whether all subdomains are of one size."""
        return True

    @cached_property
    def half_widths(self) -> Array:
        """Of every subdomain, shape (J, d); here all are alike."""
        return np.broadcast_to(self.half_width, (self.count, len(self.half_width)))

    @cached_property
    def centres(self) -> Array:
        """mu_j of the paper, shape (J, d), last axis fastest."""
        return self.domain.grid(self.subdomains)

    @cached_property
    def positions(self) -> Array:
        """Centres in units of the domain's sides, shape (J, d)."""
        return (self.centres - self.domain.lower) / (self.domain.upper - self.domain.lower)

    @cached_property
    def multi_index(self) -> Index:
        """Position of every subdomain in the grid of subdomains, shape (J, d)."""
        return np.stack(np.unravel_index(np.arange(self.count), self.subdomains), axis=1)

    def range_along(self, axis: int, x: Array) -> tuple[Index, Index]:
        """First and last subdomain along an axis whose open interval contains each x.

        Along a periodic axis numbers below 0 and from S on stand for subdomains beyond the seam.
        """
        S = self.subdomains[axis]
        if S == 1:
            zero = np.zeros(len(x), dtype=np.int64)
            return zero, zero
        s = (x - self.domain.lower[axis]) / self.spacing[axis]
        reach = self.overlap[axis] / 2
        # Strict inequalities |s - i| < reach; rounding at an end only costs a zero window.
        first = np.floor(s - reach).astype(np.int64) + 1
        last = np.ceil(s + reach).astype(np.int64) - 1
        if self.wraps[axis]:
            return first, last
        return np.maximum(first, 0), np.minimum(last, S - 1)

    def offsets(self, points: Array, members: Index) -> Array:
        """From the centres of the members (B,) to their points (B, m, d), the shorter way round."""
        away = points - self.centres[members][:, None]
        period = np.where(self.wraps, self.domain.periods, np.inf)
        turns = np.round(away / period)
        return np.where(turns != 0, away - turns * self.domain.periods, away)

    def seen(self, points: Array) -> tuple[Index, Index]:
        """All pairs (subdomain, point) with the point inside, ordered by subdomain, then point."""
        if self.count == 1:
            return np.zeros(len(points), dtype=np.int64), np.arange(len(points))
        ranges = [self.range_along(i, points[:, i]) for i in range(points.shape[1])]
        self._check_cover(points, ranges)
        widths = [int((last - first).max(initial=0)) + 1 for first, last in ranges]
        index = np.arange(len(points))
        subdomains, seen_points = [], []
        for offset in itertools.product(*(range(w) for w in widths)):
            position = [first + o for (first, _), o in zip(ranges, offset, strict=True)]
            inside = np.logical_and.reduce(
                [p <= last for p, (_, last) in zip(position, ranges, strict=True)]
            )
            chosen = tuple(
                p[inside] % S if wraps else p[inside]
                for p, S, wraps in zip(position, self.subdomains, self.wraps, strict=True)
            )
            subdomains.append(np.ravel_multi_index(chosen, self.subdomains))
            seen_points.append(index[inside])
        j, n = np.concatenate(subdomains), np.concatenate(seen_points)
        order = np.argsort(j * len(points) + n, kind="stable")
        return j[order], n[order]

    def active(self, points: Array) -> Index:
        """The subdomains that see a point."""
        return np.unique(self.seen(points)[0])

    def pairs_per_point(self) -> int:
        """Most subdomains a point can lie in; for memory estimates before anything is built."""
        return math.prod(
            min(S, math.ceil(delta)) for S, delta in zip(self.subdomains, self.overlap, strict=True)
        )

    def neighbours(self) -> Index:
        """How many subdomains each shares points with, itself among them."""
        reach = np.ceil(self.overlap).astype(int) - 1
        S, index = np.array(self.subdomains), self.multi_index
        inside = np.minimum(index, reach) + np.minimum(S - 1 - index, reach) + 1
        around = np.minimum(2 * reach + 1, S)
        return np.asarray(np.prod(np.where(self.wraps, around, inside), axis=1))

    def _check_cover(self, points: Array, ranges: list[tuple[Index, Index]]) -> None:
        gap = np.logical_or.reduce([first > last for first, last in ranges])
        if not gap.any():
            return
        first = int(np.flatnonzero(gap)[0])
        place = ", ".join(f"{c:.6g}" for c in points[first])
        s = (points - self.domain.lower) / self.spacing
        nearest = np.clip(np.round(s), 0, np.array(self.subdomains) - 1 + np.array(self.wraps))
        divided = np.array(self.subdomains) > 1
        smallest = 2 * float(np.max(np.abs(s - nearest)[:, divided], initial=0.0))
        raise ValueError(
            f"overlap={_plain(self.overlap)} leaves {int(gap.sum())} of {len(points)} points in no "
            f"subdomain, the first at ({place}): use an overlap above {smallest:.4g}"
            + ("" if smallest <= 1.0 else ", or keep the points inside the domain")
        )


def _per_axis(value: float | Sequence[float], domain: Domain, what: str) -> tuple[float, ...]:
    try:
        values = np.atleast_1d(np.asarray(value))
    except ValueError:
        values = np.empty((0, 0))
    values = values.astype(np.float64) if values.dtype.kind in "fiu" else np.empty((0, 0))
    if values.ndim != 1 or values.size not in (1, domain.dimension):
        raise ValueError(
            f"{what} must be one number or one per axis ({', '.join(domain.axes)}), got {value!r}"
        )
    return tuple(np.broadcast_to(values, (domain.dimension,)).tolist())


def _plain(values: tuple[float, ...]) -> str:
    return f"{values[0]:g}" if len(set(values)) == 1 else str(values)
