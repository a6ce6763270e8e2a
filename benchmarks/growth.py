"""How the cost of cells joined by maps grows with the problem, and what another right-hand side
costs."""

from __future__ import annotations

import dataclasses
import math
import time
from typing import Any

import numpy as np

import tessella as ts
from benchmarks.harness import RESULTS, in_fresh_process, save, table
from benchmarks.peers import problems
from benchmarks.peers.score import normalised_l1
from tessella.cells.factoring import factor_cells
from tessella.cells.system.system import cell_system
from tessella.machine.memory import peak_mib
from tessella.machine.stopwatch import Stopwatch
from tessella.overlap.factored import Watching
from tessella.solving.method import Method

FEATURES = 140
SCALES = (3, 4, 5, 6, 7)


def _case(kind: str, n: int) -> Any:
    return problems.laplace(n) if kind == "constant" else problems.variable(n)


def one(kind: str, n: int) -> dict[str, Any]:
    """A warm solve with 2^(n-1) x 2^(n-1) cells, in a process of its own."""
    case = _case(kind, n)
    sizes: dict[str, Any] = {"subdomains": 2 ** (n - 1), "features": FEATURES}

    def solve() -> ts.Solution:
        blind = dataclasses.replace(case.stated(), exact=None)
        return ts.solve(blind, coupling="interfaces", estimate=False, **sizes)

    small = ts.solve(
        dataclasses.replace(_case(kind, 3).stated(), exact=None),
        coupling="interfaces", subdomains=2, features=20, estimate=False,
    )  # fmt: skip
    before = peak_mib()
    seconds = []
    solution = small
    for _ in range(2 if n == SCALES[-1] else 4):
        start = time.perf_counter()
        solution = solve()
        seconds.append(time.perf_counter() - start)
    rng = np.random.default_rng(0)
    x = rng.random((4_000, 2))
    return {
        "coefficient": kind,
        "n": n,
        "cells": 4 ** (n - 1),
        "unknowns": solution.report.columns,
        "s": min(seconds[1:]),
        "MiB": peak_mib() - before,
        "error": normalised_l1(solution(x), case.exact(x)),
    }


def growth() -> None:
    """Seconds and memory against unknowns, with the exponents of the last doubling and the plot."""
    rows: list[dict[str, Any]] = []
    for kind in ("constant", "variable"):
        for n in SCALES:
            rows.append(in_fresh_process(one, kind, n))
            own = [r for r in rows if r["coefficient"] == kind]
            for figure in ("s", "MiB"):
                exponent = None
                if len(own) > 1 and own[-2][figure] > 0 and own[-1][figure] > 0:
                    ratio = own[-1][figure] / own[-2][figure]
                    exponent = math.log(ratio) / math.log(own[-1]["unknowns"] / own[-2]["unknowns"])
                rows[-1][f"exponent of {figure}"] = exponent
            save("growth", rows)
    table(f"Growth: {FEATURES} features per cell, 4 times as many cells each", rows)
    _plot(rows)


def _plot(rows: list[dict[str, Any]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    for axes, key, label in zip(
        figure.subplots(1, 2), ("s", "MiB"), ("seconds", "MiB"), strict=True
    ):
        for kind in ("constant", "variable"):
            own = [r for r in rows if r["coefficient"] == kind]
            seen = [r for r in own if r[key] > 0]  # memory beyond what the process began with
            axes.loglog([r["unknowns"] for r in seen], [r[key] for r in seen], "o-", label=kind)
        N = np.array([r["unknowns"] for r in own], dtype=float)
        axes.loglog(N, own[-1][key] * (N / N[-1]) ** 1.5, "k:", label="N^1.5")
        axes.set(xlabel="unknowns N", ylabel=label)
        axes.legend(title="coefficient")
    figure.savefig(RESULTS / "growth.png", dpi=120)


def another_right_side() -> None:
    """Factoring once: the first solve of the Laplacian n = 6 to 1e-8, and a second right-hand side
    from the statement to coefficients, functions evaluated anew."""
    rows = []
    for kind in ("constant", "variable"):
        problem = dataclasses.replace(_case(kind, 6).stated(), exact=None)
        chosen = Method(coupling="interfaces", subdomains=32, features=FEATURES).parts(problem)
        assert not isinstance(chosen.basis, ts.Multilevel)
        for _ in range(2):
            start = time.perf_counter()
            system = cell_system(problem, chosen.basis, chosen.collocation)  # type: ignore[arg-type]
            ready = factor_cells(system, chosen.filter, None)
            ready.solve(Stopwatch(), Watching(problem, chosen.basis))
            first = time.perf_counter() - start
        times = []
        for _ in range(3):
            start = time.perf_counter()
            again = cell_system(problem, chosen.basis, chosen.collocation)  # type: ignore[arg-type]
            renewed = ready.renewed(again)
            assert renewed is not None
            assembled = time.perf_counter() - start
            renewed.solve(Stopwatch(), Watching(problem, chosen.basis))
            times.append((time.perf_counter() - start, assembled))
        second, assembled = min(times)
        rows.append(
            {
                "coefficient": kind,
                "first s": first,
                "second s": second,
                "of it assembling": assembled,
            }
        )
    save("another_right_side", rows)
    table("Laplacian n = 6, 32 x 32 cells: another right-hand side", rows)
