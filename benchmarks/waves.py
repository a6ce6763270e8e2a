"""Waves in time: plane waves marched slab by slab, and what a tolerance alone makes of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

import tessella as ts
from benchmarks.harness import save, table
from tessella.machine.threads import single_threaded_blas
from tessella.problem.hard import stated

REPEAT = 3
"""Warm runs of which the fastest counts; the first one is shown beside it."""


def gaussian(width: float, T: float) -> ts.Problem:
    """The paper's wave from a Gaussian at rest, its hard constraints stated as conditions."""
    found = stated(ts.gallery.get("wave").problem(**{"lambda": width, "T": T}))
    assert found is not None
    return found


def modes(T: float) -> ts.Problem:
    """Two modes of the unit square."""

    def shape(p: np.ndarray, m: int, n: int) -> np.ndarray:
        return np.sin(m * np.pi * p[:, 0]) * np.sin(n * np.pi * p[:, 1])

    def exact(p: np.ndarray) -> np.ndarray:
        slow = shape(p, 1, 1) * np.cos(np.sqrt(2) * np.pi * p[:, 2])
        return slow + 0.5 * shape(p, 2, 1) * np.cos(np.sqrt(5) * np.pi * p[:, 2])

    return ts.Problem(
        ts.Box(x=(0, 1), y=(0, 1), t=(0, T)),
        ts.Equation(ts.D(t=2) - ts.Laplacian()),
        [ts.Dirichlet(0.0), ts.Initial(exact), ts.InitialVelocity(0.0)],
        exact=exact,
        name=f"two modes, T = {T:g}",
    )


def around(T: float, width: float = 0.02) -> ts.Problem:
    """A pulse carried around a circle."""

    def exact(p: np.ndarray) -> np.ndarray:
        return np.exp(-(((p[:, 0] - p[:, 1]) % 1 - 0.5) ** 2) / (2 * width**2))

    return ts.Problem(
        ts.Box(x=(0, 1), t=(0, T)),
        ts.Equation(ts.D(t=1) + ts.D(x=1)),
        [ts.Periodic("x"), ts.Initial(exact)],
        exact=exact,
        name=f"advection around, T = {T:g}",
    )


MARCHED = [
    ("wave 0.2, T = 0.5", gaussian(0.2, 0.5), 2, (6, 6, 1), 90),
    ("wave 0.2, T = 0.5", gaussian(0.2, 0.5), 2, (6, 6, 1), 150),
    ("wave 0.1, T = 1", gaussian(0.1, 1.0), 8, (12, 12, 1), 110),
    ("wave 0.1, T = 1", gaussian(0.1, 1.0), 8, (12, 12, 1), 200),
    ("wave 0.2, T = 10", gaussian(0.2, 10.0), 40, (6, 6, 1), 150),
    ("two modes, T = 100", modes(100.0), 200, (2, 2, 1), 200),
    ("advection around, T = 10", around(10.0), 80, (8, 1), 40),
]
TOLERANCES = [
    (gaussian(0.2, 0.5), 1e-4),
    (gaussian(0.1, 1.0), 1e-4),
    (modes(10.0), 1e-5),
    (around(10.0), 1e-6),
]


def waves() -> None:
    rows = []
    for name, problem, slabs, cells, count in MARCHED:
        sizes = {"subdomains": cells, "features": count, "coupling": "interfaces"}
        with single_threaded_blas():
            march = partial(ts.march, problem, slabs, **sizes, estimate=False)
            first, warm, found = _timed(march)
        slab = found.report.slabs[-1]
        rows.append(
            {
                "problem": name,
                "slabs": slabs,
                "cells": " x ".join(map(str, cells)),
                "features": found.report.first.features,
                "error": found.report.error["l1_normalised"],
                "last slab": slab.error["l1_normalised"],
                "first s": first,
                "warm s": warm,
            }
        )
    table("marched by hand, normalised L1", rows)
    chosen = []
    for problem, tol in TOLERANCES:
        first, warm, found = _timed(partial(ts.solve, problem, tol=tol))
        report = found.report
        chosen.append(
            {
                "problem": problem.name,
                "tol": tol,
                "ended": report.stop_reason,
                "estimate": report.error_estimate,
                "error": report.error["l1_normalised"],
                "slabs": len(report.slabs),
                "first s": first,
                "warm s": warm,
            }
        )
    table("by a tolerance alone", chosen)
    save("waves", [*rows, *chosen])


def _timed(run: Callable[[], ts.Marched]) -> tuple[float, float, ts.Marched]:
    times = []
    for _ in range(1 + REPEAT):
        start = time.perf_counter()
        found = run()
        times.append(time.perf_counter() - start)
        if times[-1] > 10:
            break
    return times[0], min(times[1:] or times), found
