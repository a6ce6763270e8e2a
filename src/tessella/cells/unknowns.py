"""The unknowns of all cells in one table, and what derivatives of them are at points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tessella.cells.draw import Slot
from tessella.cells.space import Space
from tessella.cells.system import CellSystem
from tessella.geometry.functions import Orders
from tessella.machine.arrays import Array

Table = Mapping[Orders, Array]
"""Coefficients of derivatives."""


@dataclass(frozen=True, eq=False)
class Unknowns:
    """A row per cell: those of its space's filtered features, then those of functions of its own.

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
        return np.asarray(self.rows[cells, own] / space.units[field])

    def own(self, cells: np.ndarray, field: int) -> Array:
        """Those of an unknown's own functions, zero in cells that have none."""
        starts = self.system.enriching.starts
        own, found = slice(starts[field], starts[field + 1]), np.zeros((len(cells), 0))
        if self.own_units is None or own.start == own.stop:
            return found
        reached = self.system.enriching.reached[cells]
        first = np.array([space.columns for space in self.spaces])[self.space_of[cells]]
        found = np.zeros((len(cells), own.stop - own.start))
        for k in range(found.shape[1]):
            column = first[reached] + own.start + k
            found[reached, k] = self.rows[cells[reached], column] * self.own_units[own.start + k]
        return found

    def coefficients(self) -> Array:
        """Of all features of all unknowns, as a basis numbers them."""
        system, parts = self.system, []
        everywhere = np.arange(system.cells.count)
        for f, basis in enumerate(system.bases):
            a = np.zeros((system.cells.tiling.count, basis.width))
            columns = basis.features.columns
            for space, mine in self._by_space(everywhere):
                reduced = self.features(mine, space, f)
                own = space.draws[f].coefficients(reduced.T).T
                a[system.cells.number[mine], :columns] = own
            extra = self.own(everywhere, f)
            if extra.shape[1]:
                a[system.cells.number, columns:] = extra
            parts.append(a.ravel())
        return np.concatenate(parts)

    def of_statements(self) -> list[Array]:
        """What the rows of every statement make of the unknowns, (members, n); left out for cells
        that filter their own features."""
        found = []
        for part in self.system.asked:
            values = np.zeros_like(part.h)
            for space, mine in self._by_space(part.members):
                for (f, alpha), c in part.symbol.items() if space.filtered else ():
                    a = self.features(part.members[mine], space, f)
                    values[mine] += c[mine] * (a @ space.table(f, part.slot, alpha).T)
            found.append(values)
        return found

    def on_slot(self, cells: np.ndarray, slot: Slot, field: int, table: Table) -> Array:
        """sum_alpha table[alpha] D^alpha v of these cells at the points of a slot, (cells, n)."""
        half, found = self.system.cells.half_widths[cells], np.zeros((len(cells), len(slot)))
        for space, mine in self._by_space(cells):
            a = self.features(cells[mine], space, field)
            for alpha, c in table.items():
                unit = np.prod(half[mine] ** -np.array(alpha, dtype=float), axis=1)
                values = a @ space.table(field, slot, alpha).T
                found[mine] += c[mine] * unit[:, None] * values
        x = self.system.cells.points(cells, slot.points)
        return found + self._own_values(cells, x, field, table)

    def at_points(self, cells: np.ndarray, z: Array, field: int, table: Table) -> Array:
        """The same at one point z in every cell, (cells,)."""
        half, found = self.system.cells.half_widths[cells], np.zeros(len(cells))
        for space, mine in self._by_space(cells):
            a = self.features(cells[mine], space, field)
            slot = Slot(z[mine], np.ones(len(mine)))
            for alpha, values in space.draws[field].tables(slot, list(table)).items():
                unit = np.prod(half[mine] ** -np.array(alpha, dtype=float), axis=1)
                found[mine] += table[alpha][mine] * unit * np.sum(values * a, axis=1)
        x = self.system.cells.points(cells, z[:, None])
        one = {alpha: c[:, None] for alpha, c in table.items()}
        return found + self._own_values(cells, x, field, one)[:, 0]

    def _by_space(self, cells: np.ndarray) -> list[tuple[Space, np.ndarray]]:
        if len(self.spaces) == 1:
            return [(self.spaces[0], np.arange(len(cells)))]
        which = self.space_of[cells]
        return [
            (self.spaces[number], np.flatnonzero(which == number))
            for number in np.unique(which).tolist()
        ]

    def _own_values(self, cells: np.ndarray, x: Array, field: int, table: Table) -> Array:
        """What functions of a cell's own contribute at its points x (cells, n, d)."""
        found = np.zeros(x.shape[:2])
        a = self.own(cells, field)
        if not a.shape[1]:
            return found
        enriching = self.system.enriching
        for i in np.flatnonzero(enriching.reached[cells]).tolist():
            for alpha, c in table.items():
                found[i] += c[i] * (enriching.values(field, x[i], alpha) @ a[i])
        return found
