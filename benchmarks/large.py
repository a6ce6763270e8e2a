"""The largest systems that fit: the paper's way by deflation, and cells of the eighth scale."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import tessella as ts
from benchmarks.harness import in_fresh_process, save, table
from benchmarks.peers import problems
from benchmarks.peers.score import normalised_l1
from benchmarks.scaling import run
from tessella.cells.joins import choosing
from tessella.cells.solvers import Exchange
from tessella.machine import processes
from tessella.machine.memory import device_name, peak_mib
from tessella.machine.threads import CORES
from tessella.solution.report import error_norms

FEATURES = 16
"""Those of an overlapping subdomain."""

FEW = 20
"""Iterations by deflation; 16,384 subdomains leave 6e-3 then."""

CELL_FEATURES = 200

SCALES = (5, 6, 7, 8, 9)
"""2^(n-1) cells along each axis."""

ROOM = 18.0
"""GiB that a run may be foretold to take."""


def large_part(file: str, edge: str, iterations: str) -> None:
    """One process of the run by deflation."""
    start = time.perf_counter()
    ts.distributed()
    scales = round(math.log2(int(edge)))
    stated = dataclasses.replace(ts.gallery.get("laplace").problem(n=scales), exact=None)
    fine = ts.Basis(ts.Decomposition(stated.domain, int(edge), 2.9), ts.RandomFeatures(FEATURES), 0)
    solver = ts.DeflatedLSQR(max_iterations=int(iterations), atol=0, btol=0)
    basis = ts.Multilevel.two(fine)
    factored = ts.factor(stated, basis=basis, oversampling=2.0, sigma=1e-8, solver=solver)
    ready = processes.largest("seconds", time.perf_counter() - start)
    solution = factored.solve()
    assert isinstance(solution, ts.Solution)
    took = processes.largest("seconds", time.perf_counter() - start)
    at = np.random.default_rng(1).random((100_000, 2))
    known = ts.gallery.get("laplace").problem(n=scales)
    error = error_norms(solution(at), known.exact_values(at))
    memory = processes.gathered("memory", np.array(peak_mib()))
    if processes.index() == 0:
        found = {
            "J": int(edge) ** 2, "rows": solution.report.rows, "columns": basis.columns,
            "iterations": solution.report.iterations, "error": error["l1_normalised"],
            "set-up s": ready, "all s": took, "GiB, all processes": float(sum(memory)) / 1024,
            "GiB, process 0": float(memory[0]) / 1024, "sent": solution.report.solver_note,
        }  # fmt: skip
        Path(file).write_text(json.dumps(found))


def large_paper(edge: int = 256, number: int = max(1, CORES // 4)) -> None:
    """A coarse level eliminated, LSQR on 65,536 subdomains: error, time and memory.

    Foretold for 16 cores (docs/scaling.md): 140 s, 36 GiB.
    """
    (row,) = run(number, max(1, CORES // number), "benchmarks.large", edge, FEW)
    rows = [{"processes": number, **row}]
    table("by deflation", rows)
    save("large_paper", rows)


def cells(kind: str, n: int) -> dict[str, Any]:
    """The Laplacian of scale n, or with a coefficient that varies, in 2^(n-1) x 2^(n-1) cells."""
    case = problems.laplace(n) if kind == "constant" else problems.variable(n)
    blind = dataclasses.replace(case.stated(), exact=None)
    start, work = time.perf_counter(), time.process_time()
    what = {"coefficient": kind, "n": n, "cells": 4 ** (n - 1)}
    try:
        solution = ts.solve(
            blind, coupling="interfaces", subdomains=2 ** (n - 1), features=CELL_FEATURES,
            estimate=False,
        )  # fmt: skip
    except MemoryError as error:
        return what | {"refused": str(error)}
    took, busy = time.perf_counter() - start, time.process_time() - work
    spent = solution.report.seconds
    x = np.random.default_rng(0).random((20_000, 2))
    return {
        **what, "unknowns": solution.report.columns,
        "error": normalised_l1(solution(x), case.exact(x)), "s": took, "s at work": busy,
        **{f"{phase} s": spent[phase] for phase in ("assemble", "filter", "solve", "compile")},
        "solver": solution.report.solver_note, "device": device_name(),
    }  # fmt: skip


def large_cells() -> None:
    """Cells of the Laplacian up to n = 8; each run's memory is foretold by four times that of the
    one before it, and not tried where that is more than there is."""
    rows: list[dict[str, Any]] = []
    for kind in ("constant", "variable"):
        peaks: list[float] = []
        for n in SCALES:
            foretold = None
            if len(peaks) > 1:
                foretold = peaks[-1] + 4 * (peaks[-1] - peaks[-2])
                if foretold > ROOM:
                    rows.append({"coefficient": kind, "n": n, "foretold GiB": foretold})
                    break
            found = in_fresh_process(cells, kind, n)
            peaks.append(found.pop("peak_mib") / 1024)
            rows.append({**found, "foretold GiB": foretold, "GiB": peaks[-1]})
            print(rows[-1], flush=True)
            save("large_cells", rows)
    save("large_cells", rows)
    table(f"{CELL_FEATURES} features in a cell", rows)


def without_level(*given: Any) -> dict[str, Any]:
    """The same where no exchange has a coarse level."""
    choosing._levels = lambda order: (False,)
    return cells(*given)


def coarse_level() -> None:
    """Large solves with and without a coarse level in turn, each in a process of its own; and
    iterations of an exchange of waves that cells resolve."""
    rows: list[dict[str, Any]] = []
    names = "coefficient", "n", "s", "s at work", "solver"
    for given in (("variable", 7), ("variable", 8), ("constant", 8), ("constant", 9)):
        for way in (without_level, cells):
            found = in_fresh_process(way, *given)
            row = {name: found[name] for name in names}
            rows.append(row | {"level": way is cells, "GiB": found["peak_mib"] / 1024})
    square = ts.Box(x=(0, 1), y=(0, 1))
    waves = ts.Equation(ts.Laplacian() + 40.0**2 * ts.Identity(), 1.0)
    for level in (False, True):
        report = ts.solve(
            ts.Problem(square, waves, [ts.Dirichlet(0.0)]), coupling="interfaces",
            subdomains=16, features=80, estimate=False,
            solver=Exchange(tolerance=1e-13, coarse=level),
        ).report  # fmt: skip
        rows.append({"coefficient": "k = 40", "level": level, "iterations": report.iterations})
    table("with and without a coarse level", rows)
    save("coarse_level", rows)


if __name__ == "__main__":
    large_part(*sys.argv[1:])
