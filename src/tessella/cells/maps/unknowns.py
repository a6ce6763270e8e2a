"""The unknowns of all cells in one table, and what derivatives of them are at points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tessella.cells.cell.draw import Slot
from tessella.cells.cell.rows import Asked
from tessella.cells.cell.sizes import monomial
from tessella.cells.cell.space import Space
from tessella.cells.maps.maps import flat, times_all
from tessella.cells.system.system import CellSystem
from tessella.geometry.functions import Orders
from tessella.machine.arrays import Array

Table = Mapping[Orders, Array]
"""Coefficients of derivatives."""


@dataclass(frozen=True, eq=False)
class Unknowns:
    """A row per cell: those of its space's filtered features, then those of functions of its own;
    of several right-hand sides a row for each, (J, k, r).

    own_units  of the latter, if there are any
    """

    system: CellSystem
    spaces: tuple[Space, ...]
    space_of: np.ndarray
    rows: Array
    own_units: Array | None = None

    def features(self, cells: np.ndarray, space: Space, field: int) -> Array:
        """One unknown's in some cells of a space, in the features' own units."""
        own = slice(space.starts[field], space.starts[field + 1])
        return np.asarray(self.rows[cells, ..., own] / space.units[field])

    def own(self, cells: np.ndarray, field: int) -> Array:
        """Those of an unknown's own functions, zero in cells that have none."""
        starts, several = self.system.enriching.starts, self.rows.shape[1:-1]
        own, found = slice(starts[field], starts[field + 1]), np.zeros((len(cells), *several, 0))
        if self.own_units is None or own.start == own.stop:
            return found
        reached = self.system.enriching.reached[cells]
        first = np.array([space.columns for space in self.spaces])[self.space_of[cells]]
        found = np.zeros((len(cells), *several, own.stop - own.start))
        for k in range(found.shape[-1]):
            column = first[reached] + own.start + k
            value = self.rows[cells[reached], ..., column] * self.own_units[own.start + k]
            found[reached, ..., k] = value
        return found

    def coefficients(self, boxes: np.ndarray | None = None) -> Array:
        """Of all features of all unknowns, as a basis numbers them, or those in some boxes of the
        tiling (a mask); of several right-hand sides one below the other, (k, columns)."""
        system, parts, several = self.system, [], self.rows.shape[1:-1]
        number, count = system.cells.number, system.cells.tiling.count
        cells, place = np.arange(system.cells.count), number
        if boxes is not None:
            cells, count = np.flatnonzero(boxes[number]), int(boxes.sum())
            place = (np.cumsum(boxes) - 1)[number]
        for f, basis in enumerate(system.bases):
            a = np.zeros((*several, count, basis.width))
            columns = basis.features.columns
            for space, at in self._by_space(cells):
                mine = cells[at]
                reduced = self.features(mine, space, f)
                own = space.draws[f].coefficients(flat(reduced).T).T
                own = own.reshape(*reduced.shape[:-1], columns)
                a[..., place[mine], :columns] = np.moveaxis(own, 0, -2)
            extra = self.own(cells, f)
            if extra.shape[-1]:
                a[..., place[cells], columns:] = np.moveaxis(extra, 0, -2)
            parts.append(a.reshape(*several, -1))
        return np.concatenate(parts, axis=-1)

    @staticmethod
    def of_coefficients(
        a: Array,
        system: CellSystem,
        spaces: tuple[Space, ...],
        space_of: np.ndarray,
        widest: int,
        own_units: Array | None,
    ) -> Unknowns:
        """The transpose of `coefficients`, of several (k, columns)."""
        cells, starts = system.cells, system.enriching.starts
        found = Unknowns(
            system, spaces, space_of, np.zeros((cells.count, len(a), widest)), own_units
        )
        ends = np.cumsum([cells.tiling.count * basis.width for basis in system.bases])
        every = np.arange(cells.count)
        for f, (basis, part) in enumerate(
            zip(system.bases, np.split(a, ends[:-1], axis=1), strict=True)
        ):
            local = part.reshape(len(a), -1, basis.width)[:, cells.number].swapaxes(0, 1)
            columns = basis.features.columns
            for space, mine in found._by_space(every):
                own = local[mine, :, :columns]
                reduced = space.draws[f].adjoint(flat(own).T).T / space.units[f]
                at = slice(space.starts[f], space.starts[f + 1])
                found.rows[mine, :, at] = reduced.reshape(*own.shape[:2], -1)
            if own_units is None or starts[f] == starts[f + 1]:
                continue
            reached = np.flatnonzero(system.enriching.reached)
            first = np.array([space.columns for space in spaces])[space_of[reached]]
            for k in range(starts[f + 1] - starts[f]):
                number = starts[f] + k
                value = local[reached, :, columns + k] * own_units[number]
                found.rows[reached, :, first + number] = value
        return found

    def of_statements(self) -> list[Array]:
        """What the rows of every statement make of the unknowns, (members, n), or (members, k, n);
        left out for cells that filter their own features."""
        return [self.of_rows(part) for part in self.system.asked]

    def of_rows(self, part: Asked) -> Array:
        """The same for some rows."""
        several = self.rows.shape[1:-1]
        values = np.zeros((len(part.members), *several, len(part.slot)))
        for space, mine in self._by_space(part.members):
            if part.alike and space.filtered:
                own = self.rows[part.members[mine], ..., : space.columns]
                values[mine] = times_all(own, part.common(space).T)
                continue
            for (f, alpha), c in part.symbol.items() if space.filtered else ():
                a = self.features(part.members[mine], space, f)
                own = times_all(a, space.table(f, part.slot, alpha).T)
                own *= c[mine][:, None] if several else c[mine]
                values[mine] += own
        return values

    def on_slot(self, cells: np.ndarray, slot: Slot, field: int, table: Table) -> Array:
        """sum_alpha table[alpha] D^alpha v of these cells at the points of a slot, (cells, n)."""
        half, found = self.system.cells.half_widths[cells], np.zeros((len(cells), len(slot)))
        for space, mine in self._by_space(cells):
            a = self.features(cells[mine], space, field)
            for alpha, c in table.items():
                values = a @ space.table(field, slot, alpha).T
                found[mine] += c[mine] / monomial(half[mine], alpha)[:, None] * values
        self._add_own(found, cells, slot.points, field, table)
        return found

    def at_points(self, cells: np.ndarray, z: Array, field: int, table: Table) -> Array:
        """The same at one point z in every cell, (cells,)."""
        half, found = self.system.cells.half_widths[cells], np.zeros(len(cells))
        for space, mine in self._by_space(cells):
            a = self.features(cells[mine], space, field)
            own = z[mine]
            slot = Slot(own, np.ones(len(own)))
            for alpha, values in space.draws[field].tables(slot, list(table)).items():
                c = table[alpha][mine] / monomial(half[mine], alpha)
                found[mine] += c * np.sum(values * a, axis=1)
        one = {alpha: c[:, None] for alpha, c in table.items()}
        self._add_own(found[:, None], cells, z[:, None], field, one)
        return found

    def _by_space(self, cells: np.ndarray) -> list[tuple[Space, np.ndarray | slice]]:
        """Which of these cells have their features of which space."""
        if len(self.spaces) == 1:
            return [(self.spaces[0], slice(None))]
        which = self.space_of[cells]
        return [
            (self.spaces[number], np.flatnonzero(which == number))
            for number in np.unique(which).tolist()
        ]

    def _add_own(self, found: Array, cells: np.ndarray, z: Array, field: int, table: Table) -> None:
        """What functions of a cell's own contribute at its points z, (cells, n)."""
        a = self.own(cells, field)
        if not a.shape[1]:
            return
        enriching, x = self.system.enriching, self.system.cells.points(cells, z)
        for i in np.flatnonzero(enriching.reached[cells]).tolist():
            for alpha, c in table.items():
                found[i] += c[i] * (enriching.values(field, x[i], alpha) @ a[i])


def projected(
    system: CellSystem,
    spaces: Sequence[Space],
    space_of: np.ndarray,
    h: Sequence[Array],
    several: tuple[int, ...],
) -> Array:
    """M^T h of every cell, (J, largest r), or (J, k, largest r) for several h."""
    b = np.zeros((system.cells.count, *several, max(space.columns for space in spaces)))
    for part, given in zip(system.asked, h, strict=True):
        if not np.any(given):
            continue
        for number, space in enumerate(spaces):
            if not space.filtered:
                continue
            mine = space_of[part.members] == number
            if not mine.any():
                continue
            whole = bool(mine.all())
            cells = part.members if whole else part.members[mine]
            if part.alike:
                made = times_all(given if whole else given[mine], part.common(space))
                b[cells, ..., : space.columns] += made
                continue
            for (f, alpha), table in part.symbol.items():
                c, right = (table, given) if whole else (table[mine], given[mine])
                weighted = (c if right.ndim == 2 else c[:, None]) * right
                own = slice(space.starts[f], space.starts[f + 1])
                made = times_all(weighted, space.table(f, part.slot, alpha))
                b[cells, ..., own] += made / space.units[f]
    return b
