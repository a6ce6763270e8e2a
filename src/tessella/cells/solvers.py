"""How cells are joined: directly, or by an iteration."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

from tessella.linalg.rrqr import RRQR, Unfiltered
from tessella.linalg.solvers import Solver, by_name


@dataclass(frozen=True)
class Merging:
    """Cells joined two and two up to the whole (see `merging`): exact, and further right-hand sides
    cost next to nothing."""

    name: ClassVar[str] = "merging"
    iterative: ClassVar[bool] = False


ROUNDING = 1e-14
"""Relative residual of an exchange that is as good as direct."""


@dataclass(frozen=True)
class Exchange:
    """Cells exchange data with their neighbours until nothing changes, by GMRES: for more cells
    than merging has memory or time for."""

    max_iterations: int = 2_000
    tolerance: float = 1e-12
    """Relative residual of the exchange at which it ends."""
    group: int = 1
    """Cells of a group at most: such groups are merged before, and exchange data then. Larger ones
    take fewer iterations, and more memory."""
    coarse: bool = True
    """Solve for the longest waves on all faces directly in every iteration. Where cells resolve
    what they should, iterations do not grow with their number then; elsewhere it is left out after
    some. False is quicker where cells are few."""

    name: ClassVar[str] = "exchange"

    @property
    def iterative(self) -> bool:
        """Whether it ends before rounding errors do."""
        return self.tolerance > ROUNDING

    def __post_init__(self) -> None:
        for name in ("max_iterations", "group"):
            number = getattr(self, name)
            if not (isinstance(number, int) and number >= 1):
                raise ValueError(f"{name} must be a whole number of at least 1, got {number!r}")
        if not 0 < self.tolerance < 1:
            raise ValueError(f"tolerance must lie between 0 and 1, got {self.tolerance!r}")
        if not isinstance(self.coarse, bool):
            raise ValueError(f"coarse must be True or False, got {self.coarse!r}")


CELL_SOLVERS: dict[str, type[Merging] | type[Exchange]] = {
    kind.name: kind for kind in (Merging, Exchange)
}

AnySolver = Solver | Merging | Exchange | None
"""None is decided once sizes are known."""


def solver_named(
    name: str, sigma: float, options: dict[str, Any] | None = None
) -> tuple[RRQR | Unfiltered, AnySolver]:
    """Filter and solver that a name stands for, of either coupling; options as in `by_name`."""
    if name not in CELL_SOLVERS:
        return by_name(name, sigma, options, others=tuple(CELL_SOLVERS))
    kind = CELL_SOLVERS[name]
    known = {field.name for field in dataclasses.fields(kind)}
    return RRQR(sigma), kind(**{k: v for k, v in (options or {}).items() if k in known})
