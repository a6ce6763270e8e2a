"""Solvers against each other: direct and iterative, one level and several, blocks and patches."""

from __future__ import annotations

import dataclasses
import os
import statistics
import time
from typing import Any

import numpy as np

import tessella as ts
from benchmarks.harness import in_fresh_process, save, seconds, table
from tessella.linalg import row_matrix
from tessella.linalg.row_matrix import RowMatrix
from tessella.overlap.system import assemble
from tessella.solution.monitor import error_monitor
from tessella.solution.report import error_norms
from tessella.solving.ways import Factored

RICH: dict[str, Any] = {
    "subdomains": 8,
    "features": 200,
    "overlap": 2.0,
    "oversampling": 2.25,
    "sigma": 1e-11,
    "scale": 2.0,
}


def direct_against_lsqr() -> None:
    """Laplacian as run with 4 times the points: NestedQR against 10,000 LSQR iterations."""
    entry = ts.gallery.get("laplace")
    rows = []
    for solver, changes in (("nested-qr", {}), ("rrqr-lsqr", {"track_every": 50})):
        settings = {"oversampling": 4.0, **changes}
        entry.solve(solver=solver, settings={**settings, "max_iterations": 10})
        report = entry.solve(solver=solver, settings=settings).report
        rows.append(
            {
                "solver": solver,
                "seconds": report.seconds["solve"],
                "residual": report.residual["equation"],
                "error": (report.error or {})["l1_normalised"],
                "best error": report.error_oracle_minimum,
            }
        )
    rows[0]["times faster"] = rows[1]["seconds"] / rows[0]["seconds"]
    table("Laplacian as run, 4x points", rows)
    save("direct_against_lsqr", rows)


def _rich() -> dict[str, Any]:
    entry = ts.gallery.get("laplace")
    entry.solve(solver="nested-qr", settings=RICH)
    report = entry.solve(solver="nested-qr", settings=RICH).report
    return {
        "error": (report.error or {})["l1_normalised"],
        "factor and solve s": report.seconds["solve"],
        "total s": report.seconds["total"],
        "columns kept": report.columns_kept,
    }


def _large_direct() -> dict[str, Any]:
    problem = ts.gallery.get("laplace").problem(n=6)
    basis = ts.Basis(ts.Decomposition(problem.domain, 64, 2.9), ts.RandomFeatures(16), 0)
    start = time.perf_counter()
    system = assemble(problem, basis, ts.Grid(4.0).rows(problem, basis))
    filtered = ts.RRQR(1e-8).apply(system.M)
    solver = ts.NestedQR()
    plan = solver.analyse(filtered.Q)
    begun = time.perf_counter()
    state = solver.init(filtered.Q)
    y, residual = state.solve(system.h)
    ended = time.perf_counter()
    a = np.asarray(filtered.preconditioner.apply(y))
    points = problem.domain.grid((201, 201))
    solution = ts.Solution(problem, basis, a, None, None)  # type: ignore[arg-type]
    errors = error_norms(solution(points), problem.exact_values(points))
    return {
        "columns kept": len(filtered.kept),
        "plan": str(plan),
        "factor and solve s": ended - begun,
        "total s": ended - start,
        "residual": residual,
        "error": errors["l1_normalised"],
    }


def direct() -> None:
    """NestedQR on the two large Laplacians, each in a process of its own."""
    rows = [
        {"case": "n = 4, S = 8, K = 200", **in_fresh_process(_rich)},
        {"case": "n = 6, S = 64, K = 16, 4x points", **in_fresh_process(_large_direct)},
    ]
    keys = ("case", "columns kept", "factor and solve s", "total s", "error", "peak_mib", "plan")
    table("NestedQR", [{k: row.get(k) for k in keys} for row in rows])
    save("direct", rows)


def _iterations(
    problem: ts.Problem,
    basis: ts.Basis | ts.Multilevel,
    points: int,
    oversampling: float,
    limit: int,
    target: float,
    patch: int = 1,
    method: type[ts.LSQR | ts.DeflatedLSQR] = ts.LSQR,
) -> dict[str, Any]:
    """LSQR iterations until the error falls below the target, and the time they take."""
    start = time.perf_counter()
    system = assemble(problem, basis, ts.Grid(oversampling).rows(problem, basis))
    filtered = ts.RRQR(1e-8, patch=patch).apply(system.M)
    watched = method(max_iterations=limit, atol=0, btol=0, track_every=1)
    state: Any = watched.init(filtered.Q)
    set_up = time.perf_counter() - start
    at = problem.domain.grid((points,) * problem.domain.dimension)
    monitor = error_monitor(problem, basis, filtered.preconditioner, at)
    history = watched.solve(state, system.h, monitor).history
    reached = np.flatnonzero(history.error <= target)
    iterations = int(reached[0]) + 1 if reached.size else None
    spent = None
    if iterations:
        plain = method(max_iterations=iterations, atol=0, btol=0)
        plain.solve(state, system.h)
        spent = seconds(lambda: plain.solve(state, system.h).x)
    return {
        "columns": len(filtered.kept),
        "iterations": iterations,
        "best error": float(np.nanmin(history.error)),
        "MB": filtered.Q.stored_bytes / 1e6,
        "set-up s": set_up,
        "LSQR s": spent,
    }


def weak_scaling(largest: int = 6) -> None:
    """One level and several on the weak scaling of the Laplacian, iterations to error 1e-2.

    The solution has n scales, and the coarsest of them only 4^-n of the finest in the right-hand
    side: at one rate of convergence the iterations grow by 1.5 from n = 3 to n = 6 on their own,
    unless the coarse scales are solved for exactly.
    """
    rows = []
    for n in range(3, largest + 1):
        S = 2**n
        problem = ts.gallery.get("laplace").problem(n=n)
        fine = ts.Basis(ts.Decomposition(problem.domain, S, 2.9), ts.RandomFeatures(16), 0)
        for label, basis, limit, method in (
            ("one level", fine, 1_200, ts.LSQR),
            ("pyramid", ts.Multilevel.pyramid(fine), 80, ts.LSQR),
            ("two levels, deflated", ts.Multilevel.two(fine), 20, ts.DeflatedLSQR),
        ):
            found = _iterations(problem, basis, 4 * S, 2.0, limit, 1e-2, 1, method)
            rows.append({"J": S * S, "basis": label, **found})
            print(f"  J = {S * S}, {label}: {found['iterations']}", flush=True)
            save("weak_scaling", rows)
    table("weak scaling, 2x points: LSQR iterations to error 1e-2", rows)


def _iteration(edge: int, overlap: float, features: int, by_rows: bool) -> dict[str, float]:
    """LSQR on windows over the unit square: an iteration, and all of a first solve."""
    row_matrix.LARGE = 0 if by_rows else 1 << 60
    solver = ts.LSQR(max_iterations=ITERATIONS, atol=0, btol=0)
    choices: dict[str, Any] = {"features": features, "oversampling": 2.0, "overlap": overlap}
    problem = dataclasses.replace(ts.gallery.get("variable-poisson").problem(), exact=None)
    factored = ts.factor(problem, subdomains=edge, solver=solver, **choices)
    first, *others = (seconds(factored.solve) for _ in range(6))
    assert isinstance(factored.ready, Factored)
    assert isinstance(factored.ready.state, RowMatrix) is by_rows
    return {"ms": 1e3 * min(others) / ITERATIONS, "first s": first}


ITERATIONS = 60
"""That are timed together."""


def read_once() -> None:
    """An iteration of LSQR that reads the matrix once (by rows), as is chosen on one core, and one
    that reads it twice."""
    rows: list[dict[str, Any]] = []
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # inherited
    for edge, overlap, features in WINDOWS:
        row: dict[str, Any] = {"subdomains": edge**2, "overlap": overlap, "features": features}
        for name, by_rows in (("twice", False), ("once", True)):
            found = in_fresh_process(_iteration, edge, overlap, features, by_rows)
            row |= {f"{what}, {name}": found[what] for what in ("ms", "first s")}
        rows.append({**row, "times faster": row["ms, twice"] / row["ms, once"]})
        table("LSQR", rows)
    save("read_once", rows)


WINDOWS = ((16, 2.9, 16), (32, 2.9, 16), (64, 2.9, 16), (24, 1.9, 30))
"""Subdomains along each axis, their overlap and features."""


def patches() -> None:
    """What resolving the overlap inside patches buys as K grows, in 2D and (2+1)D."""
    rows = []
    for K in (8, 16, 32):
        problem = ts.gallery.get("laplace").problem(n=3)
        basis = ts.Basis(ts.Decomposition(problem.domain, 8, 2.9), ts.RandomFeatures(K), 0)
        for patch in (1, 2, 4):
            found = _iterations(problem, basis, 48, 2.0, 1_000, 1e-2, patch)
            rows.append({"problem": "laplace n = 3, S = 8", "K": K, "patch": patch, **found})
    for K in (8, 16, 32):
        wave = ts.gallery.get("wave").problem(**{"lambda": 0.4})
        basis = ts.Basis(ts.Decomposition(wave.domain, 4, 2.9), ts.RandomFeatures(K), 0)
        for patch in (1, 2):
            found = _iterations(wave, basis, 16, 2.0, 600, 3e-2, patch)
            rows.append({"problem": "wave lambda = 0.4, S = 4", "K": K, "patch": patch, **found})
    table("patches: LSQR iterations to error 1e-2 (2D), 3e-2 ((2+1)D)", rows)
    save("patches", rows)


COMPARED = ("lsqr", "cg", "as-cg", "rrqr-lsqr")


def compared(names: tuple[str, ...] = ("harmonic-oscillator", "laplace", "wave")) -> None:
    """The paper's linear solvers on its three baselines, 10,000 iterations, seeds 0-4."""
    rows = []
    for name in names:
        for solver in COMPARED:
            reports = [
                ts.gallery.get(name).solve(solver=solver, seed=seed).report for seed in range(5)
            ]
            best = [r.error_oracle_minimum or np.nan for r in reports]
            last = [(r.error or {})["l1_normalised"] for r in reports]
            rows.append(
                {
                    "problem": name,
                    "solver": solver,
                    "oracle minimum": statistics.median(best),
                    "range": max(best) - min(best),
                    "at iteration": statistics.median(r.oracle_iteration or 0 for r in reports),
                    "last iteration": statistics.median(last),
                    "solve s": statistics.median(r.seconds["solve"] for r in reports),
                }
            )
            print(f"  {name} {solver} done", flush=True)
            save("compared", rows)
    table("the paper's solvers, 10,000 iterations, medians over seeds 0-4", rows)
