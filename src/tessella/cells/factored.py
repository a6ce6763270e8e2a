"""What factors of cells have in common, on the host and on a device."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from tessella.cells.boxes.basis import AnyCellBasis
from tessella.cells.cell.space import Space
from tessella.cells.maps.unknowns import Unknowns
from tessella.cells.solvers import Exchange, Merging
from tessella.cells.system.later import later
from tessella.cells.system.system import CellSystem, retuned
from tessella.machine import processes
from tessella.machine.arrays import Array
from tessella.overlap.basis import AnyBasis
from tessella.overlap.factored import Data, Factors
from tessella.overlap.parted import Parted
from tessella.problem.conditions import PointCondition
from tessella.problem.problem import Problem

MAGNIFIED = 1e4
"""Rounding errors may grow by this factor in a group of cells."""


def _nearest(x: Array, points: Array) -> np.ndarray:
    """Which of some points are these."""
    apart = x[:, None] - points
    return np.asarray(np.argmin(np.sum(apart**2, axis=2), axis=1))


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
    @abstractmethod
    def sent(self) -> int:
        """Bytes that several processes have sent each other to join cells."""

    @property
    def sharing(self) -> int:
        return processes.number()

    @property
    def name(self) -> str:
        return self.solver.name

    @property
    def iterative(self) -> bool:
        return self.solver.iterative

    def noted(self, remark: str) -> Self:
        """The same with a remark on how it came about."""
        return dataclasses.replace(self, note="; ".join(filter(None, (self.note, remark))))

    @property
    def once(self) -> bool:
        """Whether they are for the data of the system that they were made of, and no others."""
        return False

    def renewed(self, system: object) -> Self | None:
        if self.once or not isinstance(system, CellSystem):
            return None
        own = system if self.tuning == 1.0 else retuned(system, self.tuning)
        return dataclasses.replace(self, system=own) if own.has_matrix_of(self.system) else None

    def later(self, problem: Problem, basis: AnyCellBasis) -> Self | None:
        own = None if self.once else later(self.system, problem, basis)
        return None if own is None else dataclasses.replace(self, system=own)

    @cached_property
    def _parted(self) -> Parted | None:
        """Who has which coefficients: those of its cells; of boxes without one, process 0."""
        if processes.alone():
            return None
        owner = np.zeros(self.system.cells.tiling.count, dtype=np.int64)
        owner[self.system.cells.number] = self.system.cells.whose
        return Parted.of(self.system.bases, [owner] * len(self.system.bases))

    def _coefficients(self, unknowns: Unknowns) -> Array:
        """Those of this process."""
        return unknowns.coefficients(None if self._parted is None else self._parted.mine[0])

    def _traffic(self, begun: int) -> str:
        """What several processes have sent each other to join cells and to solve."""
        if processes.alone():
            return ""
        own = np.array([processes.sent_bytes() - begun])
        solving = int(processes.total("sent", own)[0])
        return (
            f"{processes.number()} processes sent {self.sent:,} bytes to join and {solving:,} to "
            f"solve"
        )

    def data(self) -> list[Data]:
        problem, points, found = self.system.problem, self.system.cells.points, []
        conditions = [c for c in problem.conditions if isinstance(c, PointCondition)]
        measured = {c.name: c.points for c in conditions}
        start, d = 0, problem.domain.dimension
        asked = [(p.name, p, p.scale.ravel(), p.lift.ravel()) for p in self.system.asked]
        sums = [(s.name, s.parts[0], np.array([s.scale]), np.array([s.lift]))
                for s in self.system.sums]  # fmt: skip
        for name, part, scale, lift in (*asked, *sums):
            at, which = slice(start, start + len(scale)), None
            start = at.stop
            x = points(part.members, part.slot.points).reshape(-1, d)
            if name in measured:
                which = _nearest(x, problem.domain.wrapped(measured[name]))
                x = measured[name]
            x = x[: len(scale)] if which is None else x
            turned = part.normals
            if turned is not None:
                turned = np.tile(turned, (len(part.members), 1))
            found.append(Data(name, x, at, scale, lift, which, turned))
        return found

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
        cells, faces = self.system.cells.count, self.system.ports.joints.faces
        return (
            f"<{type(self).__name__}: {cells:,} subdomains, {self.distinct:,} of them distinct, "
            f"joined at {faces:,} faces by {self.name}; {self.bytes / 2**20:,.1f} MiB>"
        )
