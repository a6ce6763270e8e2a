"""Subdomains side by side against overlapping ones: error, time, work, in one run."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import tessella as ts
from benchmarks.harness import in_fresh_process, save, table
from tessella.cells.boxes.basis import CellBasis
from tessella.cells.factoring import factor_cells
from tessella.cells.factors import CellFactors
from tessella.cells.joins.merging import Merged
from tessella.cells.solvers import Merging
from tessella.cells.system.system import cell_system
from tessella.machine.device import on_the_cpu
from tessella.overlap.basis import Basis
from tessella.overlap.system import assemble

CASES: list[tuple[str, str, dict[str, float], float, dict[str, Any]]] = [
    ("Laplacian n = 4", "laplace", {"n": 4}, 1e-6, {"subdomains": 8, "features": 120}),
    ("Laplacian n = 4", "laplace", {"n": 4}, 1e-8, {"subdomains": 8, "features": 150}),
    ("Laplacian n = 5", "laplace", {"n": 5}, 1e-6, {"subdomains": 16, "features": 120}),
    ("Laplacian n = 6", "laplace", {"n": 6}, 1e-6, {"subdomains": 32, "features": 120}),
    ("oscillator", "harmonic-oscillator", {}, 1e-11, {"subdomains": 20, "features": 24}),
    ("wave", "wave", {}, 1e-4, {"subdomains": (4, 4, 1), "features": 600}),
    ("wave", "wave", {}, 1e-5, {"subdomains": (4, 4, 2), "features": 550}),
]
"""Name, gallery problem and parameters, error aimed at, settings; the problems are stated as in the
gallery, with their conditions built in."""

OVERLAPPING: list[tuple[str, str, dict[str, float], float, dict[str, Any]]] = [
    (
        "Laplacian n = 4",
        "laplace",
        {"n": 4},
        1e-6,
        {"subdomains": 8, "features": 140},
    ),
    (
        "Laplacian n = 5",
        "laplace",
        {"n": 5},
        1e-6,
        {"subdomains": 16, "features": 140},
    ),
]
"""The cheapest overlapping bases we know at these errors."""

WINDOWED = {"overlap": 2.0, "scale": 2.0, "sigma": 1e-11, "oversampling": 2.25}
"""With windows tanh is better: sines of any bandwidth stay above 1e-4 at 100 features."""


def soft(problem: ts.Problem) -> ts.Problem:
    """The same boundary values as soft conditions, which leaves the coefficients constant."""
    return ts.Problem(
        problem.domain,
        problem.equation,
        [ts.Dirichlet(0.0)],
        exact=problem.exact,
        name=problem.name,
        parameters=problem.parameters,
    )


def work(problem: ts.Problem, basis: Basis, oversampling: float) -> float:
    """GFLOP of all factorisations by count, every distinct subdomain and join once."""
    grid = ts.Grid(oversampling)
    if isinstance(basis, CellBasis):
        system = cell_system(problem, basis, grid)
        with on_the_cpu(True):
            factors = factor_cells(system, ts.RRQR(1e-14), Merging())
        assert isinstance(factors, CellFactors)
        return cell_work(factors) / 1e9
    M = assemble(problem, basis, grid.rows(problem, basis)).M
    Q = ts.RRQR(1e-11).apply(M).Q
    local = sum(
        4.0 * h * w**2 - 4 / 3 * w**3  # the pivoted QR and its explicit Q
        for g in M.groups
        for h, w in zip(g.heights.tolist(), g.widths.tolist(), strict=True)
    )
    return (local + ts.NestedQR().analyse(Q).flops) / 1e9


def cell_work(found: CellFactors) -> float:
    """Flops of all Gramians, their factors and maps, and of all joins."""
    total = 0.0
    for own in found.mapped:
        for kind in (found.kinds[number] for number in own.numbers.tolist()):
            r, (_, out, into) = kind.space.columns, own.T.shape
            rows = sum(len(found.system.asked[number].slot) for number, _ in kind.asked)
            total += rows * r**2 + r**3 / 3 + 2.0 * r**2 * into + 2.0 * out * r * into
    assert isinstance(found.joined, Merged)
    for stage, distinct in zip(found.joined.order.stages, found.joined.distinct, strict=True):
        if stage.cells is None:
            total += len(distinct.pairs) * stage.flops
    return total


def measure(
    name: str,
    parameters: dict[str, float],
    soft_walls: bool,
    coupling: str,
    settings: dict[str, Any],
) -> dict[str, Any]:
    """Cold and warm time of the solve (scoring the error left out), in this process."""
    problem = ts.gallery.get(name).problem(**parameters)
    if soft_walls:
        problem = soft(problem)
    walls: list[float] = []
    processor: list[float] = []
    while len(walls) < 2 or (len(walls) < 6 and sum(walls) < 15):
        start = time.process_time()
        solver = "merging" if coupling == "interfaces" else "nested-qr"
        solution = ts.solve(problem, coupling=coupling, solver=solver, estimate=False, **settings)
        processor.append(time.process_time() - start)
        seconds = solution.report.seconds
        walls.append(seconds["total"] - seconds["measure"])
    report = solution.report
    assert isinstance(solution.basis, Basis)
    return {
        "error": (report.error or {})["l1_normalised"],
        "cold s": walls[0],
        "warm s": float(np.min(walls[1:])),
        "warm cpu s": float(np.min(processor[1:])),
        "GFLOP": work(problem, solution.basis, settings.get("oversampling", 2.0)),
        "features kept": report.columns_kept,
        "traces": report.traces,
        "distinct": report.distinct_subdomains,
        "jump": (report.jumps or {"value": {"rms": None}})["value"]["rms"],
    }


def interfaces() -> None:
    """Both couplings at the errors aimed at; cold is the first solve of a fresh process."""
    rows = []
    runs = [(case, "interfaces", False) for case in CASES]
    runs[1:1] = [(CASES[0], "interfaces", True)]
    runs += [(case, "overlap", False) for case in OVERLAPPING]
    for (title, name, parameters, target, settings), coupling, walls in runs:
        extra = WINDOWED if coupling == "overlap" else {}
        found = in_fresh_process(measure, name, parameters, walls, coupling, {**settings, **extra})
        rows.append(
            {
                "problem": title + (", soft walls" if walls else ""),
                "coupling": coupling,
                "target": target,
                "S": str(settings["subdomains"]),
                "K": settings["features"],
                **found,
            }
        )
        print(f"  {title} {coupling} {target:g}: {found['error']:.1e}, {found['warm s']:.2f} s")
        save("interfaces", rows)
    table("side by side (merging) and overlapping (NestedQR)", rows)
    for title in ("Laplacian n = 4", "Laplacian n = 5"):
        glued, windows = (
            next(
                r
                for r in rows
                if (r["problem"], r["coupling"], r["target"]) == (title, coupling, 1e-6)
            )
            for coupling in ("interfaces", "overlap")
        )
        ratios = ", ".join(
            f"{windows[k] / glued[k]:.3g}x {k}" for k in ("warm s", "warm cpu s", "GFLOP")
        )
        print(f"  {title} at 1e-6, overlap over interfaces: {ratios}")
