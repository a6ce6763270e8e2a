"""The foot of the tree: which kind the single cells of every stage are, and their maps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tessella.cells.maps.leaves import Mapped
from tessella.cells.maps.maps import Maps
from tessella.cells.order.order import Order
from tessella.cells.system.kinds import Kind
from tessella.cells.system.system import CellSystem
from tessella.machine.arrays import Array


class Singles:
    """Kinds numbered stage by stage, before they are mapped.

    stage, number  of every kind
    which          of every stage the number of each cell's kind, None where there are no kinds
    """

    def __init__(self, plan: Order, kinds: Sequence[Kind]) -> None:
        self.kinds = kinds
        first = np.array([kind.members[0] for kind in kinds], dtype=np.int64)
        self.stage = plan.place[first, 0]
        self.number = np.zeros(len(kinds), dtype=np.int64)
        self.which: list[np.ndarray | None] = [None] * len(plan.stages)
        for stage in set(self.stage.tolist()):
            own = np.flatnonzero(self.stage == stage)
            self.number[own] = np.arange(len(own))
            which = np.zeros(plan.stages[stage].count, dtype=np.int64)
            for k in own.tolist():
                which[plan.place[kinds[k].members, 1]] = self.number[k]
            self.which[stage] = which

    def maps(self, mapped: Sequence[Mapped]) -> list[Maps | None]:
        """Of every stage, its kinds in the order of their numbers."""
        parts: dict[int, list[Mapped]] = {}
        for family in mapped:
            parts.setdefault(int(self.stage[family.numbers[0]]), []).append(family)
        found: list[Maps | None] = [None] * len(self.which)
        for stage, families in parts.items():
            numbers = [self.number[own.numbers] for own in families]
            names = [self.kinds[k].name for k in np.flatnonzero(self.stage == stage).tolist()]
            T = _in_order(numbers, [own.T for own in families])
            found[stage] = Maps(T, _in_order(numbers, [own.E for own in families]), tuple(names))
        return found


def _in_order(numbers: Sequence[np.ndarray], parts: Sequence[Array]) -> Array:
    """Matrices of several parts by their numbers."""
    if len(parts) == 1 and np.array_equal(numbers[0], np.arange(len(parts[0]))):
        return parts[0]
    found = np.empty((sum(map(len, parts)), *parts[0].shape[1:]))
    for at, own in zip(numbers, parts, strict=True):
        found[at] = own
    return found


def check_finite(system: CellSystem, mapped: Sequence[Mapped]) -> None:
    """Refuse maps that are not, by the place of the first such cell."""
    for own in mapped:
        if not np.isfinite(own.T).all():
            finite = np.isfinite(own.T.sum(axis=(1, 2)))[own.sharing.which]
            place = system.cells.centres[own.cells[np.argmin(finite)]]
            at = ", ".join(f"{c:.4g}" for c in place)
            raise ValueError(
                f"the subdomain around ({at}) cannot match incoming data (its map is not finite): "
                f"check the coefficients there, or use coupling='overlap'"
            )
