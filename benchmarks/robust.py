"""What a long session asks for: memory as predicted, solves side by side, five hundred in a row."""

from __future__ import annotations

import dataclasses
import gc
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

import tessella as ts
from benchmarks.harness import in_fresh_process, save, table
from tessella.machine import memory

SIZES: dict[str, tuple[int, dict[str, Any]]] = {
    "overlap, LSQR": (2, {"subdomains": 48, "features": 60, "solver": "rrqr-lsqr"}),
    "overlap, NestedQR": (2, {"subdomains": 24, "features": 60, "solver": "nested-qr"}),
    "overlap, Schwarz": (2, {"subdomains": 20, "features": 40, "solver": "as-cg"}),
    "cells, merging": (2, {"subdomains": 80, "features": 100, "solver": "merging"}),
    "cells, exchange": (2, {"subdomains": 60, "features": 100, "solver": "exchange"}),
    "cells, 3D": (3, {"subdomains": 6, "features": 150, "solver": "merging"}),
    "cells, variable": (2, {"subdomains": 48, "features": 200, "solver": None}),
    "cells, variable, 3D": (3, {"subdomains": 8, "features": 250, "solver": None}),
}


def _poisson(d: int, rhs: float = 1.0) -> ts.Problem:
    box = ts.Box(**dict.fromkeys("xyz"[:d], (0, 1)))
    return ts.Problem(box, ts.Equation(-ts.Laplacian(), rhs), [ts.Dirichlet(0.0)])


def _variable(d: int) -> ts.Problem:
    problem = _poisson(d)
    return dataclasses.replace(
        problem, equation=ts.Equation(-ts.Laplacian() + (lambda x: x[:, 0]) * ts.Identity(), 1.0)
    )


def _held() -> int:
    return memory._numbers(memory.Path("/proc/self/status"))["VmRSS:"] * 1024


def _predicted(name: str) -> dict[str, Any]:
    """The largest of what was held and predicted beside it, against the peak, in MiB."""
    d, choices = SIZES[name]
    if name.startswith("cells"):
        choices = {**choices, "coupling": "interfaces"}
    if choices["solver"] in ("rrqr-lsqr", "as-cg"):
        choices = {**choices, "max_iterations": 20}
    ts.solve(_poisson(1), subdomains=2, features=10)
    start, foreseen, real = _held(), [0], memory.require

    def noted(needed: int, what: str, remedy: Any, beside: int = 0) -> None:
        foreseen.append(needed + _held() - start)
        real(needed, what, remedy, beside)

    for module in list(sys.modules.values()):
        if getattr(module, "require", None) is real:
            module.require = noted  # type: ignore[attr-defined]
    stated = (_variable if "variable" in name else _poisson)(d)
    ts.solve(stated, estimate=False, **choices)
    return {"foreseen_mib": max(foreseen) / 2**20, "used_mib": memory.peak_mib() - start / 2**20}


def predictions() -> None:
    """What is foreseen before it is allocated, and the peak of a process that solves nothing else;
    refusals are as good as the ratio of the two is near 1."""
    rows = []
    for name, (d, choices) in SIZES.items():
        found = in_fresh_process(_predicted, name)
        ratio = found["foreseen_mib"] / found["used_mib"]
        sizes = f"{choices['subdomains']}^{d} x {choices['features']}"
        rows.append({"solve": name, "size": sizes, **found, "ratio": ratio})
    table("memory foreseen and used, MiB", rows)
    save("memory", rows)


ROUNDS, THREADS = 50, 4


def _blas() -> list[int]:
    return [own["num_threads"] for own in threadpool_info() if own["user_api"] == "blas"]


def side_by_side() -> None:
    """Four threads that solve at once, fifty times: all right, and BLAS as it was."""
    before, wrong, changed = _blas(), 0, 0

    def solve(number: int) -> float:
        side = {"coupling": "interfaces"} if number % 2 else {}
        line = ts.Box(x=(0, 1))
        own = ts.Problem(line, ts.Equation(-ts.D(x=2), 2.0 * number), [ts.Dirichlet(0.0)])
        return float(ts.solve(own, subdomains=2 + number, features=20, **side)(0.5)[0]) / number

    start = time.perf_counter()
    for _ in range(ROUNDS):
        with ThreadPoolExecutor(THREADS) as pool:
            found = list(pool.map(solve, range(1, THREADS + 1)))
        wrong += not np.allclose(found, 0.25, rtol=1e-6)
        changed += _blas() != before
    rows = [
        {
            "rounds": ROUNDS,
            "threads": THREADS,
            "wrong": wrong,
            "BLAS changed": changed,
            "left": threading.active_count() - 1,
            "seconds": time.perf_counter() - start,
        }
    ]
    table("solves side by side in one process", rows)
    save("side_by_side", rows)


SOLVES, SHAPES = 500, 100


def _one(number: int) -> None:
    """One of a hundred shapes."""
    k = number % SHAPES
    cells = {"coupling": "interfaces"} if k % 2 else {"solver": ("rrqr-lsqr", "nested-qr")[k // 50]}
    choices = {"subdomains": (2 + k % 3, 2 + k // 40), "features": 8 + k // 2, "estimate": False}
    ts.solve(_poisson(2, 1.0 + number), **choices, **cells)  # type: ignore[arg-type]


def _endured() -> dict[str, Any]:
    rounds = []
    for lap in range(SOLVES // SHAPES):
        start = time.perf_counter()
        for k in range(SHAPES):
            _one(lap * SHAPES + k)
        gc.collect()
        rounds.append((time.perf_counter() - start, _held() / 2**20))
        print(
            f"  {(lap + 1) * SHAPES} solves: {rounds[-1][0]:.1f} s, {rounds[-1][1]:.0f} MiB",
            flush=True,
        )
    return {"rounds": rounds}


def endurance() -> None:
    """Five hundred solves of a hundred shapes in one process: seconds and memory of every round of
    a hundred."""
    found = in_fresh_process(_endured)["rounds"]
    rows = [
        {"solves": (i + 1) * SHAPES, "seconds each": own / SHAPES, "held_mib": held}
        for i, (own, held) in enumerate(found)
    ]
    table(f"{SOLVES} solves of {SHAPES} shapes in one process", rows)
    save("endurance", rows)
