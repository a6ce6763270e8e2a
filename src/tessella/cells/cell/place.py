"""Where statements have their rows: cells with the same slot, and which of them a process has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from tessella.cells.cell.draw import Slot, placed
from tessella.cells.cell.sizes import Mask
from tessella.geometry.lattice import gridded
from tessella.machine import processes
from tessella.machine.arrays import Array


class Place(NamedTuple):
    """Cells that have a statement's rows at the same slot, its points' share of a cell's volume
    (members,) per unit of slot weight, and the normals there if it is on a boundary.

    grid  cells along every axis and points of each, where all of them fill a grid
    """

    slot: Slot
    members: np.ndarray
    measure: Array
    normals: Array | None = None
    axis: int | None = None
    grid: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    @property
    def height(self) -> int:
        """The number of all points."""
        return len(self.members) * len(self.slot)

    def of(self, chosen: Mask) -> Place:
        """Some of its members only, (members,)."""
        return self._replace(members=self.members[chosen], measure=self.measure[chosen], grid=None)


Values = TypeVar("Values", Array, Mask)

SAMPLED = 16
"""Points of every statement that all processes have, to compare what they state."""


class Where(NamedTuple):
    """The places of a statement in the cells of this process, their points and the normals there;
    of several processes also some points that all have, and others until all have as many.

    guest  a cell with a place of it, whoever has that cell
    """

    places: list[Place]
    guest: Place
    x: Array
    normals: Array | None

    @property
    def height(self) -> int:
        """The number of points of its places."""
        return sum(place.height for place in self.places)

    def own(self, values: Values) -> Values:
        """Of values at all points, those at its places."""
        return values[: self.height]

    def common(self, values: Array) -> Array:
        """Those at points that all processes have."""
        return values[self.height : self.height + SAMPLED]


class Compared(NamedTuple):
    """A statement's numbers at points that all processes have, found beside those at points of each
    one's own, and how to find them `again` by themselves."""

    tables: list[Array]
    again: Callable[[], list[Array]]


class Points:
    """The points of cells with these centres and half widths; of several processes each has those
    of its own cells (`whose`)."""

    def __init__(self, centres: Array, half_widths: Array, whose: np.ndarray | None) -> None:
        self.centres, self.half_widths, self.whose = centres, half_widths, whose

    def of(self, places: Sequence[Place]) -> Array:
        """All points of the places, one after the other."""
        found = [placed(p.slot.points, self.centres[p.members], self.half_widths[p.members])
                 for p in places]  # fmt: skip
        every = [x.reshape(-1, x.shape[2]) for x in found]
        if len(places) == 1 and places[0].grid is not None:
            return gridded(every[0], *places[0].grid)
        return np.concatenate(every)

    def normals(self, places: Sequence[Place]) -> Array | None:
        facing = [(p.normals, len(p.members)) for p in places if p.normals is not None]
        found = [
            np.broadcast_to(n, (times, *n.shape)).reshape(-1, n.shape[1]) for n, times in facing
        ]
        return np.concatenate(found) if found else None

    def where(self, places: Sequence[Place]) -> Where:
        """Which of the places are in cells of this process, and their points. A function may be a
        solution in parts, which all call together and equally often: so all have as many points,
        and nobody has none."""
        first = places[0]
        guest = Place(first.slot, first.members[:1], first.measure[:1], first.normals, first.axis)
        if self.whose is None:
            return Where(list(places), guest, self.of(places), self.normals(places))
        owners = [self.whose[place.members] for place in places]
        own = [(p, who == processes.index()) for p, who in zip(places, owners, strict=True)]
        mine = [place.of(chosen) for place, chosen in own if chosen.any()]
        number = processes.number()
        heights = [len(p.slot) * np.bincount(who, minlength=number)
                   for p, who in zip(places, owners, strict=True)]  # fmt: skip
        most = SAMPLED + int(np.sum(heights, axis=0).max())
        height = sum(place.height for place in places)
        x, normals = self.some(places, np.linspace(0, height - 1, SAMPLED).astype(np.int64))
        if mine:
            x = np.concatenate([np.asarray(self.of(mine)), x])
            own_normals = self.normals(mine)
            normals = None if normals is None else np.concatenate([own_normals, normals])
        missing = ((0, most - len(x)), (0, 0))
        normals = None if normals is None else np.pad(normals, missing, mode="edge")
        return Where(mine, guest, np.pad(x, missing, mode="edge"), normals)

    def numbers(self, places: Sequence[Place]) -> np.ndarray:
        """Of all points of the places, which are in cells of this process."""
        found, start = [], 0
        for place in places:
            chosen = np.arange(len(place.members))
            if self.whose is not None:
                chosen = np.flatnonzero(self.whose[place.members] == processes.index())
            n = len(place.slot)
            found.append((start + chosen[:, None] * n + np.arange(n)).ravel())
            start += place.height
        return np.concatenate(found)

    def some(self, places: Sequence[Place], numbers: np.ndarray) -> tuple[Array, Array | None]:
        """Of the points of all places those with these numbers, and the normals there, whoever has
        them."""
        ends = np.cumsum([place.height for place in places])
        which = np.searchsorted(ends, numbers, side="right")
        points, normals = [], []
        for k in np.unique(which).tolist():
            place, mine = places[k], numbers[which == k] - (ends[k] - places[k].height)
            cell, at = np.divmod(mine, len(place.slot))
            cell, z = place.members[cell], place.slot.points[at]
            points.append(placed(z[:, None], self.centres[cell], self.half_widths[cell])[:, 0])
            if place.normals is not None:
                normals.append(place.normals[at])
        return np.concatenate(points), np.concatenate(normals) if normals else None
