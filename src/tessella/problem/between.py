"""States on the line through two others."""

from __future__ import annotations

from dataclasses import dataclass

from tessella.machine.arrays import Array
from tessella.problem.operators import Operator
from tessella.problem.problem import Problem
from tessella.problem.statement import Applied


@dataclass(frozen=True, eq=False)
class Between:
    """(1 - share) first + share second; a share above 1 goes on beyond the second."""

    first: Applied
    second: Applied
    share: float

    @property
    def problem(self) -> Problem:
        return self.second.problem

    def apply(self, operator: Operator, points: Array, normals: Array | None = None) -> Array:
        first, second = (one.apply(operator, points, normals) for one in (self.first, self.second))
        return first + self.share * (second - first)
