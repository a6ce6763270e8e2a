"""jaxhps: Chebyshev collocation on the leaves of a uniform quadtree, merged by their DtN maps."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.polynomial.chebyshev import chebvander
from threadpoolctl import threadpool_limits

from benchmarks.peers.peer import Answer, NotApplicableError, Peer, Settings
from benchmarks.peers.problems import Array, Case, Cube, Square

MULTISCALE: dict[int, tuple[int, ...]] = {
    8: (4,),
    9: (4,),
    10: (3,),
    12: (3,),
    14: (3,),
    16: (2, 3),
    18: (2, 3),
    20: (2,),
    24: (2,),
}
"""Levels of the quadtree by points per side of a leaf, for four scales; a level more for each
further one."""

LEVELS: dict[str, dict[int, tuple[int, ...]]] = {
    "helmholtz": {10: (4,), 12: (4,), 14: (4,), 16: (3, 4), 18: (3, 4)},
    "layer": {12: (3,), 16: (3,), 18: (3,), 20: (2, 3), 22: (3,), 24: (2,)},
}


CUBES: dict[int, tuple[int, ...]] = {8: (1, 2), 10: (1, 2), 12: (1, 2), 14: (1,), 16: (1,)}
"""Levels of an octree, for two scales."""


def sizes(name: str, case: Case) -> list[Settings]:
    if isinstance(case, Cube):
        return [{"p": p, "levels": level} for p, levels in CUBES.items() for level in levels]
    if not isinstance(case, Square):
        raise NotApplicableError("solves boundary value problems on squares and cubes only")
    further = 0 if name in LEVELS else int(name.rpartition("-")[2]) - 4
    return [
        {"p": p, "levels": level + further}
        for p, all_levels in LEVELS.get(name, MULTISCALE).items()
        for level in all_levels
    ]


def solve(case: Square | Cube, p: int, levels: int) -> Answer:
    import jax.numpy as jnp
    import jaxhps

    domain = _domain(p, levels, len(case.axes))
    x = np.moveaxis(np.asarray(domain.interior_points), -1, 0)
    coefficients = _in_space(case, x) if isinstance(case, Cube) else _coefficients(case, *x)
    problem = jaxhps.PDEProblem(
        domain,
        source=jnp.asarray(case.source(*x, np)),
        **{name: jnp.asarray(values) for name, values in coefficients.items()},
    )
    edge = jnp.zeros(len(domain.boundary_points))
    with threadpool_limits(1, user_api="blas"):  # XLA's threads share out the leaves
        if isinstance(case, Cube):
            jaxhps.build_solver(problem)
            u = jaxhps.solve(problem, edge).block_until_ready()
        else:
            u = jaxhps.solve_subtree(problem, edge).block_until_ready()
    return lambda points: _values(np.asarray(u), domain, points)


@cache
def _domain(p: int, levels: int, dimension: int) -> Any:
    """The grid, which no data enter: one can serve any number of problems, so it is kept."""
    import jaxhps

    sides = {f"{axis}{end}": float(end == "max") for axis in "xyz" for end in ("min", "max")}
    if dimension == 3:
        root = jaxhps.DiscretizationNode3D(**sides)
    else:
        flat = {name: value for name, value in sides.items() if name[0] != "z"}
        root = jaxhps.DiscretizationNode2D(**flat)
    return jaxhps.Domain(p=p, q=p - 2, root=root, L=levels)


def _in_space(case: Cube, x: Array) -> dict[str, Array]:
    """Of -a Laplace(u) - grad(a) . grad(u)."""
    a = case.varying.value(*x, np)
    found = {f"D_{axis}{axis}_coefficients": -a for axis in case.axes}
    slopes = zip(case.axes, case.varying.slopes, strict=True)
    return found | {f"D_{axis}_coefficients": -slope(*x, np) for axis, slope in slopes}


def _coefficients(case: Square, x: Array, y: Array) -> dict[str, Array]:
    """Of -a Laplace(u) + (b - grad(a)) . grad(u) + c u at the points, without those that vanish."""
    a = np.broadcast_to(case.diffusion(x, y, np), x.shape)
    found = {"D_xx_coefficients": -a, "D_yy_coefficients": -a}
    slopes = [0.0, 0.0] if case.varying is None else [f(x, y, np) for f in case.varying.slopes]
    for name, b, slope in zip(("D_x", "D_y"), case.b, slopes, strict=True):
        if b or case.varying is not None:
            found[f"{name}_coefficients"] = np.broadcast_to(b - slope, x.shape)
    if case.c:
        found["I_coefficients"] = np.full(x.shape, case.c)
    return found


def _values(u: Array, domain: Any, points: Array) -> Array:
    """Each leaf's interpolant; the library's own search compares every point with every leaf."""
    side, d = 2**domain.L, points.shape[1]
    nodes = np.asarray(domain.interior_points) * side
    corners = nodes.min(axis=1).round()
    local = (2 * (nodes[0] - corners[0]) - 1).T
    coefficients = np.linalg.solve(_polynomials(local, domain.p), u.T).T
    number = np.empty((side,) * d, dtype=int)
    number[tuple(corners.astype(int).T)] = np.arange(len(corners))
    cells = np.minimum((points * side).astype(int), side - 1)
    found = np.empty(len(points))
    for leaf in range(len(corners)):
        here = number[tuple(cells.T)] == leaf
        z = (2 * (points[here] * side - cells[here]) - 1).T
        found[here] = _polynomials(z, domain.p) @ coefficients[leaf]
    return found


def _polynomials(z: Array, p: int) -> Array:
    """Products of Chebyshev's polynomials at points (d, n), (n, p^d)."""
    found = np.ones((z.shape[1], 1))
    for one in z:
        found = (found[:, :, None] * chebvander(one, p - 1)[:, None]).reshape(len(found), -1)
    return found


JAXHPS = Peer(
    "jaxhps",
    "float64, uniform quadtree, p Chebyshev points per side of a leaf and p - 2 Gauss points, DtN "
    "merges, solve_subtree: local solves, merges, downward pass, on the cube an octree by "
    "build_solver and solve (its adaptive trees are several "
    "times slower here); XLA with all threads, BLAS with one (faster so, and steadier beside other "
    "work); the Domain, a grid, is made in the cold run only",
    sizes,
    solve,
    requires=("jaxhps",),
    compiled=True,
)
