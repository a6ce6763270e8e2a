"""The paper's Algorithm 2: assemble, filter, precondition, solve, substitute back."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from tessella.assembly import LeastSquares, assemble
from tessella.basis import Basis, Multilevel
from tessella.collocation import Grid
from tessella.decomposition import Decomposition
from tessella.features import Activation, RandomFeatures
from tessella.linalg.conditioning import condition_number
from tessella.linalg.iteration import Progress, SolverResult
from tessella.linalg.rrqr import RRQR, Filtered, Unfiltered
from tessella.linalg.solvers import Solver, by_name, choose, full_name
from tessella.memory import device_name, peak_mib
from tessella.problem import Problem
from tessella.report import Report, Stopwatch, error_norms
from tessella.solution import Solution, error_monitor, test_points


def solve(
    problem: Problem,
    *,
    subdomains: int | Sequence[int] | None = None,
    features: int | None = None,
    overlap: float | Sequence[float] = 2.0,
    scale: float = 1.0,
    activation: str | Activation = "tanh",
    depth: int = 1,
    oversampling: float = 2.0,
    sigma: float = 1e-10,
    seed: int = 0,
    basis: Basis | Multilevel | None = None,
    collocation: Grid | None = None,
    filter: RRQR | Unfiltered | None = None,
    solver: Solver | str = "auto",
    test_grid: Grid | None = None,
    condition: bool = False,
    progress: Progress | None = None,
) -> Solution:
    """Solve a linear PDE with filtered random features.

    Say how rich the basis is with `subdomains` (per axis) and `features` (per subdomain); all else
    has a default. More features per subdomain buy accuracy fastest; more subdomains follow finer
    structure. `basis`, `collocation`, `filter` and `solver` replace the shorthand arguments by
    whole objects; `filter=Unfiltered()` solves without filter and preconditioner. `solver` is an
    object or a name (see `tessella.linalg.solvers.NAMES`); "auto" solves directly with NestedQR
    when its predicted memory and time fit, and with preconditioned LSQR otherwise.

    `test_grid` is where the error is measured if the problem has an exact solution (it plays no
    part in the solve), `condition=True` also computes condition numbers, and `progress` is called
    with (iterations, limit, relative residual), and with (parts done, parts, 1) during a set-up.
    """
    if basis is None:
        if subdomains is None or features is None:
            raise ValueError(
                "solve() needs `subdomains` and `features`, e.g. solve(problem, subdomains=8, "
                "features=100), or a whole `basis`"
            )
        basis = Basis(
            Decomposition(problem.domain, subdomains, overlap),
            RandomFeatures(features, depth, activation, scale=scale),
            seed,
        )
    else:
        shorthand = (subdomains, features, overlap, scale, activation, depth, seed)
        _refuse_both("basis", shorthand, (None, None, 2.0, 1.0, "tanh", 1, 0))
    if basis.decomposition.domain != problem.domain:
        raise ValueError(
            f"the basis lives on {basis.decomposition.domain!r}, but the problem on "
            f"{problem.domain!r}: decompose the problem's domain"
        )
    if collocation is not None:
        _refuse_both("collocation", (oversampling,), (2.0,))
    if filter is not None:
        _refuse_both("filter", (sigma,), (1e-10,))
    collocation = collocation or Grid(oversampling)
    own_filter, chosen = (
        by_name(solver, sigma) if isinstance(solver, str) else (RRQR(sigma), solver)
    )
    filter = filter or own_filter
    note = ""
    watch = Stopwatch()

    with watch.phase("assemble"):
        system = assemble(problem, basis, collocation.rows(problem, basis))
        jax.block_until_ready(system.M)
    with watch.phase("filter"):
        filtered = filter.apply(system.M)
    if chosen is None:
        chosen, note = choose(filtered.Q)
    with watch.phase("monitor"):
        at = test_points(problem, basis, test_grid)
        exact = None if at is None else problem.exact_values(at)
        monitor = error_monitor(problem, basis, filtered.preconditioner, at, chosen.iterative)
    with watch.phase("solve"):
        state = chosen.init(filtered.Q, progress)
        result = chosen.solve(state, system.h, monitor, progress)
        a = np.asarray(filtered.preconditioner.apply(result.x))

    report = _report(problem, basis, system, filtered, result, full_name(filter, chosen), note)
    if condition:
        with watch.phase("condition"):
            report = dataclasses.replace(report, condition=_conditions(system, filtered))
    solution = Solution(problem, basis, a, report, result.history)
    with watch.phase("measure"):
        errors = error_norms(solution(at), exact) if at is not None and exact is not None else None
    report = dataclasses.replace(
        report,
        error=errors,
        residual=system.residuals(np.asarray(system.M.matvec(a)) - system.h),
        seconds=watch.total(),
        peak_memory_mib=peak_mib(),
    )
    return dataclasses.replace(solution, report=report)


_SHORTHAND = {
    "basis": "subdomains, features, overlap, scale, activation, depth and seed",
    "collocation": "oversampling",
    "filter": "sigma",
}


def _refuse_both(whole: str, given: tuple[object, ...], defaults: tuple[object, ...]) -> None:
    """A whole object and its shorthand at once would leave one of them silently unused."""
    if given != defaults:
        raise ValueError(
            f"pass either `{whole}` or its shorthand ({_SHORTHAND[whole]}), not both: put the "
            f"values into the {whole} object"
        )


def _conditions(system: LeastSquares, filtered: Filtered) -> dict[str, float | None]:
    """kappa of M, of the filtered M_hat, and of M_hat S^-1."""
    M = condition_number(system.M).value
    everything_kept = len(filtered.kept) == system.M.shape[1]
    M_hat = M if everything_kept else condition_number(system.M.select(filtered.kept)).value
    Q = filtered.Q.select(filtered.kept)
    preconditioned = None if filtered.Q is system.M else condition_number(Q).value
    return {"M": M, "M_hat": M_hat, "preconditioned": preconditioned}


def _report(
    problem: Problem,
    basis: Basis | Multilevel,
    system: LeastSquares,
    filtered: Filtered,
    result: SolverResult,
    solver: str,
    note: str,
) -> Report:
    oracle = result.history.oracle()
    return Report(
        problem=problem.name,
        parameters=dict(problem.parameters),
        seed=basis.seed,
        solver=solver,
        solver_note=note,
        device=device_name(),
        rows=system.M.shape[0],
        columns=system.M.shape[1],
        columns_kept=len(filtered.kept),
        iterations=result.iterations,
        stop_reason=str(result.stop),
        advice=result.advice,
        weights=system.weights,
        oracle_iteration=oracle[0] if oracle else None,
        error_oracle_minimum=oracle[1] if oracle else None,
        stopping_rule_iteration=result.rule[0] if result.rule else None,
        error_at_stopping_rule=result.rule[1] if result.rule else None,
    )
