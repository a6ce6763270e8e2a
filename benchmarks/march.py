"""Slab by slab in time against one space-time solve, and how errors grow up to T = 10."""

from __future__ import annotations

import dataclasses
import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import tessella as ts
from benchmarks.harness import in_fresh_process, save, table

PI = np.pi
LENGTH = 0.5
"""Of a slab."""


def wave_1d(T: float) -> ts.Problem:
    """u_tt = 4 u_xx, two standing waves."""

    def exact(p: np.ndarray) -> np.ndarray:
        x, t = p[:, 0], p[:, 1]
        slow = np.sin(PI * x) * np.cos(2 * PI * t)
        return slow + 0.5 * np.sin(4 * PI * x) * np.cos(8 * PI * t)

    start = [ts.Initial(exact), ts.InitialVelocity(0.0)]
    return ts.Problem(
        ts.Box(x=(0, 1), t=(0, T)),
        ts.Equation(ts.D(t=2) - 4 * ts.D(x=2)),
        [ts.Dirichlet(0.0), *start],
        exact=exact,
        name="wave-1d",
    )


def wave_2d(T: float) -> ts.Problem:
    """u_tt = u_xx + u_yy, one standing wave."""

    def exact(p: np.ndarray) -> np.ndarray:
        x, y, t = p.T
        return np.sin(PI * x) * np.sin(2 * PI * y) * np.cos(np.sqrt(5) * PI * t)

    start = [ts.Initial(exact), ts.InitialVelocity(0.0)]
    return ts.Problem(
        ts.Box(x=(0, 1), y=(0, 1), t=(0, T)),
        ts.Equation(ts.D(t=2) - ts.Laplacian()),
        [ts.Dirichlet(0.0), *start],
        exact=exact,
        name="wave-2d",
    )


def heat(T: float) -> ts.Problem:
    """u_t = 0.1 u_xx + f with a solution that keeps its size."""

    def exact(p: np.ndarray) -> np.ndarray:
        return np.sin(PI * p[:, 0]) * (1.5 + np.cos(2 * p[:, 1]))

    def source(p: np.ndarray) -> np.ndarray:
        x, t = p[:, 0], p[:, 1]
        return np.sin(PI * x) * (0.1 * PI**2 * (1.5 + np.cos(2 * t)) - 2 * np.sin(2 * t))

    return ts.Problem(
        ts.Box(x=(0, 1), t=(0, T)),
        ts.Equation(ts.D(t=1) - 0.1 * ts.D(x=2), source),
        [ts.Dirichlet(0.0), ts.Initial(exact)],
        exact=exact,
        name="heat",
    )


def advection(T: float) -> ts.Problem:
    """u_t + u_x = 0, a wave that enters at the left."""

    def exact(p: np.ndarray) -> np.ndarray:
        return np.sin(2 * PI * (p[:, 0] - p[:, 1]))

    return ts.Problem(
        ts.Box(x=(0, 1), t=(0, T)),
        ts.Equation(ts.D(t=1) + ts.D(x=1)),
        [ts.Dirichlet(exact, on="xmin"), ts.Initial(exact)],
        exact=exact,
        name="advection",
    )


@dataclass(frozen=True)
class Case:
    """A problem and the discretisation of one slab; one solve has as many subdomains per time."""

    build: Callable[[float], ts.Problem]
    subdomains: tuple[int, ...]
    settings: dict[str, Any]


CASES = {
    "1D, interfaces": Case(wave_1d, (2, 2), {"coupling": "interfaces", "features": 150}),
    "2D, interfaces": Case(wave_2d, (2, 2, 1), {"coupling": "interfaces", "features": 400}),
    "1D, overlap": Case(wave_1d, (2, 2), {"features": 100, "scale": 2.0, "solver": "nested-qr"}),
}
TIMES = (1.0, 2.0, 5.0, 10.0)

LONG: list[tuple[Callable[[float], ts.Problem], dict[str, Any]]] = [
    (wave_1d, {"subdomains": (2, 2), "features": 200}),
    (wave_2d, {"subdomains": (2, 2, 1), "features": 600}),
    (heat, {"subdomains": (2, 1), "features": 100}),
    (advection, {"subdomains": (2, 1), "features": 100}),
]


def compare(name: str, T: float, marching: bool) -> dict[str, Any]:
    """The second of two solves in this process; scoring the error is not counted."""
    case = CASES[name]
    whole, slabs = case.build(T), round(T / LENGTH)
    problem = dataclasses.replace(whole, exact=None)
    *space, along_t = case.subdomains
    solution: ts.Solution | ts.Marched
    for _ in range(2):
        wall, processor = time.perf_counter(), time.process_time()
        if marching:
            solution = ts.march(
                problem, slabs, subdomains=case.subdomains, estimate=False, **case.settings
            )
        else:
            divided = (*space, slabs * along_t)
            solution = ts.solve(problem, subdomains=divided, estimate=False, **case.settings)
        used = {"s": time.perf_counter() - wall, "cpu s": time.process_time() - processor}
    points = whole.domain.grid((21,) * len(space) + (10 * slabs + 1,))
    exact = whole.exact_values(points)
    error = float(np.linalg.norm(solution(points) - exact) / np.linalg.norm(exact))
    return {"l2": error, **used}


def long(number: int) -> dict[str, Any]:
    """One problem to T = 10 in 20 slabs, with estimates."""
    build, settings = LONG[number]
    processor = time.process_time()
    marched = ts.march(build(10.0), 20, coupling="interfaces", **settings)
    used = time.process_time() - processor
    print(marched, flush=True)
    report = marched.report
    last = report.slabs[-1]
    growth = report.growth()
    end = marched.problem.domain.grid((41,) * (marched.problem.domain.dimension - 1) + (1,))
    end[:, -1] = 10.0
    return {
        "problem": report.problem,
        "settings": str(settings),
        "first slab": (report.slabs[0].error or {})["l1_normalised"],
        "last slab": (last.error or {})["l1_normalised"],
        "estimate": last.estimate,
        "l2": (report.error or {})["l2_relative"],
        "max at T": float(np.max(np.abs(marched(end) - marched.problem.exact_values(end)))),
        "growth": growth and growth[0],
        "factored": report.factorisations,
        "cpu s": used,
    }


def march() -> None:
    """Time, memory and error of both ways for T = 1, 2, 5, 10; then four problems to T = 10."""
    rows: list[dict[str, Any]] = []
    for name, T, marching in itertools.product(CASES, TIMES, (True, False)):
        way = "march" if marching else "one solve"
        found = in_fresh_process(compare, name, T, marching)
        rows.append({"wave": name, "T": T, "way": way, **found})
        save("march", rows)
    table(f"slabs of {LENGTH} against one solve", rows)
    far = [in_fresh_process(long, number) for number in range(len(LONG))]
    save("march", [*rows, *far])
    table("to T = 10 in 20 slabs", far)
