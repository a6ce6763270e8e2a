"""Two ways of joining subdomains, and what both answer.

The algorithm knows a system, which has rows and weights, and its factors, which solve it for a
right-hand side and say what they are. Overlapping subdomains make one least-squares problem in
blocks; cells make maps. Which way it is, the basis decides, here and nowhere else.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import jax
import numpy as np

from tessella.cells.boxes.basis import on_cells
from tessella.cells.factoring import factor_cells
from tessella.cells.joins.choosing import MANY
from tessella.cells.maps.shelf import Shelf
from tessella.cells.solvers import CELL_SOLVERS, AnySolver
from tessella.cells.system.system import cell_system
from tessella.geometry.box import Box
from tessella.linalg.conditioning import condition_number
from tessella.linalg.direct.factorisation import Factorisation
from tessella.linalg.iterative.iteration import Iterative, Progress
from tessella.linalg.iterative.schwarz import SchwarzCG
from tessella.linalg.rrqr import RRQR, Unfiltered
from tessella.linalg.solvers import Solver, choose, full_name
from tessella.machine import processes
from tessella.machine.arrays import Array, on_device
from tessella.machine.stopwatch import Stopwatch
from tessella.overlap.basis import AnyBasis, Basis
from tessella.overlap.factored import Data, Factors, Found, Many, Watching
from tessella.overlap.parted import Parted
from tessella.overlap.points import Grid
from tessella.overlap.shared_system import SharedSquares, shared_system
from tessella.overlap.shares import Share
from tessella.overlap.system import LeastSquares, Reduced, assemble
from tessella.problem.conditions import IntegralCondition
from tessella.problem.problem import Problem
from tessella.solution.monitor import error_monitor


@dataclass(frozen=True)
class Parts:
    """What the algorithm works with; without a solver, sizes decide, and for how many right-hand
    sides factors are made."""

    basis: AnyBasis
    collocation: Grid
    filter: RRQR | Unfiltered
    solver: AnySolver = None
    right_sides: int = MANY


class System(Protocol):
    """What is to be solved: rows, their right sides and how large these are as they weigh in the
    loss, and the weight of every statement."""

    @property
    def rows(self) -> int: ...

    @property
    def data_size(self) -> float: ...

    @property
    def weights(self) -> dict[str, float]: ...

    @property
    def right(self) -> Array: ...


class Way(NamedTuple):
    """How subdomains are joined."""

    assemble: Callable[[Problem, Parts], System]
    factor: Callable[..., Factors]


def way(basis: AnyBasis) -> Way:
    """The way that a basis is joined."""
    return CELLS if on_cells(basis) else OVERLAP


@dataclass(frozen=True)
class Factored(Factors):
    """A least-squares system with all that serves another right-hand side too."""

    system: LeastSquares
    reduced: Reduced
    filter: RRQR | Unfiltered
    solver: Solver
    state: Any
    note: str

    @property
    def iterative(self) -> bool:
        return self.solver.iterative

    @property
    def name(self) -> str:
        return full_name(self.filter, self.solver)

    @property
    def columns_kept(self) -> int:
        return self.reduced.columns_kept

    def renewed(self, system: object) -> Factored | None:
        if not isinstance(system, LeastSquares) or not system.has_matrix_of(self.system):
            return None
        system = system.with_matrix_of(self.system)
        return dataclasses.replace(self, system=system, reduced=self.reduced.renewed(system))

    def solve(self, watch: Stopwatch, watching: Watching) -> Found:
        """Solve for the right-hand side; an iteration is watched at the points where the exact
        solution is known."""
        if self.share is not None:
            processes.begin()
        with watch.phase("monitor"):
            preconditioner = self.reduced.preconditioner
            problem, basis, at, progress, _ = watching
            watched = at if self.solver.iterative else None
            monitor = error_monitor(problem, basis, preconditioner, watched, self.share)
            begun = processes.sent_bytes()
        with watch.phase("solve"):
            result = self.solver.solve(self.state, self.reduced.h, monitor, progress)
            a = self.reduced.coefficients(np.asarray(result.x))
        residual = self.system.residuals(a)
        return Found(a, result, residual, note=self._traffic(begun), parted=self._parted)

    @property
    def share(self) -> Share | None:
        """What this process has of the system, if not all of it."""
        return self.system.share if isinstance(self.system, SharedSquares) else None

    @property
    def _parted(self) -> Parted | None:
        return None if self.share is None else self.share.parted

    def _traffic(self, begun: int) -> str:
        """What several processes have sent each other."""
        if self.share is None:
            return ""
        sent = int(processes.total("sent", np.array([processes.sent_bytes() - begun]))[0])
        return f"{processes.number()} processes sent {sent:,} bytes to solve"

    def data(self) -> list[Data]:
        return self.system.data()

    def many(self, right: Array) -> Many:
        """Directly all at once, by an iteration one after the other."""
        if self.solver.iterative:
            results = [self.solver.solve(self.state, h, None, None) for h in right]
        else:
            whole = self.solver.solve(self.state, right.T, None, None)
            results = [dataclasses.replace(whole, x=x) for x in np.asarray(whole.x).T]
        found = []
        for h, result in zip(right, results, strict=True):
            a = self.reduced.coefficients(np.asarray(result.x))
            residual = self.system.with_right(h).residuals(a)
            found.append(Found(a, result, residual, parted=self._parted).whole())
        return Many.of(found)

    def transposed(self, a: Array) -> Array | None:
        """Directly solved only."""
        if not isinstance(self.state, Factorisation):
            return None
        size = self.system.M.shape[1]
        back = [
            np.asarray(
                self.reduced.preconditioner.adjoint(on_device(np.pad(x, (0, size - len(x)))))
            )
            for x in a
        ]
        found = self.state.transposed(np.stack(back, axis=1))
        return None if found is None else found.T

    def described(self, basis: AnyBasis) -> dict[str, Any]:
        """What a report says of how subdomains are joined."""
        seen = sum(len(group.heights) for group in self.system.M.groups)
        if self.share is not None:
            seen = int(processes.total("seen", np.array([seen]))[0])
        everything = sum(level.decomposition.count for level in basis.levels)
        return {"coupling": "overlap", "active_subdomains": seen if seen < everything else None}

    def conditions(self) -> dict[str, float | None]:
        """kappa of M, of the filtered M_hat, and of M_hat S^-1."""
        if self.share is not None:
            raise ValueError(
                "condition=True needs the whole matrix, of which every process has a part: ask for "
                "condition numbers in one process"
            )
        system, reduced, kept = self.system, self.reduced, self.reduced.kept
        M = condition_number(system.M).value
        everything_kept = len(kept) == system.M.shape[1]
        M_hat = M if everything_kept else condition_number(system.M.select(kept)).value
        Q = reduced.Q.select(kept)
        preconditioned = None if reduced.Q is system.M else condition_number(Q).value
        return {"M": M, "M_hat": M_hat, "preconditioned": preconditioned}


def _check_inverses(problem: Problem, parts: Parts) -> None:
    """Refuse additive Schwarz whose local inverses alone would not fit, before anything is made."""
    basis, solver = parts.basis, parts.solver
    if not (isinstance(basis, Basis) and isinstance(problem.domain, Box)):
        return
    if isinstance(solver, SchwarzCG) and isinstance(parts.filter, Unfiltered):
        solver.check(basis.decomposition.neighbours() * basis.width)


def _shares(problem: Problem, parts: Parts) -> bool:
    """Whether several processes share the subdomains: where an iteration needs its neighbours only.
    Anything else every process solves by itself."""
    return (
        not processes.alone()
        and isinstance(parts.solver, Iterative)
        and parts.solver.shares
        and getattr(parts.filter, "patch", 1) == 1
        and not any(level.enrichment for level in parts.basis.levels)
        and not any(isinstance(one, IntegralCondition) for one in problem.conditions)
    )


def _blocks(problem: Problem, parts: Parts) -> LeastSquares:
    _check_inverses(problem, parts)
    if _shares(problem, parts):
        with processes.in_unison("points"):
            rows = parts.collocation.rows(problem, parts.basis)
        system: LeastSquares = shared_system(problem, parts.basis, rows)
    else:
        with processes.by_itself():
            rows = parts.collocation.rows(problem, parts.basis)
            system = assemble(problem, parts.basis, rows)
    jax.block_until_ready(system.M)
    return system


def _factor_blocks(
    system: LeastSquares,
    parts: Parts,
    watch: Stopwatch,
    progress: Progress | None = None,
    shelf: Shelf | None = None,
) -> Factored:
    """Filter, precondition and factor; nothing of it is found again on a shelf."""
    solver, note = parts.solver, ""
    if solver is not None and solver.name in CELL_SOLVERS:
        raise ValueError(
            f"solver={solver.name!r} joins subdomains that lie side by side: add "
            f"coupling='interfaces', or use solver='auto'"
        )
    with watch.phase("filter"):
        reduced = system.reduce(parts.filter, progress)
    if solver is None:
        solver, note = choose(reduced.Q)
    if solver.iterative:
        reduced = reduced.preconditioned()
    with watch.phase("solve"):
        state = solver.init(reduced.Q, progress)  # type: ignore[union-attr]
    return Factored(system, reduced, parts.filter, solver, state, note)  # type: ignore[arg-type]


def _cells(problem: Problem, parts: Parts) -> System:
    assert on_cells(parts.basis)
    return cell_system(problem, parts.basis, parts.collocation)


def _factor_cells(
    system: Any,
    parts: Parts,
    watch: Stopwatch,
    progress: Progress | None = None,
    shelf: Shelf | None = None,
) -> Factors:
    with watch.phase("filter"):
        return factor_cells(system, parts.filter, parts.solver, progress, shelf, parts.right_sides)


OVERLAP, CELLS = Way(_blocks, _factor_blocks), Way(_cells, _factor_cells)
