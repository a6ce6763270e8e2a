"""scikit-fem on the square: P2 and P4 triangles, static condensation of the boundary, SuperLU."""

from __future__ import annotations

import numpy as np

from benchmarks.peers.peer import Answer, NotApplicableError, Peer, Settings
from benchmarks.peers.problems import Array, Case, Cube, Plate, Square

CELLS = {2: (16, 32, 64, 128, 192), 4: (8, 16, 32, 64)}
"""Per side, by degree; each is two triangles. Those with fewer than four nodes to a wavelength are
left out."""


def sizes(name: str, case: Case) -> list[Settings]:
    if isinstance(case, Plate):
        raise NotApplicableError("no curved elements of this degree set up here")
    if isinstance(case, Cube):
        raise NotApplicableError("no elements in space set up here")
    if not isinstance(case, Square):
        raise NotApplicableError("no time stepping or space-time elements set up here")
    nodes = 2 / np.pi * case.wavenumber
    return [
        {"degree": p, "cells": n}
        for p, all_cells in CELLS.items()
        for n in all_cells
        if p * n >= nodes
    ]


def solve(case: Square, degree: int, cells: int) -> Answer:
    import skfem
    from skfem.helpers import dot, grad

    line = np.linspace(0, 1, cells + 1)
    mesh = skfem.MeshTri.init_tensor(line, line)
    element = {2: skfem.ElementTriP2, 4: skfem.ElementTriP4}[degree]()
    basis = skfem.Basis(mesh, element, intorder=2 * degree + 2)

    @skfem.BilinearForm
    def left(u, v, w):  # type: ignore[no-untyped-def]
        slope = grad(u)
        advection = case.b[0] * slope[0] + case.b[1] * slope[1]
        a = case.diffusion(w.x[0], w.x[1], np)
        return a * dot(slope, grad(v)) + (advection + case.c * u) * v

    @skfem.LinearForm
    def right(v, w):  # type: ignore[no-untyped-def]
        return case.source(w.x[0], w.x[1], np) * v

    A, f = left.assemble(basis), right.assemble(basis)
    u = skfem.solve(*skfem.condense(A, f, D=basis.get_dofs()))

    def answer(points: Array) -> Array:
        """`basis.probes` searches the triangle of every point, where a formula will do."""
        cell = np.minimum((points * cells).astype(int), cells - 1) @ [cells, 1]
        centres = (mesh.p[:, mesh.t].mean(axis=1).T * cells).astype(int) @ [cells, 1]
        first, second = np.argsort(centres, kind="stable").reshape(-1, 2)[cell].T
        at = points.T[:, :, None]
        local = basis.mapping.invF(at, tind=first)[:, :, 0]
        inside = (local.min(axis=0) >= -1e-9) & (local.sum(axis=0) <= 1 + 1e-9)
        triangle = np.where(inside, first, second)
        local = basis.mapping.invF(at, tind=triangle)
        values = np.zeros(len(points))
        for k in range(basis.Nbfun):
            phi = element.gbasis(basis.mapping, local, k, tind=triangle)[0].value[:, 0]
            values += phi * u[basis.element_dofs[k, triangle]]
        return values

    return answer


SCIKIT_FEM = Peer(
    "scikit-fem",
    "uniform right triangles, P2 and P4, default direct solver (SciPy's SuperLU)",
    sizes,
    solve,
    requires=("skfem",),
)
