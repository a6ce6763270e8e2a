"""Where boxes and lines lie inside a domain: wholly, partly or not at all.

Everything is asked of the signed distance. It is never more than the distance, so it also says how
far around a point nothing changes, and only what is near the boundary is scanned finely.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import cast

import numpy as np
from numpy.typing import NDArray

from tessella.geometry.divided import REST, Divided
from tessella.geometry.domain import Domain
from tessella.machine.arrays import Array

Mask = NDArray[np.bool_]
Index = NDArray[np.int64]
Samples = tuple[Index, Array, Array]
"""Numbers of lines, positions on them from 0 to 1, and the signed distances there; sorted."""

Level = Callable[[Index, Array], Array]
"""The signed distance by number of a line and position on it."""

OUTSIDE, CUT, WHOLE = 0, 1, 2

INSET = 1e-9
"""Cells and lines are scanned from here on, in parts of their size: a wall may lie on their end."""

SHORT = 1e-7
"""Intervals shorter than this part of a line are dropped."""

COARSE, FINE = 8, 64
"""Pieces of a line that are looked at in any case, and where the distance does not suffice."""

BOXES, FINEST = 4, {1: 64, 2: 64, 3: 16}
"""The same per axis of a box; the finest by the dimension."""

MOST_AXES = 3
"""Of a shape that cuts boxes."""

SLANTS = (-1.0, -0.41, 0.07, 0.37, 0.93)
"""Components of directions to all sides, in which hardly any boundary runs."""


@dataclass(frozen=True)
class Inside:
    """Membership of a domain, or of one region of a divided domain."""

    domain: Domain
    region: str | None = None

    def __post_init__(self) -> None:
        if self.domain.dimension > MOST_AXES:
            raise ValueError(
                f"coupling='interfaces' cuts boxes along the boundary of a shape in up to "
                f"{MOST_AXES} dimensions (time counts), and {self.domain!r} has "
                f"{self.domain.dimension} ({', '.join(self.domain.axes)}): use coupling='overlap'"
            )
        if self.region is not None and self.region not in self.domain.regions:
            known = ", ".join(self.domain.regions) or "none"
            raise ValueError(f"unknown region {self.region!r}: this domain has {known}")

    def member(self, points: Array) -> Mask:
        """Which points lie strictly inside."""
        return self.distance(points) < 0

    def distance(self, points: Array) -> Array:
        """Negative inside, positive elsewhere, and no further from zero than the boundary.

        Shapes say zero also where no boundary is: on the seam of two boxes whose union they are.
        There all sides decide, so that a seam is inside, and a wall, an inner corner or an
        interface is not.
        """
        level = self._level(points)
        near = np.flatnonzero(np.abs(level) < 0.05 * self._step)
        if len(near):
            aside = self._step * _slants(points.shape[1])
            around = (points[near] + aside[:, None]).reshape(-1, points.shape[1])
            level[near] = self._level(around).reshape(len(aside), -1).max(axis=0)
        return level

    @cached_property
    def _step(self) -> float:
        """Far above rounding, far below everything else."""
        return 1e-12 * float(np.max(np.abs([self.domain.lower, self.domain.upper])))

    def _level(self, points: Array) -> Array:
        """A region ends where its shape does and where another is deeper; the first wins ties."""
        whole = self.domain.signed_distance(points)
        if self.region is None:
            return whole
        divided = cast(Divided, self.domain)
        depths = np.stack([shape.signed_distance(points) for _, shape in divided.shapes])
        if self.region == REST:
            return np.maximum(whole, -depths.min(axis=0))
        own = divided.regions.index(self.region)
        tie = 0.2 * self._step * np.sign(own - np.arange(len(depths)))
        rivals = (depths[own] - depths) / 2 + tie[:, None]
        rivals[own] = depths[own]
        return np.maximum(whole, rivals.max(axis=0))


@cache
def _slants(dimension: int) -> Array:
    """Directions to all sides, (n, d)."""
    every = np.array(list(product(SLANTS, repeat=dimension)))
    return every[np.abs(every).max(axis=1) > 0.1]


def kinds(inside: Inside, low: Array, high: Array) -> NDArray[np.int8]:
    """OUTSIDE, CUT or WHOLE for every cell, or face; a boundary along a side does not cut.

    A cell that shows one side only, with the boundary near, may still be cut by what pokes through
    a face: then its edges and faces are scanned too.
    """
    inset = INSET * (high - low)
    low, high = low + inset, high - inset
    seen, sure = signs(inside, low, high)
    near, axes = np.flatnonzero(~sure), np.flatnonzero(np.any(high > low, axis=0)).tolist()
    low, high = low[near], high[near]
    for axis, corner in product(axes, product((False, True), repeat=low.shape[1])):
        if all(k in axes and k != axis for k in np.flatnonzero(corner)):
            start = np.where(corner, high, low)
            seen[near] |= _line_signs(inside, start, _moved(start, high, axis), axis)
    for axis in axes if len(axes) == 3 else ():
        for flat in ((low, _moved(high, low, axis)), (_moved(low, high, axis), high)):
            seen[near] |= signs(inside, *flat)[0]
    return np.where(seen.all(axis=1), CUT, np.where(seen[:, 0], WHOLE, OUTSIDE)).astype(np.int8)


def signs(inside: Inside, low: Array, high: Array) -> tuple[Mask, Mask]:
    """Whether boxes (or flat ones) hold something inside, something outside (n, 2); and if sure.

    Each is split until both are seen, or the distance at the middle of a piece reaches its corners.
    """
    seen, sure = np.zeros((len(low), 2), dtype=bool), np.ones(len(low), dtype=bool)
    axes = np.flatnonzero(np.any(high > low, axis=0))
    half, pieces = (high - low) / (2 * BOXES), BOXES
    middle, box = pieces_of((low + high) / 2, half, np.arange(len(low)), axes, BOXES)
    while len(box):
        level = inside.distance(middle)
        seen[box[level < 0], 0] = True
        seen[box[level >= 0], 1] = True
        near = np.abs(level) < np.linalg.norm(half, axis=1)[box]
        near &= ~np.logical_and(*seen.T)[box]
        box, middle = box[near], middle[near]
        if pieces >= FINEST[low.shape[1]]:
            sure[box] = False
            break
        half, pieces = half / 2, 2 * pieces
        middle, box = pieces_of(middle, half, box, axes, 2)
    return seen, sure


def pieces_of(
    middle: Array, half: Array, box: Index, axes: Index, count: int
) -> tuple[Array, Index]:
    """Middles of boxes split into `count` per axis, and the box each comes from.

    `half` is half the size of a piece of every box, `box` which of these the middles belong to.
    """
    steps = np.zeros((count ** len(axes), middle.shape[1]))
    steps[:, axes] = list(product(np.arange(1 - count, count, 2), repeat=len(axes)))
    split = middle[:, None] + steps * half[box][:, None]
    return split.reshape(-1, middle.shape[1]), np.repeat(box, len(steps))


def _moved(points: Array, onto: Array, axis: int) -> Array:
    """The same points, with one coordinate of others."""
    points = points.copy()
    points[:, axis] = onto[:, axis]
    return points


def _line_signs(inside: Inside, low: Array, high: Array, along: int) -> Mask:
    """Whether lines contain something inside, something outside (n, 2)."""
    line, _, f = _scanned(_levels(inside, low, high, along), high[:, along] - low[:, along])
    seen = np.zeros((len(low), 2), dtype=bool)
    seen[line, (f >= 0).astype(int)] = True
    return seen


def chords(inside: Inside, low: Array, high: Array, along: int) -> tuple[Index, Array, Array]:
    """Where lines from `low` to `high` along an axis are inside: line, begin and end from 0 to 1.

    Sorted, and exact to rounding; where the end of a line is inside, 0 or 1 exactly.
    """
    return chords_of(_levels(inside, low, high, along), high[:, along] - low[:, along])


def chords_of(level: Level, size: Array) -> tuple[Index, Array, Array]:
    """The same of any lines of these lengths."""
    return _intervals(_scanned(level, size), level)


def patterns(inside: Inside, low: Array, high: Array, along: int) -> Index:
    """A number per line: how many chords it has, and which of its ends are inside."""
    return patterns_of(_levels(inside, low, high, along), high[:, along] - low[:, along])


def patterns_of(level: Level, size: Array) -> Index:
    """The same of any lines of these lengths."""
    line, _, f = _scanned(level, size)
    (first, last), member = _ends(line), f < 0
    enters = member & (first | ~np.roll(member, 1))
    return 4 * np.bincount(line[enters], minlength=len(size)) + 2 * member[first] + member[last]


def _levels(inside: Inside, low: Array, high: Array, along: int) -> Level:
    size = high[:, along] - low[:, along]

    def level(line: Index, t: Array) -> Array:
        x = low[line]
        x[:, along] += t * size[line]
        return inside.distance(x)

    return level


def _scanned(level: Level, size: Array) -> Samples:
    """Samples of lines that show all changes: denser where the distances leave room for one, and
    where they come closest to the boundary."""
    line = np.repeat(np.arange(len(size)), COARSE + 1)
    t = np.tile(np.linspace(INSET, 1 - INSET, COARSE + 1), len(size))
    samples, pieces = (line, t, level(line, t)), COARSE
    while pieces < FINE:
        line, t, f = samples
        gap = np.diff(t) * size[line[1:]]
        i = np.flatnonzero((np.diff(line) == 0) & (np.abs(f[1:]) + np.abs(f[:-1]) < gap))
        samples = _merged(samples, level, line[i], (t[i] + t[i + 1]) / 2)
        pieces *= 2
    return _merged(samples, level, *_closest(samples, level, size))


def _merged(samples: Samples, level: Level, line: Index, t: Array) -> Samples:
    """Samples with more of them."""
    if not len(line):
        return samples
    line, t, f = (np.concatenate(a) for a in zip(samples, (line, t, level(line, t)), strict=True))
    order = np.lexsort((t, line))
    return line[order], t[order], f[order]


def _closest(samples: Samples, level: Level, size: Array) -> tuple[Index, Array]:
    """Where lines come closest to the boundary, between samples on the same side of it.

    There a line may touch a sliver: cross the boundary twice between two samples.
    """
    line, t, f = samples
    first, last = _ends(line)
    before, after = np.arange(len(t)) - ~first, np.arange(len(t)) + ~last
    depth, side = np.abs(f), f < 0
    dip = first | (depth + 1e-12 * size[line] < depth[before])
    dip &= (depth <= depth[after]) & (depth < size[line] * (t[after] - t[before]))
    i = np.flatnonzero(dip & (side == side[before]) & (side == side[after]))
    if not len(i):
        return line[i], t[i]
    line, a, b, sign = line[i], t[before[i]], t[after[i]], np.where(side[i], -1.0, 1.0)
    rows = np.arange(len(i))
    for _ in range(12):
        grid = a[:, None] + (b - a)[:, None] * np.linspace(0, 1, 9)
        found = level(np.repeat(line, 9), grid.ravel()).reshape(-1, 9)
        best = np.clip(np.argmin(sign[:, None] * found, axis=1), 1, 7)
        a, b = grid[rows, best - 1], grid[rows, best + 1]
    return line, (a + b) / 2


def _intervals(samples: Samples, level: Level) -> tuple[Index, Array, Array]:
    """The intervals inside, their ends bisected."""
    line, t, f = samples
    first, last = _ends(line)
    member = f < 0
    change = np.flatnonzero(~last & (member != np.roll(member, -1)))
    crossed = np.zeros(len(t))
    crossed[change] = bisect(
        lambda x: (level(line[change], x) < 0) == member[change], t[change], t[change + 1], 50
    )
    enters = np.flatnonzero(member & (first | ~np.roll(member, 1)))
    leaves = np.flatnonzero(member & (last | ~np.roll(member, -1)))
    begin = np.where(first[enters], 0.0, crossed[enters - 1])
    end = np.where(last[leaves], 1.0, crossed[leaves])
    long = end - begin > SHORT
    return line[enters][long], begin[long], end[long]


def _ends(line: Index) -> tuple[Mask, Mask]:
    """Which samples are the first, and the last, of their line."""
    return np.diff(line, prepend=-1) != 0, np.diff(line, append=-1) != 0


def bisect(same: Callable[[Array], Mask], a: Array, b: Array, times: int) -> Array:
    """Where something changes between a and b; `same` says which places are still as a is."""
    for _ in range(times if len(a) else 0):
        middle = (a + b) / 2
        still = same(middle)
        a, b = np.where(still, middle, a), np.where(still, b, middle)
    return (a + b) / 2
