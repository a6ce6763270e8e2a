"""NGSolve: high-order elements, condensed, curved at holes; a Taylor scheme in time for waves."""

from __future__ import annotations

import contextlib
import math
import os
from typing import Any

import numpy as np

import tessella as ts
from benchmarks.peers.peer import Answer, NotApplicableError, Peer, Settings
from benchmarks.peers.problems import (
    HOLE,
    Array,
    Case,
    Cube,
    Formula,
    Oscillator,
    Plate,
    Square,
)

Cells = dict[int, tuple[int, ...]]
"""Cells per side by degree."""

WAVES_4: Cells = {
    4: (32, 64, 128),
    8: (8, 12, 14, 16, 24),
    10: (8, 9, 12, 14, 16, 28),
    12: (8, 12, 16),
    15: (16,),
}
WAVES_6: Cells = {
    4: (64, 128),
    8: (32, 48, 56, 64, 96),
    10: (32, 36, 48, 56, 64, 112),
    12: (32, 48, 64),
    15: (64,),
}

CELLS: dict[str, Cells] = {
    "laplace-3": {
        4: (16, 32, 64),
        8: (4, 6, 7, 8, 12),
        10: (4, 5, 6, 7, 8, 14),
        12: (4, 6, 8, 12),
        15: (8,),
    },
    "laplace-4": WAVES_4,
    "laplace-5": {
        4: (64, 128),
        8: (16, 24, 28, 32, 48),
        10: (16, 18, 24, 28, 32, 56),
        12: (16, 24, 32),
        15: (32,),
    },
    "laplace-6": WAVES_6,
    "variable-4": WAVES_4,
    "variable-6": WAVES_6,
    "helmholtz": {4: (16, 32, 64), 8: (8, 16, 24, 32), 10: (8, 12, 16, 24), 12: (8, 16, 20, 24)},
    "layer": {4: (32, 64), 8: (8, 16, 32), 10: (8, 16, 24), 12: (8, 12, 16, 24)},
}

LARGEST_QUADRILATERAL = 10
"""Above this degree quadrilaterals assemble several times slower, and triangles win, which do so
above 15; below it quadrilaterals of half as many cells per side give the same error."""

WIDTHS: dict[str, dict[int, tuple[float, ...]]] = {
    "four-holes": {8: (0.2, 0.1, 0.05), 10: (0.2, 0.1), 12: (0.2, 0.1, 0.05), 15: (0.2, 0.1)},
    "disc-with-hole": {8: (0.5, 0.25), 10: (0.5, 0.25), 12: (0.5, 0.25)},
}
"""Largest width of curved triangles by degree."""

CUBE_CELLS: dict[str, Cells] = {
    "cube-2": {4: (6, 8, 12), 6: (3, 4, 6), 8: (3, 4, 6), 10: (3, 4), 12: (3,)}
}
"""Of hexahedra."""

WAVE_CELLS: dict[str, Cells] = {
    "wave-0.2": {4: (12, 24), 8: (8, 12, 16)},
    "wave-0.1": {4: (24, 48), 8: (16, 24)},
}

TERMS = 4
"""Of the cosine's Taylor series in time: eighth order."""

STEP = {4: 0.11, 8: 0.035}
"""Time step in units of a cell's width, by degree: within the scheme's stability limit."""

THREADED = 8
"""From this degree on runs are made with one thread and with all, below with one."""


def sizes(name: str, case: Case) -> list[Settings]:
    if isinstance(case, Oscillator):
        raise NotApplicableError("a boundary value code, not one for initial value problems")
    key = "width" if isinstance(case, Plate) else "cells"
    tables: dict[str, Any] = {
        "plate": WIDTHS, "square": CELLS, "wave": WAVE_CELLS, "cube": CUBE_CELLS,
    }  # fmt: skip
    table, threads = tables[case.kind], sorted({1, os.cpu_count() or 1})
    if isinstance(case, Cube):
        return [
            {"degree": p, "cells": size, "threads": threads[-1], "inverse": inverse}
            for p, all_sizes in table[name].items()
            for size in all_sizes
            for inverse in ("sparsecholesky", BDDC)
        ]
    return [
        {"degree": p, key: size, "threads": t}
        for p, all_sizes in table[name].items()
        for size in all_sizes
        for t in (threads if p >= THREADED else threads[:1])
    ]


def solve(case: Case, degree: int, threads: int, **size: Any) -> Answer:
    import ngsolve as ng

    ng.ngsglobals.msg_level = 0
    ng.SetNumThreads(threads)
    ways: dict[str, Any] = {
        "plate": _curved, "square": _static, "wave": _stepped, "cube": _in_space,
    }  # fmt: skip
    run = ways[case.kind]
    with ng.TaskManager() if threads > 1 else contextlib.nullcontext():
        return run(case, degree, **size)


def _static(case: Square, degree: int, cells: int) -> Answer:
    import ngsolve as ng
    from ngsolve.meshes import MakeStructured2DMesh

    mesh = MakeStructured2DMesh(quads=degree <= LARGEST_QUADRILATERAL, nx=cells, ny=cells)
    space = ng.H1(mesh, order=degree, dirichlet=".*")
    u, v = space.TnT()
    advected = any(case.b)
    form = case.diffusion(ng.x, ng.y, ng) * ng.grad(u) * ng.grad(v) + case.c * u * v
    if advected:
        form = form + ng.CoefficientFunction(case.b) * ng.grad(u) * v
    A = ng.BilinearForm(space, condense=True, symmetric=not advected)
    A += form * ng.dx
    found = ng.GridFunction(space)
    _condensed(A, _load(space, case.source), found, "umfpack" if advected else "sparsecholesky")
    return lambda points: _values(found, mesh, points)


BDDC, EXACT = "bddc", 1e-13
"""A preconditioner of conjugate gradients, and the residual to which they go."""


def _in_space(case: Cube, degree: int, cells: int, inverse: str) -> Answer:
    import ngsolve as ng
    from ngsolve.meshes import MakeStructured3DMesh

    mesh = MakeStructured3DMesh(hexes=True, nx=cells, ny=cells, nz=cells)
    space = ng.H1(mesh, order=degree, dirichlet=".*")
    u, v = space.TnT()
    A = ng.BilinearForm(space, condense=True, symmetric=True)
    A += case.varying.value(ng.x, ng.y, ng.z, ng) * ng.grad(u) * ng.grad(v) * ng.dx
    prepared = ng.Preconditioner(A, BDDC) if inverse == BDDC else None
    f = _load(space, case.source, ng.x, ng.y, ng.z)
    found = ng.GridFunction(space)
    _condensed(A, f, found, inverse, prepared)
    return lambda points: _values(found, mesh, points)


def _curved(case: Plate, degree: int, width: float) -> Answer:
    import ngsolve as ng

    mesh = ng.Mesh(_geometry(case).GenerateMesh(maxh=width))
    mesh.Curve(degree)
    space = ng.H1(mesh, order=degree, dirichlet=".*")
    u, v = space.TnT()
    A = ng.BilinearForm(space, condense=True, symmetric=True)
    A += ng.grad(u) * ng.grad(v) * ng.dx
    found = ng.GridFunction(space)
    edges = {OUTLINE: case.outside, HOLE: case.inside}
    given = {on: f(ng.x, ng.y, ng) if callable(f) else f for on, f in edges.items()}
    found.Set(mesh.BoundaryCF(given), ng.BND)
    _condensed(A, _load(space, case.source), found, "sparsecholesky")
    return lambda points: _values(found, mesh, points)


OUTLINE = "outline"


def _geometry(case: Plate) -> Any:
    from netgen.geom2d import Circle, CSG2d, Rectangle

    if isinstance(case.outline, ts.Ball):
        shape = Circle(case.outline.centre, case.outline.radius, bc=OUTLINE)
    else:
        shape = Rectangle(*zip(*case.outline.bounds, strict=True), bc=OUTLINE)
    for hole in case.holes:
        shape = shape - Circle(hole.centre, hole.radius, bc=HOLE)
    geometry = CSG2d()
    geometry.Add(shape)
    return geometry


def _load(space: Any, source: Formula | None, *at: Any) -> Any:
    import ngsolve as ng

    f = ng.LinearForm(space)
    if source is not None:
        given = source(*(at or (ng.x, ng.y)), ng).Compile()
        f += given * space.TestFunction() * ng.dx(bonus_intorder=4)
    return f.Assemble().vec


def _condensed(A: Any, f: Any, found: Any, solver: str, prepared: Any = None) -> None:
    """Solve A found = f, where `found` holds the boundary values; inner unknowns eliminated."""
    A.Assemble()
    free = found.space.FreeDofs(True)
    f.data -= A.mat * found.vec
    f.data += A.harmonic_extension_trans * f
    if prepared is None:
        inverse = A.mat.Inverse(free, inverse=solver)
    else:
        from ngsolve.krylovspace import CGSolver

        inverse = CGSolver(A.mat, prepared.mat, tol=EXACT, maxiter=1_000)
    found.vec.data += inverse * f
    found.vec.data += A.harmonic_extension * found.vec
    found.vec.data += A.inner_solve * f


def _values(found: Any, mesh: Any, points: Array) -> Array:
    return np.asarray(found(mesh(*points.T))).ravel()


def _stepped(case: Any, degree: int, cells: int) -> Answer:
    """u(t + dt) + u(t - dt) = 2 cos(dt sqrt(A)) u(t) with A = M^-1 K and the cosine's series."""
    import ngsolve as ng
    from ngsolve.meshes import MakeStructured2DMesh

    mesh = MakeStructured2DMesh(
        quads=True, nx=cells, ny=cells, mapping=lambda x, y: (2 * x - 1, 2 * y - 1)
    )
    space = ng.H1(mesh, order=degree, dirichlet=".*")
    u, v = space.TnT()
    M = ng.BilinearForm(u * v * ng.dx, symmetric=True).Assemble().mat
    K = ng.BilinearForm(ng.grad(u) * ng.grad(v) * ng.dx, symmetric=True).Assemble().mat
    start = ng.LinearForm(case.initial(ng.x, ng.y, ng) * v * ng.dx(bonus_intorder=4)).Assemble()
    inverse = M.Inverse(space.FreeDofs(), inverse="sparsecholesky")
    interval = case.T / case.TIMES
    steps = math.ceil(interval / (STEP[degree] * 2 / cells))
    dt = interval / steps

    now, before, term, force, following = (M.CreateColVector() for _ in range(5))

    def cosine(vector: Any) -> Any:
        """cos(dt sqrt(A)) vector, in `following`."""
        following.data = vector
        term.data = vector
        for k in range(1, TERMS + 1):
            force.data = (-(dt**2) / (2 * k * (2 * k - 1))) * K * term
            term.data = inverse * force
            following.data += term
        return following

    before.data = inverse * start.vec
    now.data = cosine(before)
    kept = []
    for step in range(1, steps * case.TIMES + 1):
        if step % steps == 0:
            kept.append(now.CreateVector(copy=True))
        cosine(now)
        following *= 2.0
        following -= before
        before.data = now
        now.data = following

    def answer(points: Array) -> Array:
        found, values = ng.GridFunction(space), np.empty(len(points))
        for number, vector in enumerate(kept, 1):
            found.vec.data = vector
            at = np.isclose(points[:, 2], number * interval)
            values[at] = _values(found, mesh, points[at, :2])
        return values

    return answer


NGSOLVE = Peer(
    "NGSolve",
    "H1 of degree 4, 8, 10 on uniform squares, 12, 15 on uniform triangles, 8 to 15 on curved "
    "triangles at holes, condensed, sparse Cholesky (UMFPACK if not symmetric); one thread, from "
    f"degree {THREADED} also with all. Cube: uniform hexahedra, all threads, sparse Cholesky or "
    "conjugate gradients with BDDC. Wave: degree 4 and 8 in space, cosine scheme of order "
    f"{2 * TERMS} in time at about its largest stable step",
    sizes,
    solve,
    requires=("ngsolve",),
)
