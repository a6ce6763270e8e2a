"""The paper's Algorithm 2: assemble, filter, precondition, solve, substitute back."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tessella.assembly import LeastSquares, Reduced, assemble
from tessella.basis import AnyBasis, Multilevel
from tessella.collocation import Grid
from tessella.determined import missing_conditions
from tessella.domain import Array
from tessella.estimate import disagreement, judge
from tessella.glued_system import GluedSystem, Traces
from tessella.gluing import glue
from tessella.interfaces import is_glued
from tessella.jumps import jumps
from tessella.linalg.conditioning import condition_number
from tessella.linalg.iteration import Progress, SolverResult
from tessella.linalg.rrqr import RRQR, Unfiltered
from tessella.linalg.solvers import Solver, choose, full_name
from tessella.memory import device_name, peak_mib
from tessella.problem import Problem
from tessella.report import Report, Stopwatch, error_norms
from tessella.shelf import Shelf
from tessella.solution import Solution, error_monitor, test_points


@dataclass(frozen=True)
class Factored:
    """A system with all that serves another right-hand side too, which is most of the work."""

    system: LeastSquares | GluedSystem
    reduced: Reduced
    filter: RRQR | Unfiltered
    solver: Solver
    state: Any
    note: str

    def renewed(self, system: LeastSquares | GluedSystem) -> Factored | None:
        """These factors for another system; None if its matrix is not the same by its numbers."""
        if type(system) is not type(self.system) or not system.has_matrix_of(self.system):  # type: ignore[arg-type]
            return None
        system = system.with_matrix_of(self.system)  # type: ignore[arg-type]
        reduced = self.reduced.renewed(system)  # type: ignore[arg-type]
        return dataclasses.replace(self, system=system, reduced=reduced)


def run(
    problem: Problem,
    basis: AnyBasis,
    collocation: Grid,
    filter: RRQR | Unfiltered,
    solver: Solver | None = None,
    *,
    test_grid: Grid | None = None,
    condition: bool = False,
    estimate: bool | None = False,
    progress: Progress | None = None,
    shelf: Shelf | None = None,
) -> Solution:
    """Solve with these parts; without a solver, `choose` takes the one that fits.

    `estimate` asks for a second opinion with half the features; None means if solved directly,
    where it costs a fraction of the solve. `shelf` has subdomains that earlier solves finished.
    """
    watch = Stopwatch()
    with watch.phase("assemble"):
        system = assembled(problem, basis, collocation, shelf)
    with watch.phase("measure"):
        samples = exact_samples(problem, basis, test_grid)
    ready = factor(system, filter, solver, watch, progress)
    solution = substitute(problem, basis, ready, samples, watch, progress)
    found: dict[str, Any] = {}
    if condition:
        with watch.phase("condition"):
            found["condition"] = _conditions(system, ready.reduced)
    if not ready.solver.iterative if estimate is None else estimate:
        with watch.phase("estimate"):
            found["error_estimate"] = _second_opinion(solution, collocation, filter, ready.solver)
        if not solution.report.advice:
            found["advice"] = disagreement(solution.report.error, found["error_estimate"])
    found |= {"seconds": watch.total(), "peak_memory_mib": peak_mib()}
    return dataclasses.replace(solution, report=dataclasses.replace(solution.report, **found))


def assembled(
    problem: Problem, basis: AnyBasis, collocation: Grid, shelf: Shelf | None = None
) -> LeastSquares | GluedSystem:
    """The system, however its subdomains are joined."""
    if is_glued(basis):
        glued = glue(problem, basis, collocation, shelf)
        jax.block_until_ready(glued.values)
        return glued
    system = assemble(problem, basis, collocation.rows(problem, basis))
    jax.block_until_ready(system.M)
    return system


Samples = tuple[Array, Array] | None
"""Points and the exact solution there, if it is known."""


def exact_samples(problem: Problem, basis: AnyBasis, test_grid: Grid | None) -> Samples:
    """Where the error will be measured; a bad exact solution shows itself before the solve."""
    at = test_points(problem, basis, test_grid)
    return None if at is None else (at, problem.exact_values(at))


def factor(
    system: LeastSquares | GluedSystem,
    filter: RRQR | Unfiltered,
    solver: Solver | None,
    watch: Stopwatch,
    progress: Progress | None = None,
    keep: bool = False,
) -> Factored:
    """Filter, precondition and factor; `keep` what `Factored.renewed` needs."""
    note = ""
    with watch.phase("filter"):
        reduced = system.reduce(filter, progress, keep)
    if solver is None:
        solver, note = choose(reduced.Q)
    if solver.iterative:
        reduced = reduced.preconditioned()
    with watch.phase("solve"):
        state = solver.init(reduced.Q, progress)
    return Factored(system, reduced, filter, solver, state, note)


def substitute(
    problem: Problem,
    basis: AnyBasis,
    ready: Factored,
    samples: Samples,
    watch: Stopwatch,
    progress: Progress | None = None,
) -> Solution:
    """Solve for the right-hand side, go back to the coefficients, and measure."""
    reduced, solver = ready.reduced, ready.solver
    with watch.phase("monitor"):
        at = None if samples is None else samples[0]
        watched = solver.iterative and not is_glued(basis)
        monitor = error_monitor(problem, basis, reduced.preconditioner, at, watched)
    with watch.phase("solve"):
        result = solver.solve(ready.state, reduced.h, monitor, progress)
        a = reduced.coefficients(np.asarray(result.x))

    report = _report(problem, basis, ready, result)
    found: dict[str, Any] = {"residual": ready.system.residuals(a)}
    if not report.advice:
        misfit = "" if solver.iterative else _misfit(ready.system, found["residual"])
        found["advice"] = missing_conditions(problem) or misfit
    solution = Solution(problem, basis, a, report, result.history)
    with watch.phase("measure"):
        if samples is not None:
            found["error"] = error_norms(solution(samples[0]), samples[1])
        if isinstance(ready.system, GluedSystem):
            found["jumps"] = jumps(problem, ready.system.basis, a)
    return dataclasses.replace(solution, report=dataclasses.replace(report, **found))


MISFIT = 0.1
"""Part of the data that a least-squares solution may miss without a remark."""


def _misfit(system: LeastSquares | GluedSystem, residual: dict[str, float]) -> str:
    """A remark on a solution that satisfies what was asked poorly, exact minimiser though it is."""
    loss = sum(system.weights[name] * r**2 for name, r in residual.items())
    missed = math.sqrt(loss) / (float(np.linalg.norm(system.h)) or 1.0)
    if missed < MISFIT:
        return ""
    return (
        f"{min(missed, 1.0):.0%} of the data are not met: equations and conditions contradict each "
        f"other, or the basis is too poor for them"
    )


def _second_opinion(
    solution: Solution, collocation: Grid, filter: RRQR | Unfiltered, solver: Solver
) -> float | None:
    """The error as judged by a coarser solution; the exact one plays no part."""
    basis = solution.basis
    if isinstance(basis, Multilevel) or basis.features.count < 2:
        return None
    unknown = dataclasses.replace(solution.problem, exact=None)
    coarse = run(unknown, basis.coarser(), collocation, filter, solver)
    return judge(solution, coarse).error


def _conditions(system: LeastSquares | GluedSystem, reduced: Reduced) -> dict[str, float | None]:
    """kappa of M, of the filtered M_hat, and of M_hat S^-1 (or of the condensed trace system)."""
    M = condition_number(system.M).value
    kept = reduced.kept
    if isinstance(system, GluedSystem):
        kept = np.concatenate([kept, np.arange(system.basis.columns, system.M.shape[1])])
    everything_kept = len(kept) == system.M.shape[1]
    M_hat = M if everything_kept else condition_number(system.M.select(kept)).value
    if isinstance(system, GluedSystem):
        return {"M": M, "M_hat": M_hat, "preconditioned": condition_number(reduced.Q).value}
    Q = reduced.Q.select(kept)
    preconditioned = None if reduced.Q is system.M else condition_number(Q).value
    return {"M": M, "M_hat": M_hat, "preconditioned": preconditioned}


def _report(problem: Problem, basis: AnyBasis, ready: Factored, result: SolverResult) -> Report:
    system = ready.system
    oracle = result.history.oracle()
    return Report(
        problem=problem.name,
        parameters=dict(problem.parameters),
        seed=basis.seed,
        solver=full_name(ready.filter, ready.solver),
        solver_note=ready.note,
        device=device_name(),
        rows=system.rows,
        columns=basis.columns,
        columns_kept=int(np.count_nonzero(ready.reduced.kept < basis.columns)),
        **_interfaces(system, ready.reduced, basis),
        iterations=result.iterations,
        stop_reason=str(result.stop),
        advice=result.advice,
        weights=system.weights,
        oracle_iteration=oracle[0] if oracle else None,
        error_oracle_minimum=oracle[1] if oracle else None,
        stopping_rule_iteration=result.rule[0] if result.rule else None,
        error_at_stopping_rule=result.rule[1] if result.rule else None,
    )


def _interfaces(
    system: LeastSquares | GluedSystem, reduced: Reduced, basis: AnyBasis
) -> dict[str, Any]:
    if isinstance(system, LeastSquares):
        seen = sum(len(group.heights) for group in system.M.groups)
        everything = sum(level.decomposition.count for level in basis.levels)
        return {"coupling": "overlap", "active_subdomains": seen if seen < everything else None}
    return {
        "coupling": "interfaces",
        "traces": system.traces,
        "distinct_subdomains": len(system.kinds),
        "reused_subdomains": reduced.eliminated.reused if isinstance(reduced, Traces) else 0,
    }
