"""Functions that a solution is known to contain, as further columns of the cells they reach.

A singular trace is no polynomial: on the faces of such cells the enrichment's own traces, as far as
polynomials miss them, are modes too.
"""

from __future__ import annotations

import numpy as np

from tessella.cells.boxes.basis import CellBasis
from tessella.cells.cell.draw import Slot, placed
from tessella.cells.cell.exchange import Datum
from tessella.cells.cell.port import Port
from tessella.cells.cell.rows import Asked
from tessella.cells.cell.sizes import monomial
from tessella.geometry.functions import Orders
from tessella.machine.arrays import Array
from tessella.overlap.enriched import enriched_values

NEW = 1e-12
"""What is left of a function beside polynomials must be more than this part of it."""


class Enriching:
    """The enrichment of all unknowns in all cells."""

    def __init__(
        self, bases: tuple[CellBasis, ...], number: np.ndarray, centres: Array, half_widths: Array
    ) -> None:
        self.bases, self.centres, self.half_widths = bases, centres, half_widths
        self.active = np.concatenate([own.active[number] for own in bases], axis=1)
        self.tiling = bases[0].decomposition
        self.starts = np.concatenate([[0], np.cumsum([len(b.enrichment) for b in bases])])

    @property
    def count(self) -> int:
        return int(self.starts[-1])

    @property
    def reached(self) -> np.ndarray:
        """Which cells have a column of it, (J,)."""
        return np.asarray(self.active.any(axis=1))

    def values(self, field: int, x: Array, gamma: Orders) -> Array:
        """D^gamma of an unknown's functions, (n, E)."""
        own = self.bases[field].enrichment
        if not own:
            return np.zeros((len(x), 0))
        everywhere = {gamma: np.ones(len(x), dtype=bool)}
        return np.asarray(enriched_values(self.tiling, own, x, everywhere)[:, 0].T)

    def points(self, cell: int, slot: Slot) -> Array:
        return placed(slot.points, self.centres[cell], self.half_widths[cell])

    def rows(self, cell: int, part: Asked, at: int) -> Array:
        """Of a statement's rows in a cell."""
        x, found = self.points(cell, part.slot), np.zeros((len(part.slot), self.count))
        for (f, alpha), c in part.symbol.items():
            physical = c[at] * monomial(self.half_widths[cell], alpha)
            used = np.flatnonzero(physical)
            if len(self.bases[f].enrichment) and len(used):
                own = slice(self.starts[f], self.starts[f + 1])
                found[used, own] += physical[used, None] * self.values(f, x[used], alpha)
        return found * self.active[cell]

    def datum(self, x: Array, axis: int, kappa: float, datum: Datum) -> Array:
        """A datum of all functions at points of a face."""
        found = np.zeros((len(x), self.count))
        for term in datum.terms:
            gamma = tuple(term.order if i == axis else 0 for i in range(x.shape[1]))
            own = slice(self.starts[term.field], self.starts[term.field + 1])
            factor = term.factor * kappa**-term.power
            found[:, own] += factor * self.values(term.field, x, gamma)
        return found

    def modes(self, x: Array, weights: Array, axis: int, kappa: float, datum: Datum, P: Array,
              active: Array) -> Array:  # fmt: skip
        """P and what polynomials miss of the functions' own datum on a face."""
        V = self.datum(x, axis, kappa, datum)[:, active > 0]
        V = V * np.sqrt(weights / weights.sum())[:, None]
        rest = V - P @ (P.T @ V)
        rest -= P @ (P.T @ rest)
        size = np.linalg.norm(V, axis=0)
        rest = rest[:, np.linalg.norm(rest, axis=0) > NEW * np.where(size > 0, size, 1.0)]
        if not rest.shape[1]:
            return P
        Q, R = np.linalg.qr(rest / np.linalg.norm(rest, axis=0))
        Q = Q[:, np.abs(np.diag(R)) > NEW][:, : len(P) - P.shape[1]]
        return np.concatenate([P, Q], axis=1)

    def port(self, cell: int, port: Port) -> tuple[Array, Array]:
        """Of a port's rows, and of what goes out."""
        x, active = self.points(cell, port.slot), self.active[cell]
        root = np.sqrt(port.slot.weights / port.slot.weights.sum())[:, None]
        rows = [
            pull * root * self.datum(x, port.axis, port.kappa, d) * active
            for d, pull in zip(port.taken, port.pulls, strict=True)
        ]
        out = [
            P.T @ (root * self.datum(x, port.axis, port.kappa, d)) * active
            for d, P in zip(port.given, port.modes_given, strict=True)
        ]
        none = np.zeros((0, self.count))
        return np.concatenate([none, *rows]), np.concatenate([none, *out])

    def columns(self, cell: int, asked: list[tuple[Asked, int]], ports: tuple[Port, ...]) -> Array:
        """All of a cell's rows and then all that goes out."""
        made = [self.port(cell, port) for port in ports]
        rows = [self.rows(cell, part, at) for part, at in asked]
        return np.concatenate([*rows, *(r for r, _ in made), *(o for _, o in made)])

    def sums(self, cell: int, parts: list[tuple[int, Asked, int]], count: int) -> Array:
        """Of a cell's parts of the sums."""
        found = np.zeros((count, self.count))
        for i, part, at in parts:
            found[i] += self.rows(cell, part, at).sum(axis=0)
        return found
