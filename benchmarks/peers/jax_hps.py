"""jaxhps: Chebyshev collocation on the leaves of a uniform quadtree, merged by their DtN maps."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.polynomial.chebyshev import chebvander2d
from threadpoolctl import threadpool_limits

from benchmarks.peers.peer import Answer, NotApplicableError, Peer, Settings
from benchmarks.peers.problems import Array, Case, Square

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


def sizes(name: str, case: Case) -> list[Settings]:
    if not isinstance(case, Square):
        raise NotApplicableError("solves boundary value problems on squares and cubes only")
    further = 0 if name in LEVELS else int(name.rpartition("-")[2]) - 4
    return [
        {"p": p, "levels": level + further}
        for p, all_levels in LEVELS.get(name, MULTISCALE).items()
        for level in all_levels
    ]


def solve(case: Square, p: int, levels: int) -> Answer:
    import jax.numpy as jnp
    import jaxhps

    domain = _domain(p, levels)
    x, y = np.moveaxis(np.asarray(domain.interior_points), -1, 0)
    problem = jaxhps.PDEProblem(
        domain,
        source=jnp.asarray(case.source(x, y, np)),
        **{name: jnp.asarray(values) for name, values in _coefficients(case, x, y).items()},
    )
    edge = jnp.zeros(len(domain.boundary_points))
    with threadpool_limits(1, user_api="blas"):  # XLA's threads share out the leaves
        u = jaxhps.solve_subtree(problem, edge).block_until_ready()
    return lambda points: _values(np.asarray(u), domain, points)


@cache
def _domain(p: int, levels: int) -> Any:
    """The grid, which no data enter: one can serve any number of problems, so it is kept."""
    import jaxhps

    root = jaxhps.DiscretizationNode2D(xmin=0.0, xmax=1.0, ymin=0.0, ymax=1.0)
    return jaxhps.Domain(p=p, q=p - 2, root=root, L=levels)


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
    side, degrees = 2**domain.L, (domain.p - 1, domain.p - 1)
    nodes = np.asarray(domain.interior_points) * side
    corners = nodes.min(axis=1).round()
    local = (2 * (nodes[0] - corners[0]) - 1).T
    coefficients = np.linalg.solve(chebvander2d(*local, degrees), u.T).T
    number = np.empty((side, side), dtype=int)
    number[tuple(corners.astype(int).T)] = np.arange(len(corners))
    cells = np.minimum((points * side).astype(int), side - 1)
    polynomials = chebvander2d(*(2 * (points * side - cells) - 1).T, degrees)
    return np.einsum("pk,pk->p", polynomials, coefficients[number[tuple(cells.T)]])


JAXHPS = Peer(
    "jaxhps",
    "float64, uniform quadtree, p Chebyshev points per side of a leaf and p - 2 Gauss points, DtN "
    "merges, solve_subtree: local solves, merges, downward pass (its adaptive trees are several "
    "times slower here); XLA with all threads, BLAS with one (faster so, and steadier beside other "
    "work); the Domain, a grid, is made in the cold run only",
    sizes,
    solve,
    requires=("jaxhps",),
    compiled=True,
)
