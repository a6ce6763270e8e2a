"""Laplace's equation on a square with four holes, by curved finite elements of high order.

`python -m tessella.gallery.reference.four_holes` computes the table again with NGSolve
(`pip install ngsolve`): it refines until two orders agree at every point, and writes
`four_holes.csv` beside this file. The table is what the gallery reads; NGSolve is needed for
nothing else.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from tessella.machine.arrays import Array

TABLE = Path(__file__).with_suffix(".csv")

CENTRES = tuple((0.3 * i, 0.3 * j) for i in (-1, 1) for j in (-1, 1))
RADIUS = 0.1

POINTS, SEED = 600, 7


@cache
def table() -> tuple[Array, Array]:
    """Points (n, 2), spread evenly over the domain, and the solution there."""
    rows = np.loadtxt(TABLE, delimiter=",", comments="#")
    return rows[:, :2], rows[:, 2]


def points() -> Array:
    """Random points of the domain, in four decimals."""
    x = np.random.default_rng(SEED).uniform(-0.5, 0.5, (2 * POINTS, 2)).round(4)
    to_holes = np.min([np.hypot(*(x - c).T) for c in CENTRES], axis=0)
    return x[(to_holes > RADIUS) & (np.abs(x).max(axis=1) < 0.5)][:POINTS]


def finite_elements(order: int, size: float, at: Array) -> Array:
    """u at the points, with elements of this order on a curved mesh of this width."""
    import ngsolve
    from netgen.geom2d import Circle, CSG2d, Rectangle

    geometry = CSG2d()
    shape = Rectangle((-0.5, -0.5), (0.5, 0.5), bc="outer")
    for centre in CENTRES:
        shape = shape - Circle(centre, RADIUS, bc="hole")
    geometry.Add(shape)
    mesh = ngsolve.Mesh(geometry.GenerateMesh(maxh=size))
    mesh.Curve(order)
    space = ngsolve.H1(mesh, order=order, dirichlet="outer|hole")
    u, v = space.TnT()
    stiffness = ngsolve.BilinearForm(ngsolve.grad(u) * ngsolve.grad(v) * ngsolve.dx).Assemble()
    found = ngsolve.GridFunction(space)
    found.Set(mesh.BoundaryCF({"outer": 1.0, "hole": 0.0}), ngsolve.BND)
    load = -stiffness.mat * found.vec
    found.vec.data += stiffness.mat.Inverse(space.FreeDofs(), "sparsecholesky") * load
    return np.asarray(found(mesh(at[:, 0], at[:, 1]))).ravel()


def main() -> None:
    at = points()
    finest = finite_elements(14, 0.05, at)
    for order, size in ((8, 0.1), (10, 0.1), (12, 0.1), (10, 0.05), (12, 0.05)):
        apart = float(np.max(np.abs(finite_elements(order, size, at) - finest)))
        print(f"order {order:2d}, width {size}: {apart:.1e} from order 14, width 0.05")
    lines = [f"{x:.4f},{y:.4f},{u:.13f}" for (x, y), u in zip(at, finest, strict=True)]
    heading = f"# x, y, u; two finest meshes agree to {apart:.0e}; python -m {__spec__.name}"
    TABLE.write_text("\n".join([heading, *lines]) + "\n")


if __name__ == "__main__":
    main()
