"""A cell's side of an exchange: rows of what it takes at a port, and what it gives there."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tessella.cells.cell.draw import Slot
from tessella.cells.cell.exchange import Datum
from tessella.cells.cell.space import Space
from tessella.geometry.functions import Orders
from tessella.machine.arrays import Array


@dataclass(frozen=True, eq=False)
class Port:
    """A part of a cell's face with a neighbour beyond.

    modes   per datum taken, and per datum given, the functions on the face, (n, p) each
    kappa   the face's wavenumber
    pulls   weights of the rows of the data taken
    name    tells ports with the same numbers from others
    """

    axis: int
    side: int
    slot: Slot
    taken: tuple[Datum, ...]
    given: tuple[Datum, ...]
    modes_taken: tuple[Array, ...]
    modes_given: tuple[Array, ...]
    kappa: float
    pulls: tuple[float, ...]
    half_width: float
    name: tuple[object, ...]

    @cached_property
    def widths(self) -> tuple[int, int]:
        """How many numbers are taken and given."""
        taken, given = (sum(m.shape[1] for m in x) for x in (self.modes_taken, self.modes_given))
        return taken, given


class Rowed(NamedTuple):
    """A port's part of a cell's system: rows of the data taken, how they follow from what comes in,
    and what goes out."""

    rows: Array
    lifted: Array
    out: Array


def port_rows(space: Space, port: Port) -> Rowed:
    """Rows (n, r) of every datum, their right-hand sides (n, in), and out (given, r)."""
    n, rows, lifted, out = len(port.slot), [], [], []
    tables = space.tables(port.slot, _needed(port, port.slot))
    widths = [m.shape[1] for m in port.modes_taken]
    for i, (datum, pull, P) in enumerate(
        zip(port.taken, port.pulls, port.modes_taken, strict=True)
    ):
        rows.append(pull * _datum_rows(space, port, datum, tables))
        block = np.zeros((n, sum(widths)))
        block[:, sum(widths[:i]) : sum(widths[: i + 1])] = pull * P
        lifted.append(block)
    for datum, P in zip(port.given, port.modes_given, strict=True):
        out.append(P.T @ _datum_rows(space, port, datum, tables))
    r = space.columns
    return Rowed(
        np.concatenate(rows) if rows else np.zeros((0, r)),
        np.concatenate(lifted) if lifted else np.zeros((0, 0)),
        np.concatenate(out) if out else np.zeros((0, r)),
    )


def _needed(port: Port, slot: Slot) -> list[tuple[int, Orders]]:
    d = slot.points.shape[1]
    return [
        (term.field, _along(port.axis, term.order, d))
        for datum in (*port.taken, *port.given)
        for term in datum.terms
    ]


def _along(axis: int, order: int, dimension: int) -> Orders:
    return tuple(order if i == axis else 0 for i in range(dimension))


def _datum_rows(
    space: Space, port: Port, datum: Datum, tables: dict[tuple[int, Orders], Array]
) -> Array:
    """A datum of all features at a port's points, times the roots of their weights."""
    slot, starts = port.slot, space.starts
    rows = np.zeros((len(slot), space.columns))
    for term in datum.terms:
        alpha = _along(port.axis, term.order, slot.points.shape[1])
        factor = term.factor * port.kappa**-term.power / port.half_width**term.order
        own = slice(starts[term.field], starts[term.field + 1])
        rows[:, own] += factor / space.units[term.field] * tables[term.field, alpha]
    whole = float(slot.weights.sum()) or 1.0
    return rows * np.sqrt(slot.weights / whole)[:, None]
