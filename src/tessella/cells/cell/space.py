"""The features of all unknowns in cells of one shape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tessella.cells.cell.draw import Draw, Slot
from tessella.geometry.functions import Orders
from tessella.machine.arrays import Array


@dataclass(frozen=True, eq=False)
class Space:
    """The filtered features of all unknowns in cells of one shape, and their columns' units."""

    draws: tuple[Draw, ...]
    units: tuple[float, ...]

    @cached_property
    def starts(self) -> np.ndarray:
        return np.concatenate([[0], np.cumsum([d.columns for d in self.draws])]).astype(int)

    @property
    def columns(self) -> int:
        return int(self.starts[-1])

    @property
    def filtered(self) -> bool:
        return all(draw.R is not None for draw in self.draws)

    def table(self, field: int, slot: Slot, alpha: Orders) -> Array:
        return self.draws[field].table(slot, alpha)

    def tables(
        self, slot: Slot, wanted: Iterable[tuple[int, Orders]]
    ) -> dict[tuple[int, Orders], Array]:
        """Derivatives (unknown, alpha) of all features at a slot's points."""
        by_field: dict[int, list[Orders]] = {}
        for f, alpha in dict.fromkeys(wanted):
            by_field.setdefault(f, []).append(alpha)
        return {
            (f, alpha): table
            for f, alphas in by_field.items()
            for alpha, table in self.draws[f].tables(slot, alphas).items()
        }

    def rows(self, slot: Slot, symbol: Mapping[tuple[int, Orders], Array]) -> Array:
        """sum_alpha c_alpha D^alpha of all features at a slot's points, (n, r), with c_alpha (n,);
        by the tables, which are kept."""
        found = np.zeros((len(slot), self.columns))
        for (f, alpha), c in symbol.items():
            own = slice(self.starts[f], self.starts[f + 1])
            found[:, own] += (c / self.units[f])[:, None] * self.table(f, slot, alpha)
        return found

    def combined(self, slot: Slot, symbol: Mapping[tuple[int, Orders], Array], out: Array) -> None:
        """Rows sum_alpha c_alpha D^alpha of all features at a slot's points, transposed: into
        (r, n)."""
        for f, (draw, unit) in enumerate(zip(self.draws, self.units, strict=True)):
            own = {alpha: c / unit for (g, alpha), c in symbol.items() if g == f}
            mine = out[self.starts[f] : self.starts[f + 1]]
            if own:
                draw.combined(slot, own, mine)
            else:
                mine[...] = 0.0
