"""Waves in time: marched slab by slab by hand, NGSolve beside it, and by a tolerance alone.

Wall and CPU seconds stand side by side: where they differ much, the machine was busy. What is timed
knows no exact solution, whose series would cost more than the wave; errors are measured afterwards.
NGSolve (`pip install ngsolve`) runs on one thread and knows u at the times that are compared, ours
at all. Where no exact solution is known, NGSolve's finer elements stand for it; "reference to" is
how far coarser ones are from them.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import tessella as ts
from benchmarks.harness import save, table
from benchmarks.refinement import spreading
from benchmarks.waves_ngsolve import Elements, chebyshev, krylov
from benchmarks.waves_ngsolve import helmholtz as static_elements
from benchmarks.waves_problems import (
    CIRCLES,
    IN_THE_SQUARE,
    ON_THE_DISC,
    Peer,
    Row,
    around,
    bump,
    gaussian,
    helmholtz,
    holed_disc,
    modes,
    normalised,
    three_waves,
    two_modes,
    variable_speed,
    varying,
)
from tessella.machine.threads import single_threaded_blas

REPEAT, LONG = 3, 20.0
"""Warm runs of which the fastest counts, and seconds from which a first one is all there is."""

TO = 1e-6
"""The error that static waves are solved to."""

SCATTERED = 20_000
"""Points where errors are measured that nothing else is compared with."""

WIDE, NARROW = (partial(bump, at=(0.0, 0.0), width=width) for width in (0.2, 0.1))
SQUARE = (-1.0, 1.0)

MARCHED = [
    Row(gaussian(0.2, 0.5), 1e-4, 2, (6, 6, 1), 90,
        Peer(Elements(6, SQUARE, 5), 14, 200, WIDE)),
    Row(gaussian(0.2, 0.5), 1e-5, 2, (6, 6, 1), 150,
        Peer(Elements(10, SQUARE, 3), 14, 400, WIDE)),
    Row(gaussian(0.1, 1.0), 1e-4, 8, (12, 12, 1), 110,
        Peer(Elements(6, SQUARE, 10), 50, 1600, NARROW)),
    Row(gaussian(0.1, 1.0), 1e-5, 8, (12, 12, 1), 200,
        Peer(Elements(8, SQUARE, 9), 50, 1600, NARROW)),
    Row(gaussian(0.2, 10.0), 2e-5, 40, (6, 6, 1), 150,
        Peer(Elements(8, SQUARE, 6), 60, 400, WIDE)),
    Row(modes(100.0), 1e-7, 300, (2, 2, 1), 300,
        Peer(Elements(8, cells=2), 5, 20, two_modes)),
    Row(around(10.0), 1e-6, 80, (8, 1), 40),
    Row(variable_speed(), 1e-5, 14, (10, 10, 1), 420,
        Peer(Elements(8, cells=9), 80, 2000, IN_THE_SQUARE, varying, 1.5),
        (Elements(10, cells=12), Elements(8, cells=12))),
    Row(holed_disc(), 1e-4, 10, (10, 10, 1), 120,
        Peer(Elements(8, circles=CIRCLES, width=0.25), 40, 1000, ON_THE_DISC),
        (Elements(10, circles=CIRCLES, width=0.15), Elements(8, circles=CIRCLES, width=0.15))),
]  # fmt: skip


class Static(NamedTuple):
    """A wave that only has a wavenumber, in cells a side."""

    k: float
    cells: int
    features: int
    elements: Elements | None = None


OTHER_CELLS = {"disc with a hole, T = 1": (9, (9, 9, 1), 200)}
"""Slabs, cells and features of another, finer march, for a second opinion."""

STATIC = [
    Static(100.0, 8, 200, Elements(8, cells=28)),
    Static(100.0, 12, 200),
    Static(300.0, 24, 200, Elements(10, cells=64)),
    Static(300.0, 24, 300),
]
TOLERANCES = [
    (gaussian(0.2, 0.5), 1e-4),
    (gaussian(0.1, 1.0), 1e-4),
    (modes(10.0), 1e-5),
    (around(10.0), 1e-6),
    (spreading(0.003), 1e-6),
    (helmholtz(100.0), 1e-6),
    (helmholtz(300.0), 1e-6),
]


class Seconds(NamedTuple):
    """Wall and CPU seconds of the first run and of the fastest warm one."""

    first: float
    first_cpu: float
    warm: float
    warm_cpu: float

    @property
    def columns(self) -> dict[str, float]:
        return {
            "first s": self.first,
            "first CPU s": self.first_cpu,
            "warm s": self.warm,
            "warm CPU s": self.warm_cpu,
        }


def waves() -> None:
    ours: list[dict[str, Any]] = []
    beside: list[dict[str, Any]] = []
    for row in MARCHED:
        right, apart = row.solution()
        mine = _marched(row, right)
        ours.append(mine)
        beside += _beside(row, right, apart, mine)
    for static in STATIC:
        mine = _static(static)
        ours.append(mine)
        if static.elements is not None:
            beside.append(_static_beside(static, static.elements, mine))
    table("by hand, normalised L1 error", ours)
    table("NGSolve beside it", beside)
    save("waves", [*ours, *beside])
    chosen = [_to_tolerance(problem, tol) for problem, tol in TOLERANCES]
    table("by a tolerance alone", chosen)
    save("waves", [*ours, *beside, *chosen])


def _marched(row: Row, right: np.ndarray) -> dict[str, Any]:
    blind = dataclasses.replace(row.problem, exact=None)
    found, seconds = _timed(partial(_march, blind, row.slabs, row.cells, row.features))
    error, late = row.errors(found(row.points), right)
    made = {
        "problem": row.problem.name,
        "to": row.to,
        "slabs": row.slabs,
        "cells": " x ".join(map(str, row.cells)),
        "features": found.report.first.features,
        "error": error,
        "late error": late,
        **seconds.columns,
    }
    _told(made)
    return made


def _march(problem: ts.Problem, slabs: int, cells: tuple[int, ...], count: int) -> ts.Marched:
    sizes = {"subdomains": cells, "features": count, "coupling": "interfaces"}
    with single_threaded_blas():
        return ts.march(problem, slabs, **sizes, estimate=False)


def _beside(
    row: Row, right: np.ndarray, apart: float | None, mine: dict[str, Any]
) -> list[dict[str, Any]]:
    """The same wave by NGSolve both ways, and by other cells of ours where that was asked for."""
    peer, found = row.peer, []
    if peer is None:
        return []
    given = peer.elements, peer.start, row.times
    ways = {
        f"Krylov space of {peer.size}": partial(krylov, *given, peer.size, peer.shift, peer.speed),
        "Chebyshev series": partial(chebyshev, *given, peer.speed, peer.fastest),
    }
    for way, run in ways.items():
        answer, seconds = _timed(run)
        error, late = row.errors(answer(row.points), right)
        name = f"{peer.elements}, {way}"
        found.append(_compared(row.problem.name, row.to, name, (error, late), seconds, mine, apart))
    if row.problem.name in OTHER_CELLS:
        blind = dataclasses.replace(row.problem, exact=None)
        other = _march(blind, *OTHER_CELLS[row.problem.name])
        again = other(row.points)
        print(
            f"  our march on other cells: {normalised(again, right):.1e} from NGSolve", flush=True
        )
    return found


def _compared(
    problem: str,
    to: float,
    way: str,
    errors: tuple[float, float | None],
    seconds: Seconds,
    mine: dict[str, Any],
    apart: float | None = None,
) -> dict[str, Any]:
    made = {
        "problem": problem,
        "to": to,
        "NGSolve": way,
        "error": errors[0],
        "late error": errors[1],
        **seconds.columns,
        "ours / its": mine["warm s"] / seconds.warm,
        "CPU, ours / its": mine["warm CPU s"] / seconds.warm_cpu,
        "reference to": apart,
    }
    _told(made)
    return made


def _static(row: Static) -> dict[str, Any]:
    problem = helmholtz(row.k)
    blind = dataclasses.replace(problem, exact=None)
    sizes = {"subdomains": row.cells, "features": row.features, "coupling": "interfaces"}

    def run() -> ts.Solution:
        with single_threaded_blas():
            return ts.solve(blind, **sizes, estimate=False)

    found, seconds = _timed(run)
    made = {
        "problem": problem.name,
        "to": TO,
        "slabs": None,
        "cells": f"{row.cells} x {row.cells}",
        "features": found.report.features,
        "error": _scattered_error(problem, found),
        "late error": None,
        **seconds.columns,
    }
    _told(made)
    return made


def _static_beside(row: Static, elements: Elements, mine: dict[str, Any]) -> dict[str, Any]:
    problem, exact = helmholtz(row.k), partial(three_waves, k=row.k)
    answer, seconds = _timed(partial(static_elements, elements, row.k, exact))
    points = problem.domain.scatter(SCATTERED, np.random.default_rng(0))
    error = normalised(answer(points), problem.exact_values(points).ravel())
    return _compared(problem.name, TO, f"{elements}, condensed", (error, None), seconds, mine)


def _to_tolerance(problem: ts.Problem, tol: float) -> dict[str, Any]:
    blind = dataclasses.replace(problem, exact=None)
    found, seconds = _timed(partial(ts.solve, blind, tol=tol))
    report = found.report
    made = {
        "problem": problem.name,
        "tol": tol,
        "ended": report.stop_reason,
        "estimate": report.error_estimate,
        "error": _scattered_error(problem, found),
        "slabs": len(found.slabs) if isinstance(found, ts.Marched) else None,
        **seconds.columns,
    }
    _told(made)
    return made


def _scattered_error(problem: ts.Problem, found: ts.Solution | ts.Marched) -> float:
    """Of what was reached."""
    points = found.problem.domain.scatter(SCATTERED, np.random.default_rng(0))
    return normalised(
        np.asarray(found(points)).ravel(), np.asarray(problem.exact_values(points)).ravel()
    )


def _timed(run: Callable[[], Any]) -> tuple[Any, Seconds]:
    times = []
    for _ in range(1 + REPEAT):
        start, start_cpu = time.perf_counter(), time.process_time()
        found = run()
        times.append((time.perf_counter() - start, time.process_time() - start_cpu))
        if times[-1][0] > LONG:
            break
    warm = times[1:] or times
    fastest = min(one for one, _ in warm), min(one for _, one in warm)
    return found, Seconds(*times[0], *fastest)


def _told(row: dict[str, Any]) -> None:
    """A line as soon as there is one: all of them take minutes."""
    name = row.get("NGSolve") or row.get("features") or f"tol = {row['tol']:g}"
    print(
        f"  {row['problem']}, {name}: {row['error']:.1e} in {row['warm s']:.3g} s, "
        f"{row['warm CPU s']:.3g} s of CPU",
        flush=True,
    )
