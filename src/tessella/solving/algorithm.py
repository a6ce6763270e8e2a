"""The paper's Algorithm 2: assemble, filter, precondition, solve, substitute back."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from tessella.accuracy.estimate import disagreement, judge, spreads
from tessella.cells.maps.shelf import Shelf
from tessella.linalg.iterative.iteration import Progress
from tessella.machine.arrays import Array
from tessella.machine.memory import device_name, peak_mib, refusals_with_remedy
from tessella.machine.stopwatch import Stopwatch
from tessella.overlap.basis import AnyBasis, Multilevel
from tessella.overlap.factored import Watching
from tessella.overlap.points import Grid
from tessella.problem.determined import contradictions, missing_conditions
from tessella.problem.problem import Problem
from tessella.solution.report import Report, error_norms
from tessella.solution.solution import Solution, test_points
from tessella.solving.ways import Factors, Found, Parts, System, way


@refusals_with_remedy()
def run(
    problem: Problem,
    parts: Parts,
    *,
    test_grid: Grid | None = None,
    condition: bool = False,
    estimate: bool | None = False,
    progress: Progress | None = None,
    shelf: Shelf | None = None,
) -> Solution:
    """Solve with these parts.

    `estimate` asks for a second opinion with half the features; None means if solved directly,
    where it costs a fraction of the solve. `shelf` has subdomains that earlier solves finished.
    """
    watch, parts = Stopwatch(), dataclasses.replace(parts, right_sides=1)
    with watch.phase("assemble"):
        system = way(parts.basis).assemble(problem, parts)
    with watch.phase("measure"):
        samples = exact_samples(problem, parts.basis, test_grid)
    ready = way(parts.basis).factor(system, parts, watch, progress, shelf)
    solution = substitute(problem, parts.basis, ready, samples, watch, progress)
    found: dict[str, Any] = {}
    if condition:
        with watch.phase("condition"):
            found["condition"] = ready.conditions()
    if not ready.iterative if estimate is None else estimate:
        with watch.phase("estimate"):
            found |= _second_opinion(solution, parts)
        if not solution.report.advice:
            found["advice"] = disagreement(solution.report.error, found.get("error_estimate"))
    found |= {"seconds": watch.total(), "peak_memory_mib": peak_mib()}
    return dataclasses.replace(solution, report=dataclasses.replace(solution.report, **found))


Samples = tuple[Array, Array] | None
"""Points and the exact solution there, if it is known."""


def exact_samples(problem: Problem, basis: AnyBasis, test_grid: Grid | None) -> Samples:
    """Where the error will be measured; a bad exact solution shows itself before the solve."""
    at = test_points(problem, basis, test_grid)
    return None if at is None else (at, problem.exact_values(at))


def substitute(
    problem: Problem,
    basis: AnyBasis,
    ready: Factors,
    samples: Samples,
    watch: Stopwatch,
    progress: Progress | None = None,
    remarks: bool = True,
    jumps: bool = True,
) -> Solution:
    """Solve for the right-hand side, go back to the coefficients, and measure; `remarks` on what
    was stated unless that has been looked at before, `jumps` between neighbours unless nobody
    asks."""
    at = None if samples is None else samples[0]
    solved = ready.solve(watch, Watching(problem, basis, at, progress, jumps))
    report = report_of(problem, basis, ready, solved)
    found: dict[str, Any] = {"residual": solved.residual}
    if remarks and not report.advice:
        misfit = "" if ready.iterative else _misfit(ready.system, solved.residual)
        found["advice"] = missing_conditions(problem) or contradictions(problem) or misfit
    history, parted = solved.result.history, solved.parted
    solution = Solution(problem, basis, solved.a, report, history, parted)
    with watch.phase("measure"):
        if samples is not None:
            found["error"] = error_norms(solution(samples[0]), samples[1])
    if solved.jumps is not None:
        found["jumps"] = solved.jumps
    return dataclasses.replace(solution, report=dataclasses.replace(report, **found))


MISFIT = 0.1
"""Part of the data that a least-squares solution may miss without a remark."""


def _misfit(system: System, residual: dict[str, float]) -> str:
    """A remark on a solution that satisfies what was asked poorly, exact minimiser though it is."""
    loss = sum(system.weights[name] * r**2 for name, r in residual.items())
    missed = math.sqrt(loss) / (system.data_size or 1.0)
    if missed < MISFIT:
        return ""
    return (
        f"{min(missed, 1.0):.0%} of the data are not met: equations and conditions contradict each "
        f"other, or the basis is too poor for them"
    )


def _second_opinion(solution: Solution, parts: Parts) -> dict[str, Any]:
    """The errors as judged by a coarser solution; the exact one plays no part."""
    basis = solution.basis
    if isinstance(basis, Multilevel) or basis.features.count < 2:
        return {}
    unknown = dataclasses.replace(solution.problem, exact=None)
    coarse = run(unknown, dataclasses.replace(parts, basis=basis.coarser()))
    judged = judge(solution, coarse)
    return {
        "error_estimate": judged.errors.mean,
        "largest_error_estimate": judged.errors.largest,
        "spreads": spreads(solution, judged.zero),
    }


def report_of(problem: Problem, basis: AnyBasis, ready: Factors, solved: Found) -> Report:
    """What is known of a solve before its residual is."""
    system, result = ready.system, solved.result
    oracle = result.history.oracle()
    return Report(
        problem=problem.name,
        parameters=dict(problem.parameters),
        seed=basis.seed,
        solver=ready.name,
        solver_note="; ".join(filter(None, (ready.note, solved.note))),
        device=device_name(),
        rows=system.rows,
        columns=basis.columns,
        features=basis.levels[-1].features.in_words,
        columns_kept=min(ready.columns_kept, basis.columns),
        **ready.described(basis),
        iterations=result.iterations,
        stop_reason=str(result.stop),
        advice=result.advice,
        weights=system.weights,
        oracle_iteration=oracle[0] if oracle else None,
        error_oracle_minimum=oracle[1] if oracle else None,
        stopping_rule_iteration=result.rule[0] if result.rule else None,
        error_at_stopping_rule=result.rule[1] if result.rule else None,
    )
