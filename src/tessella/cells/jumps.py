"""How far neighbours disagree on their common faces: on whole ones where nothing was asked of them,
on cut ones at the points of the exchange."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessella.cells import slots
from tessella.cells.draw import Slot
from tessella.cells.exchange import orders_along
from tessella.cells.leaves import Kind
from tessella.cells.system import CellSystem
from tessella.cells.tree import WHOLE
from tessella.machine.arrays import Array
from tessella.problem.operators import D, Identity, Operator

POINTS = 6
"""Points per axis of a face at which jumps are measured, its ends included; with enrichment, which
may be singular where faces meet, as many between them."""


def jumps(
    system: CellSystem, kinds: Sequence[Kind], local: Sequence[Array]
) -> dict[str, dict[str, float]]:
    """Root mean square and largest jump of u and of every normal derivative that is exchanged."""
    problem, cells = system.problem, system.cells
    d, names = problem.domain.dimension, problem.domain.axes
    orders = orders_along(problem)
    own = _Unknowns(system, kinds, local)
    found: dict[str, list[Array]] = {}
    alike: dict[tuple[int, int, int, int | None, int], list[int]] = {}
    for number, face in enumerate(cells.faces):
        alone = number if face.custom is not None else -1
        key = (face.axis, face.part_below, face.part_above, face.field, alone)
        alike.setdefault(key, []).append(number)
    for (axis, part_below, part_above, only, alone), faces in alike.items():
        below = np.array([cells.faces[f].below for f in faces])
        above = np.array([cells.faces[f].above for f in faces])
        slot_b, slot_a = _slots(system, axis, part_below, part_above, alone)
        whole = below if part_below == WHOLE else above
        slot = slot_b if part_below == WHOLE else slot_a
        x = cells.centres[whole][:, None] + slot.points * cells.half_widths[whole][:, None]
        for f, field in enumerate(problem.fields):
            if only not in (None, f):
                continue
            for m in range(max(1, int(orders[f, axis])) if orders[f].any() else 0):
                operator: Operator = D(**{names[axis]: m}) if m else Identity()
                operator = operator @ problem.part(field)
                symbol = problem.symbol(operator, x.reshape(-1, d), field=field)
                table = {a: c.reshape(x.shape[:2]) for a, c in symbol.items()}
                apart = own.values(below, slot_b, f, table) - own.values(above, slot_a, f, table)
                of = f" of {field}" if len(problem.unknowns) > 1 else ""
                found.setdefault(_name(m) + of, []).append(apart.ravel())
    ordered = sorted(found, key=lambda n: (n.startswith("normal"), n))
    return {
        name: {
            "rms": float(np.sqrt(np.mean(np.concatenate(found[name]) ** 2))),
            "max": float(np.max(np.abs(np.concatenate(found[name])))),
        }
        for name in ordered
    }


def _slots(
    system: CellSystem, axis: int, part_below: int, part_above: int, alone: int
) -> tuple[Slot, Slot]:
    """Points of a face as seen from below and from above."""
    if alone >= 0:
        custom = system.cells.faces[alone].custom
        assert custom is not None
        return custom.below, custom.above
    d, inset = system.problem.domain.dimension, bool(system.enriching.count)
    return (
        slots.grid_on_face(d, POINTS, (axis, 1, part_below), inset),
        slots.grid_on_face(d, POINTS, (axis, 0, part_above), inset),
    )


class _Unknowns:
    """The unknowns of all cells in one table."""

    def __init__(self, system: CellSystem, kinds: Sequence[Kind], local: Sequence[Array]) -> None:
        self.system, self.kinds = system, kinds
        self.every = np.zeros((system.cells.count, max(len(a) for a in local)))
        self.kind_of = np.zeros(system.cells.count, dtype=np.int64)
        for number, (kind, a) in enumerate(zip(kinds, local, strict=True)):
            self.every[kind.members, : len(a)] = a.T
            self.kind_of[kind.members] = number
        spaces = {id(kind.space): kind.space for kind in kinds}
        self.spaces = list(spaces.values())
        number_of = {key: i for i, key in enumerate(spaces)}
        self.space_of = np.array([number_of[id(kind.space)] for kind in kinds])[self.kind_of]

    def values(
        self, cells: np.ndarray, slot: Slot, field: int, table: dict[tuple[int, ...], Array]
    ) -> Array:
        """sum_alpha table[alpha] D^alpha v of these cells at the points of a slot, (cells, n)."""
        half, found = self.system.cells.half_widths[cells], np.zeros((len(cells), len(slot)))
        for number in np.unique(self.space_of[cells]).tolist():
            space, mine = self.spaces[number], np.flatnonzero(self.space_of[cells] == number)
            own = slice(space.starts[field], space.starts[field + 1])
            a = self.every[cells[mine], own] / space.units[field]
            for alpha, c in table.items():
                unit = np.prod(half[mine] ** -np.array(alpha, dtype=float), axis=1)
                values = a @ space.table(field, slot, alpha).T
                found[mine] += c[mine] * unit[:, None] * values
        if self.system.enriching.count:
            self._add_own(found, cells, slot, field, table)
        return found

    def _add_own(
        self,
        found: Array,
        cells: np.ndarray,
        slot: Slot,
        field: int,
        table: dict[tuple[int, ...], Array],
    ) -> None:
        """What functions of a cell's own contribute."""
        enriching = self.system.enriching
        part = slice(*enriching.starts[field : field + 2])
        for i, j in enumerate(cells.tolist()):
            kind = self.kinds[self.kind_of[j]]
            if kind.own is None or kind.own_units is None:
                continue
            start = kind.space.columns
            a = self.every[j, start : start + enriching.count] * kind.own_units
            for alpha, c in table.items():
                psi = enriching.values(field, enriching.points(j, slot), alpha)
                found[i] += c[i] * (psi @ a[part])


def _name(m: int) -> str:
    return ("value", "normal derivative")[m] if m < 2 else f"normal derivative {m}"
