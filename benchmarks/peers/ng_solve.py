"""NGSolve: high-order elements on the square, condensed; a Taylor scheme in time for the wave."""

from __future__ import annotations

import contextlib
import math
import os
from typing import Any

import numpy as np

from benchmarks.peers.peer import Answer, NotApplicableError, Peer, Settings
from benchmarks.peers.problems import Array, Case, Oscillator, Square, Wave

CELLS: dict[str, dict[int, tuple[int, ...]]] = {
    "laplace-3": {4: (16, 32, 64), 8: (4, 6, 8, 12), 10: (4, 6, 8), 12: (4, 6, 8, 12)},
    "laplace-4": {4: (32, 64, 128), 8: (8, 12, 16, 24), 10: (8, 12, 16), 12: (8, 12, 16)},
    "laplace-5": {4: (64, 128), 8: (16, 24, 32, 48), 10: (16, 24, 32), 12: (16, 24, 32)},
    "laplace-6": {4: (64, 128), 8: (32, 48, 64, 96), 10: (32, 48, 64), 12: (32, 48, 64)},
    "helmholtz": {4: (16, 32, 64), 8: (8, 16, 24, 32), 10: (8, 12, 16), 12: (8, 16, 24)},
    "layer": {4: (32, 64), 8: (8, 16, 32), 10: (8, 16, 24), 12: (8, 16, 24)},
}
"""Cells per side by degree."""

LARGEST_QUADRILATERAL = 10
"""Above this degree quadrilaterals assemble a hundred times slower, and triangles win; below it
quadrilaterals of half as many cells per side give the same error."""

WAVE_CELLS: dict[str, dict[int, tuple[int, ...]]] = {
    "wave-0.2": {4: (12, 24), 8: (8, 12, 16)},
    "wave-0.1": {4: (24, 48), 8: (16, 24)},
}

TERMS = 4
"""Of the cosine's Taylor series in time: eighth order."""

STEP = {4: 0.11, 8: 0.035}
"""Time step in units of a cell's width, by degree: within the scheme's stability limit."""


def sizes(name: str, case: Case) -> list[Settings]:
    if isinstance(case, Oscillator):
        raise NotApplicableError("a boundary value code, not one for initial value problems")
    table = CELLS if isinstance(case, Square) else WAVE_CELLS
    threads = sorted({1, os.cpu_count() or 1})
    return [
        {"degree": p, "cells": n, "threads": t}
        for p, all_cells in table[name].items()
        for n in all_cells
        for t in (threads if p == 8 else threads[:1])
    ]


def solve(case: Square | Wave, degree: int, cells: int, threads: int) -> Answer:
    import ngsolve as ng

    ng.ngsglobals.msg_level = 0
    ng.SetNumThreads(threads)
    with ng.TaskManager() if threads > 1 else contextlib.nullcontext():
        run = _static if isinstance(case, Square) else _stepped
        return run(case, degree, cells)


def _static(case: Any, degree: int, cells: int) -> Answer:
    import ngsolve as ng
    from ngsolve.meshes import MakeStructured2DMesh

    mesh = MakeStructured2DMesh(quads=degree <= LARGEST_QUADRILATERAL, nx=cells, ny=cells)
    space = ng.H1(mesh, order=degree, dirichlet=".*")
    u, v = space.TnT()
    advected = any(case.b)
    form = case.a * ng.grad(u) * ng.grad(v) + case.c * u * v
    if advected:
        form = form + ng.CoefficientFunction(case.b) * ng.grad(u) * v
    A = ng.BilinearForm(space, condense=True, symmetric=not advected)
    A += form * ng.dx
    f = ng.LinearForm(case.source(ng.x, ng.y, ng) * v * ng.dx(bonus_intorder=4))
    A.Assemble()
    f.Assemble()
    found = ng.GridFunction(space)
    solver = "umfpack" if advected else "sparsecholesky"
    f.vec.data += A.harmonic_extension_trans * f.vec
    found.vec.data = A.mat.Inverse(space.FreeDofs(True), inverse=solver) * f.vec
    found.vec.data += A.harmonic_extension * found.vec
    found.vec.data += A.inner_solve * f.vec
    return lambda points: _values(found, mesh, points)


def _values(found: Any, mesh: Any, points: Array) -> Array:
    return np.asarray(found(mesh(points[:, 0], points[:, 1]))).ravel()


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
            values[at] = _values(found, mesh, points[at])
        return values

    return answer


NGSOLVE = Peer(
    "NGSolve",
    "H1 of degree 4, 8, 10 on uniform squares, 12 on uniform triangles, condensed, sparse "
    "Cholesky (UMFPACK if not symmetric); one thread, degree 8 also with all. Wave: degree 4 and "
    f"8 in space, cosine scheme of order {2 * TERMS} in time at about its largest stable step",
    sizes,
    solve,
    requires=("ngsolve",),
)
