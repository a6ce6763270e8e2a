"""What a factored system answers, however its subdomains are joined."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from tessella.linalg.iterative.iteration import Progress, SolverResult
from tessella.machine.arrays import Array
from tessella.machine.stopwatch import Stopwatch
from tessella.overlap.basis import AnyBasis
from tessella.overlap.parted import Parted
from tessella.problem.problem import Problem


class Watching(NamedTuple):
    """Who looks at a solve: `progress` is told of an iteration, at the points `at` the exact
    solution of the problem is known, and `jumps` between neighbours are asked for or not."""

    problem: Problem
    basis: AnyBasis
    at: Array | None = None
    progress: Progress | None = None
    jumps: bool = True


class Found(NamedTuple):
    """Coefficients, how they were found, what every statement misses, and how far neighbours side
    by side disagree; a remark on how it came about; and who has which coefficients, where `a` are
    only those of this process."""

    a: Array
    result: SolverResult
    residual: dict[str, float]
    jumps: dict[str, dict[str, float]] | None = None
    note: str = ""
    parted: Parted | None = None

    def whole(self) -> Found:
        """With the coefficients of all processes."""
        if self.parted is None:
            return self
        return self._replace(a=self.parted.whole(self.a), parted=None)


class Many(NamedTuple):
    """Coefficients (k, columns) for several right-hand sides, how the slowest of them were found,
    and what every statement misses of each, (k,)."""

    a: Array
    result: SolverResult
    residual: dict[str, Array]

    @staticmethod
    def of(each: Sequence[Found]) -> Many:
        residual = {n: np.array([one.residual[n] for one in each]) for n in each[0].residual}
        slowest = max((one.result for one in each), key=lambda own: own.iterations)
        return Many(np.stack([one.a for one in each]), slowest, residual)


class Data(NamedTuple):
    """Where data of a statement enter the right-hand sides of a system: at these places as
    scale * (values - lift), the values at these points (those numbered by `which`, if not one
    each); on a boundary with the normals there."""

    name: str
    points: Array
    at: slice
    scale: Array
    lift: Array
    which: np.ndarray | None = None
    normals: Array | None = None


class Factors(ABC):
    """A system with all that serves another right-hand side too: filtered and factored.

    `solve` asks for the right-hand sides of the system it holds; `renewed` puts another system in
    its place, if only right-hand sides differ. The rest is for the report: which solver it was and
    whether it iterates, a `note` on how it came about (or none), how subdomains are joined, and how
    well everything is conditioned.
    """

    note: str
    system: Any
    solver: Any

    @property
    @abstractmethod
    def name(self) -> str:
        """Of filter and solver, as `solver=` takes it."""

    @property
    @abstractmethod
    def iterative(self) -> bool:
        """Whether a solution is approached step by step, and may be stopped early."""

    @property
    @abstractmethod
    def columns_kept(self) -> int:
        """Columns that the filter has left."""

    @property
    def sharing(self) -> int:
        """How many processes share the right-hand sides: each has its own rows of `right`, of
        `data` and of what `many` takes and `transposed` gives."""
        return 1

    @abstractmethod
    def renewed(self, system: object) -> Self | None:
        """These factors for another system; None if its matrix is not the same by its numbers."""

    def later(self, problem: Any, basis: Any) -> Self | None:
        """These factors for a problem that says the same later in time, without assembling it; None
        if that cannot be told."""
        return None

    @abstractmethod
    def solve(self, watch: Stopwatch, watching: Watching) -> Found:
        """Solve for the system's right-hand sides, an iteration under somebody's eyes."""

    @abstractmethod
    def data(self) -> list[Data]:
        """Where the data of every statement enter the system's `right`."""

    @abstractmethod
    def many(self, right: Array) -> Many:
        """Solve for other right-hand sides (k, size), in the order of the system's `right`."""

    def transposed(self, a: Array) -> Array | None:
        """The transpose of `many`: from coefficients (k, columns) to right-hand sides (k, size);
        None if these factors cannot be used that way."""
        return None

    @abstractmethod
    def described(self, basis: AnyBasis) -> dict[str, Any]:
        """What a report says of how subdomains are joined."""

    @abstractmethod
    def conditions(self) -> dict[str, float | None]:
        """Condition numbers of the rows (M), of those that the filter left (M_hat), and of what is
        solved in the end (preconditioned)."""
