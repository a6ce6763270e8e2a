"""What factors of cells have in common, on the host and on a device."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

from tessella.cells.solvers import Exchange, Merging
from tessella.cells.space import Space
from tessella.cells.system import CellSystem, retuned
from tessella.overlap.basis import AnyBasis
from tessella.overlap.factored import Factors

MAGNIFIED = 1e4
"""Rounding errors may grow by this factor in a group of cells."""


@dataclass(frozen=True, repr=False)
class FactoredCells(Factors):
    """Cells mapped and joined.

    reused  how many cells an earlier solve had mapped
    tuning  of the incoming data's wavenumbers (see `retuned`)
    """

    system: CellSystem
    spaces: tuple[Space, ...]
    reused: int
    note: str
    tuning: float

    @property
    @abstractmethod
    def solver(self) -> Merging | Exchange:
        """How cells are joined."""

    @property
    @abstractmethod
    def distinct(self) -> int:
        """How many cells were mapped."""

    @property
    @abstractmethod
    def worst(self) -> float:
        """Condition of the worst cell's rows in the basis that the filter leaves."""

    @property
    @abstractmethod
    def bytes(self) -> int:
        """Of all that is kept for right-hand sides."""

    @property
    def name(self) -> str:
        return self.solver.name

    @property
    def iterative(self) -> bool:
        return self.solver.iterative

    def noted(self, remark: str) -> Self:
        """The same with a remark on how it came about."""
        return dataclasses.replace(self, note="; ".join(filter(None, (self.note, remark))))

    def renewed(self, system: object) -> Self | None:
        if not isinstance(system, CellSystem):
            return None
        own = system if self.tuning == 1.0 else retuned(system, self.tuning)
        return dataclasses.replace(self, system=own) if own.has_matrix_of(self.system) else None

    def described(self, basis: AnyBasis) -> dict[str, Any]:
        return {
            "coupling": "interfaces",
            "traces": self.system.traces,
            "distinct_subdomains": self.distinct,
            "reused_subdomains": self.reused,
        }

    def conditions(self) -> dict[str, float | None]:
        """kappa of the rows of a draw before and after its filter, and of the worst cell's rows in
        the basis that the filter leaves."""
        draws = [draw.condition for space in self.spaces for draw in space.draws]
        return {
            "M": max(one for one, _ in draws),
            "M_hat": max(one for _, one in draws),
            "preconditioned": self.worst,
        }

    def __repr__(self) -> str:
        cells, faces = self.system.cells.count, len(self.system.faces)
        return (
            f"<{type(self).__name__}: {cells:,} subdomains, {self.distinct:,} of them distinct, "
            f"joined at {faces:,} faces by {self.name}; {self.bytes / 2**20:,.1f} MiB>"
        )
