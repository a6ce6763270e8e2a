"""The paper's Algorithm 2: assemble, filter, precondition, solve, substitute back."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from tessella.assembly import LeastSquares, Reduced, assemble
from tessella.basis import Basis, Multilevel
from tessella.collocation import Grid
from tessella.decomposition import Decomposition
from tessella.features import Activation, RandomFeatures
from tessella.glued_system import GluedSystem
from tessella.gluing import glue
from tessella.interfaces import Glued, default_features
from tessella.jumps import jumps
from tessella.linalg.conditioning import condition_number
from tessella.linalg.iteration import Progress, SolverResult
from tessella.linalg.rrqr import RRQR, Unfiltered
from tessella.linalg.solvers import Solver, by_name, choose, full_name
from tessella.memory import device_name, peak_mib
from tessella.problem import Problem
from tessella.report import Report, Stopwatch, error_norms
from tessella.solution import Solution, error_monitor, test_points
from tessella.tiling import Tiling


def solve(
    problem: Problem,
    *,
    subdomains: int | Sequence[int] | None = None,
    features: int | None = None,
    coupling: str = "overlap",
    overlap: float | Sequence[float] | None = None,
    trace_degree: int | None = None,
    shared: bool | None = None,
    scale: float | None = None,
    activation: str | Activation | None = None,
    depth: int = 1,
    oversampling: float = 2.0,
    sigma: float | None = None,
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
    structure.

    `coupling` says how subdomains are joined. "overlap" is the paper's: windows blend neighbours
    that are `overlap` spacings wide (2 unless given). "interfaces" puts them side by side and
    glues them by traces of degree `trace_degree` on their common faces; it is ten to a hundred
    times cheaper at equal error. `shared` gives all subdomains one draw (the default there), so
    that equal ones are factored once. `scale`, `activation` and `sigma` default to tanh of scale 1
    filtered at 1e-10 with overlap, and to sines of a bandwidth that fits `features` filtered at
    1e-14 side by side.

    `basis`, `collocation`, `filter` and `solver` replace the shorthand arguments by
    whole objects; `filter=Unfiltered()` solves without filter and preconditioner. `solver` is an
    object or a name (see `tessella.linalg.solvers.NAMES`); "auto" solves directly with NestedQR
    when its predicted memory and time fit, and with preconditioned LSQR otherwise.

    `test_grid` is where the error is measured if the problem has an exact solution (it plays no
    part in the solve), `condition=True` also computes condition numbers, and `progress` is called
    with (iterations, limit, relative residual), and with (parts done, parts, 1) during a set-up.
    Side by side the unknowns of an iteration are the traces, so no error is tracked while it runs.
    """
    chosen_by_hand = (subdomains, features, overlap, trace_degree, shared, scale, activation)
    if basis is None:
        if subdomains is None or features is None:
            raise ValueError(
                "solve() needs `subdomains` and `features`, e.g. solve(problem, subdomains=8, "
                "features=100), or a whole `basis`"
            )
        drawn = _features(coupling, problem.domain.dimension, features, depth, activation, scale)
        basis = _basis(coupling, problem, subdomains, drawn, seed, overlap, trace_degree, shared)
    else:
        given = (*chosen_by_hand, coupling, depth, seed)
        _refuse_both("basis", given, (*[None] * 7, "overlap", 1, 0))
    if basis.decomposition.domain != problem.domain:
        raise ValueError(
            f"the basis lives on {basis.decomposition.domain!r}, but the problem on "
            f"{problem.domain!r}: decompose the problem's domain"
        )
    if collocation is not None:
        _refuse_both("collocation", (oversampling,), (2.0,))
    if filter is not None:
        _refuse_both("filter", (sigma,), (None,))
    collocation = collocation or Grid(oversampling)
    glued = isinstance(basis, Glued)
    if sigma is None:
        sigma = 1e-14 if glued else 1e-10
    own_filter, chosen = (
        by_name(solver, sigma) if isinstance(solver, str) else (RRQR(sigma), solver)
    )
    filter = filter or own_filter
    note = ""
    watch = Stopwatch()

    with watch.phase("assemble"):
        system: LeastSquares | GluedSystem
        if isinstance(basis, Glued):
            system = glue(problem, basis, collocation)
        else:
            system = assemble(problem, basis, collocation.rows(problem, basis))
            jax.block_until_ready(system.M)
    with watch.phase("filter"):
        reduced = system.reduce(filter, progress)
    if chosen is None:
        chosen, note = choose(reduced.Q)
    if chosen.iterative:
        reduced = reduced.preconditioned()
    with watch.phase("monitor"):
        at = test_points(problem, basis, test_grid)
        exact = None if at is None else problem.exact_values(at)
        watched = chosen.iterative and not glued
        monitor = error_monitor(problem, basis, reduced.preconditioner, at, watched)
    with watch.phase("solve"):
        state = chosen.init(reduced.Q, progress)
        result = chosen.solve(state, reduced.h, monitor, progress)
        a = reduced.coefficients(np.asarray(result.x))

    report = _report(problem, basis, system, reduced, result, full_name(filter, chosen), note)
    if condition:
        with watch.phase("condition"):
            report = dataclasses.replace(report, condition=_conditions(system, reduced))
    solution = Solution(problem, basis, a, report, result.history)
    with watch.phase("measure"):
        errors = error_norms(solution(at), exact) if at is not None and exact is not None else None
        found_jumps = jumps(problem, basis, a) if isinstance(basis, Glued) else None
    report = dataclasses.replace(
        report,
        error=errors,
        residual=system.residuals(a),
        jumps=found_jumps,
        seconds=watch.total(),
        peak_memory_mib=peak_mib(),
    )
    return dataclasses.replace(solution, report=report)


COUPLINGS = ("overlap", "interfaces")

_SHORTHAND = {
    "basis": "subdomains, features, coupling, overlap, trace_degree, shared, scale, activation, "
    "depth and seed",
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


def _features(
    coupling: str,
    dimension: int,
    count: int,
    depth: int,
    activation: str | Activation | None,
    scale: float | None,
) -> RandomFeatures:
    if coupling not in COUPLINGS:
        raise ValueError(f"unknown coupling {coupling!r}: choose one of {', '.join(COUPLINGS)}")
    if coupling == "interfaces" and activation in (None, "sin") and scale is None:
        return default_features(count, dimension, depth)
    function = activation or ("sin" if coupling == "interfaces" else "tanh")
    return RandomFeatures(count, depth, function, scale=1.0 if scale is None else scale)


def _basis(
    coupling: str,
    problem: Problem,
    subdomains: int | Sequence[int],
    features: RandomFeatures,
    seed: int,
    overlap: float | Sequence[float] | None,
    trace_degree: int | None,
    shared: bool | None,
) -> Basis:
    if coupling == "overlap":
        for name, value in (("trace_degree", trace_degree), ("shared", shared)):
            if value is not None:
                raise ValueError(
                    f"{name}={value!r} belongs to subdomains side by side: add "
                    f"coupling='interfaces', or leave {name} out"
                )
        decomposition = Decomposition(
            problem.domain, subdomains, 2.0 if overlap is None else overlap
        )
        return Basis(decomposition, features, seed)
    if overlap is not None:
        raise ValueError(
            f"overlap={overlap!r} has no meaning with coupling='interfaces', where subdomains lie "
            f"side by side: leave it out, or use coupling='overlap'"
        )
    tiling = Tiling(problem.domain, subdomains)
    return Glued(tiling, features, seed, trace_degree, True if shared is None else shared)


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


def _report(
    problem: Problem,
    basis: Basis | Multilevel,
    system: LeastSquares | GluedSystem,
    reduced: Reduced,
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
        rows=system.rows,
        columns=basis.columns,
        columns_kept=len(reduced.kept),
        **_interfaces(system),
        iterations=result.iterations,
        stop_reason=str(result.stop),
        advice=result.advice,
        weights=system.weights,
        oracle_iteration=oracle[0] if oracle else None,
        error_oracle_minimum=oracle[1] if oracle else None,
        stopping_rule_iteration=result.rule[0] if result.rule else None,
        error_at_stopping_rule=result.rule[1] if result.rule else None,
    )


def _interfaces(system: LeastSquares | GluedSystem) -> dict[str, Any]:
    if isinstance(system, LeastSquares):
        return {"coupling": "overlap"}
    return {
        "coupling": "interfaces",
        "traces": system.traces,
        "distinct_subdomains": len(system.kinds),
    }
